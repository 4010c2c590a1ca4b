"""Keys that are torch.Size or named tuples and that an OrderedDict does not have: they become the error's arguments."""

import collections

import torch

Pair = collections.namedtuple("Pair", "first second")


def told(function, key):
    try:
        return function(key)
    except KeyError as error:
        return str(error), type(error.args).__name__, error.args


def fn(x):
    ordered = collections.OrderedDict(a=1, b=2)
    return [told(ordered.pop, x.shape), told(ordered.move_to_end, Pair(x.shape, 1)), told(ordered.pop, (1, 2)),
            told({}.pop, x.shape)], x + 1


def make():
    return fn, [((torch.ones(2, 3),), {}), ((torch.ones(3, 3),), {})], lambda index: None, lambda: {}
