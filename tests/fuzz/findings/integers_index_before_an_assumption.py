"""An index was taken to be positive because of what a later operator assumed, and a negative one was called wrong."""

import torch


def fn(x, t):
    p = t[0].item()
    i = p // (abs(p) + 1)
    return (x[i] + 1).narrow(0, i + 4, abs(i) >> 1) + 1


def make():
    calls = [((torch.arange(25.0).reshape(5, 5), torch.tensor([p, 0])), {}) for p in (-3, 0, 2)]
    return fn, calls, lambda index: None, lambda: {}
