"""`__dict__` of a class did not show attributes set in the same call: a singleton's metaclass made a second one."""

import torch


class Single(type):
    def __call__(cls, n=0):
        known = cls.__dict__.get("only")
        if known is None:
            known = cls.only = super().__call__(n)
        return known


def make():
    class Only(metaclass=Single):
        def __init__(self, n):
            self.n = n

    def fn(x):
        return x + 1, Only() is Only(), Only(3).n

    return fn, [((torch.ones(3),), {})] * 2, lambda index: None, lambda: {"names": list(vars(Only))}
