"""Copies, sums and multiples of objects of subclasses of deque are of the subclass, made by calling it."""

from collections import deque

import torch


class Named(deque):
    def copy(self):
        return "its own"


class Counted(deque):
    def __init__(self, *args):
        super().__init__(*args)
        self.given = len(args)


def fn(x):
    named, counted = Named([1, 2], 5), Counted([1], 3)
    return (x + 1, named * -1, named * 2, 2 * named, named + deque([3]), named.copy(), deque([1]) + named,
            counted * 2, (counted + counted).given, counted.copy().given, Counted([1]).copy().given)


def make():
    return fn, [((torch.ones(2),), {})] * 2, lambda index: None, lambda: {}
