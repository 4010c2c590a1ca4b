"""The callback of a weak reference to a local object: the reference went first, so it did not run at the return."""

import weakref

import torch


class Node:
    pass


def make():
    ended = []

    def fn(x, drop):
        node = Node()
        node.value = x + 1
        reference = weakref.ref(node, lambda gone: ended.append(drop))
        if drop:
            del node
        return x * 2, reference() is None, len(ended)

    calls = [((torch.ones(2), drop), {}) for drop in (False, True, False)]
    return fn, calls, lambda index: None, lambda: {"ended": ended}
