"""Copies of deques of a subclass that overrides an operator, and numbers and texts whose ``==`` does not answer."""

from collections import deque

import torch


class Reflected(deque):
    def __rmul__(self, other):
        return super().__rmul__(other)


class Silent(int):
    def __eq__(self, other):
        return NotImplemented

    def __lt__(self, other):
        return NotImplemented


class Text(str):
    def __eq__(self, other):
        return NotImplemented


class Nameless(int):
    __repr__ = property(len)


def make():
    def fn(x, n):
        items = Reflected([x, 1], None)
        more = items
        more *= 2
        types = [type(more), more is items, type(items * 2), type(3 * items), type(items + deque([2])),
                 type(deque.__mul__(items, 2)), list(items.__add__(items))]
        answers = [n == 3, 3 == n, n != 3, 4 == n, n == "3", 2 > n, n < 4, Text("a") == "a", "b" == Text("a"),
                   Silent(3) == Silent(3), n == x.shape[0], x.shape[0] == n, 1.5 != n, n == 3.0]
        return x + 1, types, answers, repr(Nameless(1))[:9]

    return fn, [((torch.ones(rows), Silent(3)), {}) for rows in (3, 4)], lambda index: None, dict
