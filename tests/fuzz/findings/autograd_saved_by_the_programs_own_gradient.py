"""What only a gradient inside of the program needs was taken for saved by eager, and a later change of it refused."""

import torch


def fn(x):
    (gradient,) = torch.autograd.grad(x.square().sum(), x)
    return x * gradient


def use(fn, args, kwargs):
    x = args[0] * 1
    result = fn(x)
    x.mul_(2)
    result.sum().backward()
    return result


def make():
    leaf = torch.linspace(0, 1, 6, requires_grad=True)
    return fn, [((leaf,), {})], lambda index: None, lambda: {"leaf": leaf}, use
