"""Remainders of vectors with a huge constant in them were computed in double precision: the kernel read outside."""

import torch


def make():
    def fn(x, n):
        return torch.roll(x, (x.numel() - 3 - n) >> 2) + 1

    base = torch.arange(144, dtype=torch.float64).reshape(12, 12)
    calls = [((base[:rows, 1 : columns + 1], 2**64), {}) for rows, columns in ((3, 5), (2, 6), (4, 3))]
    return fn, calls, lambda index: None, dict
