"""Exponents that are whole or special in some elements of eager only: powers of negative numbers instead of NaN."""

import torch


def fn(x, n):
    return x**n, x[:5] ** ((0.1 + 0.2) * 10), x**2.000000001, x.double() ** n


def make():
    x = torch.tensor([-2.0, -1.0, 3.0, float("-inf"), -0.0] * 8)
    return fn, [((x, n), {}) for n in (2.5, 0.5, -0.5, 1e-46, 3.7)], lambda index: None, lambda: {}
