"""A number beyond the default dtype, which eager refuses, filled tensors with inf; a huge step made the first NaN."""

import torch


def fn(x, kind):
    if kind == "full":
        return torch.full((2,), 1e39)
    if kind == "complex":
        return x == 1 + 0j, x.clone().fill_(2 + 0j)
    return torch.arange(0, 5, 1e308)


def make():
    calls = [((torch.ones(2), kind), {}) for kind in ("full", "complex", "arange")]
    return fn, calls, lambda index: None, lambda: {}
