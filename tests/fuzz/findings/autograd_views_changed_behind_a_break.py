"""A view changed behind a break by what is returned beside its base: there was no gradient between the two."""

import torch


def fn(x, y):
    t = x.t()
    if y.sum() > 0.37:
        y = y * 1
    y[0] = 1
    t.add_(y.sum())
    return y, x


def use(fn, args, kwargs):
    y, x = fn(*args)
    y.register_hook(lambda gradient: gradient * 2)
    gradients = torch.autograd.grad(x.sum(), y, retain_graph=True, allow_unused=True)
    (x.sum() + y.sum()).backward()
    return gradients


def make():
    leaf = torch.linspace(0.4, 1.6, 6).reshape(2, 3).requires_grad_()
    return fn, [((leaf * 2, leaf * 1), {})], lambda index: setattr(leaf, "grad", None), lambda: leaf, use
