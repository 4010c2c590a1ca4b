"""A set made of a set with an `__iter__` of its own, behind a break: Python takes its elements from memory."""

import torch

LOG = []


class Other(set):
    def __iter__(self):
        LOG.append("iter")
        return super().__iter__()


class Frozen(frozenset):
    def __iter__(self):
        LOG.append("frozen iter")
        return iter(())


def make():
    things = [None, object()]  # whose order nobody knows, so the set is made for real

    def fn(x, one, two):
        return x + 1, frozenset(one) == one, set(one), set(two), frozenset(two)

    calls = [((torch.ones(2), Other(things), Frozen(things)), {}) for _ in range(2)]
    return fn, calls, lambda index: None, lambda: {"log": list(LOG)}
