"""Capture called methods of the program: `__hash__` of the keys of a dictionary behind a break, and those of what a
mappingproxy shows."""

import collections
import types

import torch

LOG = []


class Key:
    def __hash__(self):
        LOG.append("__hash__")
        return 3

    def __eq__(self, other):
        LOG.append("__eq__")
        return self is other


class Shown(dict):
    def __iter__(self):
        LOG.append("__iter__")
        return super().__iter__()

    def __getitem__(self, key):
        LOG.append("__getitem__")
        return super().__getitem__(key)


def make():
    key, shown, ordered = Key(), Shown(a=1, b=2), collections.OrderedDict({1: 2, Key(): 4})

    def fn(x):
        LOG.clear()
        made = {key: 1}
        made[key] = 2
        y = x + len(made)
        proxy = types.MappingProxyType(shown)
        shown["c"] = 3
        y = y + len(proxy) + len(list(proxy))
        total = sum(value for value in ordered.values()) + proxy["a"]
        return y * total, list(LOG)

    calls = [((torch.arange(3.0),), {})] * 3
    return fn, calls, lambda index: None, lambda: list(LOG)
