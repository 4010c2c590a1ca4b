"""Indices beyond the end raised where the slices they name have no elements: eager does not look at them then."""

import torch


def fn(x, i):
    return x.index_fill(0, i, 3.0) + 1, x.index_add(0, i, x[:1]) + 1, x[i] + 1, x.index_copy(0, i, x[:1]) + 1


def make():
    return fn, [((torch.ones(5, 0), torch.tensor([7])), {}), ((torch.ones(5, 2), torch.tensor([3])), {})], \
        lambda index: None, lambda: {}
