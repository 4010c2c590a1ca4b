"""Wrong calls of builtins raised something else, another message, past the program's own `except`, or nothing."""

import collections
import operator

import torch


class Attributes:
    pass


class Sequence:
    def __getitem__(self, index):
        return [5][index]


class Index:
    def __init__(self, index):
        self.index = index

    def __index__(self):
        return self.index


class Indexed(list):
    def __index__(self):
        return 2


class Added(str):
    def __radd__():
        pass


class Number(float):
    pass


class NoIterator:
    __iter__ = 5


CASES = (
    lambda x, n, f: {}.pop([1]),
    lambda x, n, f: {}.pop([1], 2),
    lambda x, n, f: {1: 2}.pop([1], 2),
    lambda x, n, f: collections.deque([1]).rotate("s"),
    lambda x, n, f: operator.delitem(1j, n),
    lambda x, n, f: operator.delitem("abc", n),
    lambda x, n, f: "ab" * Indexed(),
    lambda x, n, f: [1] + Added(),
    lambda x, n, f: [1] * Index(None),
    lambda x, n, f: [1] * Index(10**30),
    lambda x, n, f: [1] * 10**30,
    lambda x, n, f: operator.concat(Sequence(), 2.5),
    lambda x, n, f: operator.iand(n, f),
    lambda x, n, f: print(n, sep=["a"]),
    lambda x, n, f: object.__setattr__(Attributes(), 2, "a"),
    lambda x, n, f: Attributes().__getattribute__(2),
    lambda x, n, f: {}.__setattr__([], **{1: 2}),
    lambda x, n, f: x.size(n),
    lambda x, n, f: ",".join(NoIterator()),
    lambda x, n, f: Number(10**400),
    lambda x, n, f: n in print,
    lambda x, n, f: [1, 2, 3][Index(10**30)],
    lambda x, n, f: max(1j, 2.5, default=x),
    lambda x, n, f: x[lambda: n],
    lambda x, n, f: x[0][{1}],
    lambda x, n, f: torch.stack({1: x}.values()),
)


def fn(x, n, f):
    out = []
    for case in CASES:
        try:
            out.append(case(x, n, f))
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return out, x * 2


def make():
    calls = [((torch.arange(6.0).reshape(2, 3), 2, 1.5), {}), ((torch.ones(3, 3), 3, 0.5), {})]
    return fn, calls, lambda index: None, lambda: {}
