"""Complex numbers times 1, where an infinite part makes the other one NaN, were left as they are."""

import torch


def fn(x):
    return torch.isinf(x * 1 * 1), x / 1, torch.view_as_real(x + 0)


def make():
    infinity = float("inf")
    x = torch.tensor([complex(infinity, 0), complex(0, -infinity), complex(-0.0, -0.0), 2j], dtype=torch.complex64)
    return fn, [((x,), {}), ((x.repeat(9),), {})], lambda index: None, lambda: {}
