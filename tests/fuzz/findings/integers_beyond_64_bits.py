"""Numbers that 64 bits do not hold, which eager refuses to fill tensors with, were taken without their upper bits."""

import torch


def fn(x, n, what):
    if what == "full":
        return torch.full((2,), n)
    if what == "where":
        return torch.where(x > 0, x, n)
    if what == "arange":
        return torch.arange(n - 3, n)
    return (x > 0) // n


def make():
    x = torch.arange(3)
    kinds = ("full", "where", "arange", "quotient")
    return fn, [((x, n, what), {}) for what in kinds for n in (-5, 7, 2**63)], lambda index: None, lambda: {}
