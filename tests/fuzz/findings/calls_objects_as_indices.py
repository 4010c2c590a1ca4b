"""Objects of the program's as indices of lists and tuples: the error was the one of other builtins."""

import collections

import torch


class Plain:
    pass


class First:
    def __index__(self):
        return 0


def refused(call):
    try:
        return call()
    except (TypeError, IndexError) as error:
        return type(error).__name__, str(error)


def changed(items, index):
    items[index] = 5
    return items


def deleted(items, index):
    del items[index]
    return items


def fn(x):
    out = []
    for index in (Plain(), First(), "a", None, 1.5, slice(1), True, 7, [0]):
        for make in (lambda: [1, 2], lambda: (1, 2), lambda: collections.deque([1, 2])):
            out.append(refused(lambda: make()[index]))
            out.append(refused(lambda: make().__getitem__(index)))
        for make in (lambda: [1, 2], lambda: collections.deque([1, 2])):
            if type(index) is not slice:
                out.append(refused(lambda: changed(make(), index)))
                out.append(refused(lambda: deleted(make(), index)))
    for index in (slice(0, 1), slice(None, None, 2)):
        out.append(refused(lambda: changed([1, 2], index)))
    out += [refused(lambda: deleted(Plain(), index)) for index in (0, "a", None, First(), slice(1))]
    out.append(refused(lambda: {}.update(x)))
    return out, x * 2


def make():
    return fn, [((torch.ones(2),), {})], lambda index: None, lambda: {}
