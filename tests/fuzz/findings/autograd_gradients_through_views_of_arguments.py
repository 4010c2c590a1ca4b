"""Gradients of what an argument and a view of it make, in the function: those through the view were missing."""

import torch


def fn(x, y, several):
    t = x * y
    if x.is_leaf and not several:
        t.sum().backward(retain_graph=True)
        return x.grad * 2
    inputs = [x, y] if several else x
    return torch.autograd.grad(t.sum(), inputs, retain_graph=True)[0] * 2


def use(fn, args, kwargs):
    x, inner, several = args
    if inner:
        x = x * 1
    return fn(x, x[:], several)


def make():
    x = torch.ones(2, 3, requires_grad=True)
    calls = [((x, inner, several), {}) for inner in (False, True) for several in (False, True)]
    return fn, calls, lambda index: setattr(x, "grad", None), lambda: {}, use
