"""A set that has lost an object in the program: in its place came a key of the compiler's."""

import torch


def helper(x):
    return x + 1


def make():
    def fn(x, items):
        items ^= items
        made = {helper, 1}
        made -= {helper}
        return x + 1, items, made, {helper, 2} ^ {helper}

    return fn, [((torch.ones(2), {helper}), {}) for _ in range(2)], lambda index: None, dict
