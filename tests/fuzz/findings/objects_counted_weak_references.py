"""A weak reference that only a variable held did not count behind a break."""

import weakref

import torch


class Plain:
    pass


def make():
    known = Plain()

    def fn(x):
        y = x + 1
        held = weakref.ref(known)  # noqa: F841
        count = weakref.getweakrefcount(known)
        return y * 2, count, len(weakref.getweakrefs(known))

    return fn, [((torch.ones(3),), {})] * 2, lambda index: None, lambda: {"count": weakref.getweakrefcount(known)}
