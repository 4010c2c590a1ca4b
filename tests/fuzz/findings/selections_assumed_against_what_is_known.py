"""A branch on how much data selects went the way of the first call for ever: that contradicted what the layout of a
result had been taken for, and was not asserted."""

import torch


def make():
    def fn(w, mask):
        part = w[mask][:, mask]
        double = part * 2
        if part.shape[0] > 0:
            return double
        return part[:, 2]

    def use(fn, args, kwargs):
        try:
            return fn(*args)
        except IndexError as error:
            return str(error)

    masks = [torch.tensor(bits, dtype=torch.bool) for bits in ([0, 0, 0, 0], [1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 0])]
    return fn, [((torch.arange(16.0).view(4, 4), mask), {}) for mask in masks], lambda index: None, dict, use
