"""Sets that were made and changed in front of a break: what is left of them iterates as its past says."""

import torch

import firesteel as fs


def fn(x):
    numbers = {n * 3 % 16 for n in range(5)}
    numbers.discard(max(numbers))
    joined = {0, 8, 16} | {24, 1}
    joined -= {0}
    joined.add(33)
    copied = numbers.copy()
    frozen = frozenset([8, 16, 0]) | {24, 1, 2}
    shown = repr(numbers), repr(joined)
    y = x + 1
    fs.graph_break()
    joined.add(40)
    return y, shown, list(numbers), list(joined), list(copied), list(frozen)


def make():
    return fn, [((torch.ones(2),), {})], lambda index: None, lambda: {}
