"""Hooks on saved tensors change gradients inside too, also those of a graph that has no backward of its own."""

import torch


def fn(x, y):
    x.square().sum().backward()
    if y.sum() > 0.37:  # a graph ends here, of whose results none needs gradients
        y = y * y
    z = y.detach().clone().requires_grad_()
    gradient, = torch.autograd.grad((z * z * z).sum(), z)
    return y, gradient


def other(y):
    z = y.detach().clone().requires_grad_()
    return torch.autograd.grad((z * z * z).sum(), z)


def both(x, y):
    return fn(x, y) if x is not None else other(y)


def use(fn, args, kwargs):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        return fn(*args)


def make():
    def leaf(*numbers):
        return torch.tensor(numbers).requires_grad_()

    calls = [(leaf(1.0, 2.0), leaf(1.0, 3.0)), (leaf(1.0, 2.0), leaf(-1.0, -3.0)), (None, torch.tensor([1.0, 2.0]))]
    return both, [(args, {}) for args in calls], lambda index: None, dict, use
