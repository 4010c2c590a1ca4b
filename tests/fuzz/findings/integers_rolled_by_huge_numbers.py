"""Remainders of integers above 2**52 in vectors were computed in double precision: the kernel read far outside."""

import torch


def make():
    def fn(x, n):
        return torch.roll(x, abs(x.numel() * n) >> 2, 1) + 1

    x = torch.arange(15.0).reshape(3, 5)
    return fn, [((x, n), {}) for n in (-(2**40), 2**53 + 1, 1, 7)], lambda index: None, dict
