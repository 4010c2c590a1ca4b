"""A method that was added to ``torch.Tensor``, replaced and deleted: compiled code called it on and on."""

import torch


def fn(x, always):
    y = x * 2
    if always:
        return y.firesteel_added()
    if hasattr(y, "firesteel_added"):
        y = y.firesteel_added()
    return x + x.firesteel_added() if hasattr(x, "firesteel_added") else y


def make():
    def before(index):
        if index in (1, 4):
            torch.Tensor.firesteel_added = lambda self: self * 9
        if index in (2, 5):
            torch.Tensor.firesteel_added = lambda self: self - 1
        if index in (3, 6):
            del torch.Tensor.firesteel_added

    calls = [((torch.ones(2), always), {}) for always in (False, False, False, False, True, True, True)]
    return fn, calls, before, lambda: {}
