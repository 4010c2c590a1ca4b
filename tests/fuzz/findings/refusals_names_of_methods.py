"""A method that takes no arguments was called by another name in the message."""

import torch


class Numbers(list):
    pass


def fn(x, numbers, what):
    if what == "t":
        return x.t(0)
    if what == "clear":
        return numbers.clear(x)
    bound = x.numel
    return bound(1)


def make():
    calls = [((torch.ones(2, 2), Numbers([1]), what), {}) for what in ("t", "clear", "bound")]
    return fn, calls, lambda index: None, lambda: {}
