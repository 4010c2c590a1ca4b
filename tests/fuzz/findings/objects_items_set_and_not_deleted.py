"""Classes that have one of __setitem__ and __delitem__: Python says of the other one that the attribute is missing."""

import operator

import torch


class Sets:
    def __setitem__(self, key, item):
        pass


class Deletes:
    def __delitem__(self, key):
        pass


class Neither:
    pass


def told(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__, str(error)


def fn(x):
    return [told(operator.delitem, cls(), 0) for cls in (Sets, Deletes, Neither, object)] + [
        told(operator.setitem, cls(), 0, 1) for cls in (Sets, Deletes, Neither, object)], x + 1


def make():
    return fn, [((torch.ones(2),), {})], lambda index: None, lambda: {}
