"""A set made of one of a subclass takes its elements, whatever its `__iter__` gives."""

import torch


class Others(frozenset):
    def __iter__(self):
        return iter([1, "two"])


def make():
    def fn(x, others):
        return x + 1, frozenset(others) == others, set(others), {5} | others, list(others)

    return fn, [((torch.ones(2), Others([1])), {}) for _ in range(2)], lambda index: None, dict
