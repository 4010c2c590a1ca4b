"""Python takes an integer of a subclass for what it is; capture called its `__index__`."""

import operator

import torch

LOG = []


class Number(int):
    def __index__(self):
        LOG.append("__index__")
        return 2


def make():
    def fn(x, n):
        return x[n], [0, 1, 2, 3][n], [1] * n, operator.index(n), range(4)[n], "abc"[n:], float(n), (5, 6)[Number(0)]

    return fn, [((torch.arange(4.0), Number(1)), {}) for _ in range(2)], lambda index: None, lambda: {"log": list(LOG)}
