"""A metaclass that calls its classes equal to anything: their objects were taken for locks, without attributes."""

import torch


class Equal(type):
    def __eq__(cls, other):
        return True

    __hash__ = type.__hash__

    def __call__(cls, n=0):
        known = cls.__dict__.get("only")
        if known is None:
            known = super().__call__(n)
            cls.only = known
        return known


def make():
    class Single(metaclass=Equal):
        def __init__(self, n=0):
            self.n = n

    def fn(x):
        try:
            return x * 2, Single(3).n
        except Exception as error:
            return x * 2, type(error)

    calls = [((torch.ones(2),), {}) for _ in range(3)]
    return fn, calls, lambda index: None, dict
