"""A column of an expanded argument was changed, whose elements share memory: the copy back of all of it was refused."""

import torch


def fn(x, y):
    y.t()[0] = 1
    t = x * 2
    t[0] = t[1]
    return x.unbind()[1], t


def use(fn, args, kwargs):
    with torch.no_grad():
        return fn(args[0], args[1][:, None, 0].expand(3, 3)[:2])


def make():
    x = torch.ones(2, 3, requires_grad=True)
    y = torch.zeros(3, 3, requires_grad=True)
    return fn, [((x, y), {})], lambda index: None, lambda: {"y": y}, use
