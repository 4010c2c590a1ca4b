"""Subclasses of deque and str: compiled code filled deques through their own ``extend``, extended by themselves they
raised, and the format of a text of one's own did not ask for its ``__str__``."""

from collections import deque

import torch

LOG = []


class Logged(deque):
    def clear(self):
        LOG.append("clear")
        super().clear()

    def extend(self, other):
        LOG.append("extend")
        super().extend(other)


class Added(deque):
    def __add__(self, other):
        return super().__add__(other)


class Word(str):
    def __str__(self):
        LOG.append("str")
        return super().__str__()

    def __format__(self, spec):
        return super().__format__(spec)


def make():
    kept = Logged([1], 3)

    def fn(x):
        new, bounded, free = Logged([1, 2], 3), Added([1, 2, 3], 3), Added([x])
        new *= 2
        bounded.extend(bounded)
        free.extend(free)
        kept.appendleft(2)
        kept.rotate(1)
        return x + 1, new, bounded, free, f"{Word('a')}", f"{Word('a'):3}"

    return fn, [((torch.ones(2),), {}) for _ in range(3)], lambda index: None, lambda: {"kept": kept, "log": list(LOG)}
