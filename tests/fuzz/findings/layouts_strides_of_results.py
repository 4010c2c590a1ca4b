"""Strides of results: a step over a dimension of size 1 was lost, `index_fill` with gaps was contiguous."""

import torch


def fn(x, y, index):
    return (x + 1)[0::4], y.index_fill(0, index, 1)


def make():
    calls = [((torch.arange(1.0), torch.arange(22.0).as_strided((3, 4), (1, 6), 1), torch.tensor([0, 2])), {})]
    return fn, calls, lambda index: None, lambda: {}
