"""Objects of subclasses of builtins are copied as such, with their attributes; refusals name their class."""

import copy

import torch


class Text(str):
    pass


class Number(int):
    pass


class Chosen(frozenset):
    pass


class Refusing(str):
    __radd__ = None


OUTSIDE = Text("outside")
OUTSIDE.mark = 5


def told(function, *args):
    try:
        return function(*args)
    except TypeError as error:
        return str(error)


def fn(x):
    number, chosen = Number(3), Chosen([1])
    number.mark = 4
    copies = [copy.copy(OUTSIDE), copy.deepcopy(OUTSIDE), copy.copy(number), copy.deepcopy(number),
              copy.copy(Text("a")), chosen.copy(), copy.copy(chosen)]
    return (x + 1, [(type(one).__name__, one, getattr(one, "mark", None)) for one in copies], chosen.copy() is chosen,
            told(lambda: 1 + Text("a")), told(lambda: 2 ** Text("a")), told(lambda: 1 + Refusing("a")))


def make():
    return fn, [((torch.ones(2),), {})] * 2, lambda index: None, lambda: {}
