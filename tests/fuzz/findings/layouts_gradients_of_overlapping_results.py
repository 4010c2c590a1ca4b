"""A result whose elements overlap and leave gaps is as long as one without either: its gradient was laid out like it,
so elements overwrote each other. Short floats in logsumexp were not rounded after each of its steps."""

import torch


def fn(x):
    return x.contiguous().as_strided((5, 3), (2, 3), 1), x.to(torch.bfloat16).logsumexp(1)


def make():
    calls = [(((torch.arange(54.0) * 7 % 11 / 4).reshape(6, 9).requires_grad_(),), {}) for _ in range(2)]
    return fn, calls, lambda index: None, lambda: {}
