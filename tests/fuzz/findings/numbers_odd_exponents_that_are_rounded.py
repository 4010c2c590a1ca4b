"""Exponents that are odd in float64 only: eager has powers of both signs, in some elements each."""

import torch


def fn(x, n):
    return x ** (2.0**24 + 1), x**n, torch.signbit(x[:3] ** n)


def make():
    x = torch.tensor([-3.0, -0.5, 2.0, -0.0] * 10)
    calls = [((x, n), {}) for n in (3, 2**24 + 1, 2**24 + 3, 2**24 + 2, -(2**24) - 1)]
    return fn, calls, lambda index: None, lambda: {}
