"""The gradient of a result whose size data decides was laid out by rows where backward read it by columns; a constant
of more than 64 bits was computed with where the result had no more."""

import torch


def fn(x, t):
    p, q = t.tolist()
    return x[:p] + 1, torch.full((2,), x.stride(1) % (abs(q) + 1))


def make():
    calls = [((torch.arange(20.0).reshape(5, 4).t().requires_grad_(), torch.tensor([3, q])), {})
             for q in (2**31 - 1, -(2**40), -(2**63) + 1)]
    return fn, calls, lambda index: None, lambda: {}
