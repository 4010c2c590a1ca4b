"""An input that gets another layout in place: the graph before a break was compiled for the new layout."""

import torch


def fn(x, y):
    x.add_(y)
    x.as_strided_((2,), (2,))
    y.add_(x)  # raises
    return x


def make():
    x = torch.ones(3)
    return fn, [((x, torch.ones(3)), {})], lambda index: None, lambda: {"x": x}
