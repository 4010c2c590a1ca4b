"""Calls with something behind a star that cannot be taken apart: Python named what compiled code calls instead."""

import torch

import firesteel as fs


def plain(a):
    return a


class Called:
    def method(self, a):
        return a

    def __str__(self):
        return "called"

    def __call__(self, a):
        return a


def make():
    called, layer = Called(), torch.nn.Linear(1, 1)

    def fn(x):
        texts = []
        for function in (max, sorted, plain, called.method, called, layer):
            fs.graph_break()
            try:
                function(*5)
            except TypeError as error:
                texts.append(str(error))
            try:
                function(**5)
            except TypeError as error:
                texts.append(str(error))
        return x + 1, texts

    return fn, [((torch.ones(2),), {}) for _ in range(2)], lambda index: None, dict
