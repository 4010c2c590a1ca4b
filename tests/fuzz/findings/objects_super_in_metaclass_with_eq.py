"""super() in a metaclass whose classes all are equal was taken for one of the class itself."""

import torch


class Equal(type):
    def __call__(cls, *args):
        return super().__call__(*args)

    def __eq__(cls, other):
        return True

    __hash__ = type.__hash__


class Thing(metaclass=Equal):
    def __init__(self, n=0):
        self.n = n


def make():
    return lambda x: (x + 1, Thing(3).n), [((torch.ones(3),), {})] * 2, lambda index: None, lambda: {}
