"""A view was given the memory of another tensor through ``data``: it was taken to be in the memory of its base."""

import torch


def make():
    a, b = torch.arange(3.0), torch.zeros(4)[1:]
    b.data = a

    def fn(x):
        b.add_(x)
        a.add_(3)
        return b * 2

    return fn, [((torch.ones(3),), {})] * 2, lambda index: None, lambda: {"a": a, "b": b}
