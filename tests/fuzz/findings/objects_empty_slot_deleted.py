"""Deleting a slot relied on its being filled without a guard: the second deletion raised nothing."""

import torch


class Slots:
    __slots__ = ("a",)


def make():
    held = Slots()
    held.a = 1

    def fn(x):
        try:
            del held.a
        except AttributeError as error:
            return x + 1, str(error)
        return x + 1

    return fn, [((torch.ones(3),), {})] * 2, lambda index: None, lambda: {}
