"""Reflected operators of views of dictionaries with a frozenset, which make sets."""

import torch


def fn(x, other):
    keys, items = {"a": 1, "b": 2}.keys(), {"a": 1, "b": 2}.items()
    results = [keys.__ror__(other), keys.__rand__(other), keys.__rxor__(other), items.__ror__(other),
               items.__rand__(other), items.__rxor__(other)]
    return x + 1, [(type(result).__name__, result) for result in results]


def make():
    calls = [((torch.ones(2), frozenset(("a", ("b", 2)))), {}), ((torch.ones(2), {"a", ("b", 2)}), {})]
    return fn, calls, lambda index: None, lambda: {}
