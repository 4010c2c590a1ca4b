"""Constant keys between others were not guarded; OrderedDict asked no item of its operand; `%` made copies."""

import collections

import torch


class Holder:
    def method(self):
        return 1


class Made(collections.defaultdict):
    def __getitem__(self, key):
        return "made"


class Text(str):
    pass


def fn(x, ordered, made):
    text = Text("word")
    before = list(ordered)
    ordered.move_to_end(())
    out = [before, collections.OrderedDict(a=1) | made, collections.OrderedDict(made), {**made}, text % (), text % {}]
    return out, text, x * 2


def make():
    ordered = collections.OrderedDict([(Holder().method, [1]), ((), 2**70), (fn, "b")])
    made = Made(list, b=[1])
    return fn, [((torch.ones(3), ordered, made), {}) for _ in range(3)], lambda index: None, lambda: {}
