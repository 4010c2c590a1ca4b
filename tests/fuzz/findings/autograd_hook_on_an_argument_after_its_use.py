"""A hook registered on an argument after its use was called with None in a backward from another result."""

import torch


def fn(x, z):
    a = x.sin()
    b = z * x
    z.register_hook(lambda g: g * 2)
    return a, b


def use(fn, args, kwargs):
    results = fn(*args)
    for result in results:
        result.sum().backward(retain_graph=True)
    return results


def make():
    leaves = [torch.full((3,), value, requires_grad=True) for value in (1.0, 2.0)]
    return fn, [(tuple(leaves), {})] * 2, lambda index: None, lambda: {"leaves": leaves}, use
