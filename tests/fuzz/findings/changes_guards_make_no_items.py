"""Guards read items of a defaultdict, and of a dictionary with its own __missing__, by [], which made missing ones."""

import collections

import torch


class Doubling(dict):
    def __missing__(self, key):
        self[key] = 2 * len(self)
        return self[key]


def make():
    table, other = collections.defaultdict(lambda: 2, a=1), Doubling(a=1)

    def fn(x):
        return x * table.get("a", 5), x * other.get("a", 5), len(table), len(other)

    def before(index):
        if index == 2:
            table.clear()
            other.clear()

    return fn, [((torch.ones(3),), {}) for _ in range(5)], before, lambda: {"items": [dict(table), dict(other)]}
