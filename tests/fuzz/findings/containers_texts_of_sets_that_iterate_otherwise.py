"""The text of a set of a subclass is made of what its own __iter__ gives, and its own __len__ is asked."""

import torch

LOG = []


class Frozen(frozenset):
    def __len__(self):
        LOG.append("frozen")
        return super().__len__()


class Other(set):
    def __iter__(self):
        LOG.append("other")
        return iter([4, "five", [int]])


def make():
    def fn(x, *sets):
        return x + 1, [(repr(one), str(one), f"{one}") for one in sets]

    calls = [((torch.ones(3), Frozen([1]), Other([1]), Other()), {})]
    return fn, calls, lambda index: None, lambda: LOG
