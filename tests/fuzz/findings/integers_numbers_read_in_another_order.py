"""A comparison of two numbers from data, behind a result that another one is computed from, was always true."""

import torch


def fn(x, t):
    p, q = t[0].item(), t[1].item()
    x = x * 2
    y = x.roll(5)
    return (y[:, x.stride(1):] if q >= p else y) + x.stride(1)


def make():
    calls = [((torch.ones(2, 3).requires_grad_(), torch.tensor(pair)), {}) for pair in ([4, -4], [-3, -7], [-6, 3])]
    return fn, calls, lambda index: None, lambda: {}
