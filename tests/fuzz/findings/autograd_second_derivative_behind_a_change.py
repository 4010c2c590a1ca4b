"""A second derivative was refused because an input had been changed that no gradient needs."""

import torch


def fn(x, y):
    return torch.nn.functional.layer_norm(x, (3,)) + y.mean(), y + x


def use(fn, args, kwargs):
    x, y = args
    a, _ = fn(x, y)
    y.mul_(2)
    g, = torch.autograd.grad(a.cos().sum(), x, create_graph=True)
    return torch.autograd.grad(g.square().sum(), x)


def make():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    return fn, [((x, torch.ones(2, 3)), {})], lambda index: None, lambda: {}, use
