"""A number that varies was formatted by its own class where a base was asked; `in` had the words of what it asked for
an iterator; a message looked up a name in an object whose `__getattr__` is no function."""

import collections

import torch


class NoIterator:
    __iter__ = 5


class NoNames(str):
    __getattr__ = None

    def __matmul__(self, other):
        return NotImplemented


def tried(out, function, *args):
    try:
        out.append(function(*args))
    except Exception as error:
        out.append((type(error).__name__, str(error)))


def fn(x, f):
    out = []
    tried(out, lambda o: 1 in o, NoIterator())
    tried(out, lambda o: list(o), NoIterator())
    tried(out, lambda o: x @ o, NoNames())
    tried(out, collections.OrderedDict.__format__, f, "a")
    tried(out, object.__format__, f, "")
    return out, x * 2


def make():
    return fn, [((torch.ones(3), f), {}) for f in (1.5, 0.5, 0.25)], lambda index: None, lambda: {}
