"""Operators in place that raise half-way: what they had done was done again when the function ran once more."""

import torch


def fn(x, y, index, way):
    if way == 0:
        torch._foreach_add_([x, y], 1.0)
    elif way == 1:
        x.index_add_(0, index, y)
    elif way == 2:
        doubled = x * 2
        x[index] = doubled
    elif way == 3:
        x.to(torch.int64).floor_divide_(index)
        x[1:].put_(index, y, accumulate=True)
    return x


def make():
    beyond = torch.tensor([0, 1, 9])
    calls = [((torch.ones(3), torch.ones(1).expand(3), beyond, 0), {}),
             *[((torch.ones(3), torch.ones(3), beyond, way), {}) for way in (1, 2, 3)],
             ((torch.ones(3), torch.ones(3), torch.tensor([1, 1, 5]), 3), {})]
    return fn, calls, lambda index: None, lambda: {}
