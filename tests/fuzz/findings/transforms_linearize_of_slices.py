"""linearize of a function that takes slices failed inside."""

import torch
from torch.func import linearize


def make():
    def fn(x):
        value, push = linearize(lambda a: a[1:] * a[:-1], x)
        return value, push(torch.ones_like(x))

    return fn, [((torch.arange(4.0),), {}), ((torch.arange(6.0),), {})], lambda index: None, dict
