"""Tensors made of one array of NumPy lie in one memory and have storages of their own: writes to one were not seen in
the other."""

import numpy
import torch


def fn(x, y):
    x.add_(1)
    z = y * 2
    y.mul_(3)
    return z, x + y


def make():
    array = numpy.arange(6, dtype=numpy.float32)
    pairs = [(array[:2], array[4:]), (array[:3], array[:3]), (array[:3], array[3:]), (array[:4], array[2:])]
    calls = [(tuple([torch.from_numpy(each) for each in pair]), {}) for pair in pairs]
    return fn, calls, lambda index: None, lambda: {"array": torch.from_numpy(array)}
