"""A tensor changed through ``data``, which autograd is not to notice: backward was refused."""

import torch


def fn(x, y):
    x.data[1:].mul_(y.data[:1])
    return x * y.detach(), torch.zeros(3)


def use(fn, args, kwargs):
    x, y = args[0].exp(), args[1]
    result = fn(x, y)
    x.sum().backward()
    return result, x._version, args[0].grad


def make():
    x = torch.ones(2, 3, requires_grad=True)
    y = torch.full((2, 3), 3.0)
    return fn, [((x, y), {}), ((x, y.clone().requires_grad_()), {})], lambda index: None, lambda: {}, use
