"""Lists and tuples of classes that torch asks for more than their items, as indices and as data."""

import torch


class Anything(list):
    def __getattr__(self, name):
        return 1


class Long(list):
    def __len__(self):
        return 1


class Packed(tuple):
    __dlpack__ = 5


class Reversed(tuple):
    def __iter__(self):
        return iter((1, 0))


def attempt(function):
    try:
        return function()
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        return type(error).__name__


def fn(x):
    y = x + 1
    out = []
    for made in (Anything(), Long(), Packed(), Reversed((0, 0))):
        out += [attempt(lambda: y[made]), attempt(lambda: y[0, made]), attempt(lambda: torch.tensor(made)),
                attempt(lambda: torch.tensor([made])), attempt(lambda: torch.zeros(made))]
    return out, y * 2


def make():
    return fn, [((torch.arange(6.0).reshape(2, 3),), {})], lambda index: None, lambda: {}
