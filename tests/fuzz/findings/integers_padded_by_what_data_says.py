"""Padding that only cuts keeps the layout; where data says how much, the result lay by rows."""

import torch
import torch.nn.functional as F


def fn(x, t):
    return F.pad(x, (0, t[0].item()))


def make():
    calls = [((torch.arange(6.0).reshape(3, 2).t(), torch.tensor([count])), {}) for count in (-1, 2, 0, -2, 1)]
    return fn, calls, lambda index: None, dict
