"""Gradients of a result are differentiated again where what other results were computed from has been freed."""

import torch


def fn(x):
    a = x.sin() + x
    a.register_hook(lambda g: g * 2)
    b = a * x
    c = x.cos()
    (a.square() + b).sum().backward()
    return c


def use(fn, args, kwargs):
    result = fn(*args)
    first, = torch.autograd.grad(result.cos().sum(), args, create_graph=True)
    second, = torch.autograd.grad(first.square().sum(), args, retain_graph=True)
    return result.detach(), first.detach(), second


def make():
    calls = [((torch.tensor(numbers, dtype=torch.float64).requires_grad_(),), {}) for numbers in ([1, 2, 3], [0.5, 2])]
    return fn, calls, lambda index: None, dict, use
