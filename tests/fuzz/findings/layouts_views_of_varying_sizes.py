"""A result that is a whole view of what the graph computed, with strides that are symbols, failed in the backend."""

import torch


def make():
    def fn(x):
        y = x * 2
        return y, y.view(x.shape), y[:]

    calls = [((torch.randn(size, 4),), {}) for size in (3, 4, 5)]

    def before(index):
        pass

    def observe():
        return {}

    return fn, calls, before, observe
