"""The number of elements that a mask selects was compared with another size once, then never again: memory was read."""

import torch


def fn(x, m, y):
    return x[m] + y


def make():
    masks = ([1, 0, 1, 0], [1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1])
    calls = [((torch.ones(4), torch.tensor(m).bool(), torch.ones(2)), {}) for m in masks]
    return fn, calls, lambda index: None, lambda: {}
