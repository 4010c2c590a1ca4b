"""Padding that arithmetic on a varying number makes 0 copies a transposed tensor as it lies."""

import torch
import torch.nn.functional as F


def fn(x, n):
    return F.pad(x, (0, n // 7), value=1.0) * 2


def make():
    calls = [((torch.arange(24.0).reshape(6, 4).t(), n), {}) for n in (0, 5, 8, 1)]
    return fn, calls, lambda index: None, lambda: {}
