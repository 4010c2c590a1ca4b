"""Calls that Python refuses, and what it says: who refuses, what it names, and which of two is asked first."""

import collections

import torch


class Word(str):
    def __lt__(self, *args):
        return None

    def __complex__(self, other):
        return 1


class Items(list):
    def __repr__(self, *args):
        return b"a"


class Entered:
    __enter__ = property(len)


def entered(manager):
    with manager as inner:
        return inner


def told(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__, str(error)


def make():
    def fn(x):
        texts = [told(lambda: 1 < Word("a")), told(lambda: complex(Word("a"))), told(lambda: complex(Word("2j"))),
                 told(lambda: str(Items())), told(lambda: f"{Items()}"), told(lambda: entered(Entered())),
                 told(lambda: collections.namedtuple(2.5, str, "")), told(lambda: collections.namedtuple("a"))]
        return x + 1, texts

    calls = [((torch.ones(2),), {}) for _ in range(2)]
    return fn, calls, lambda index: None, dict
