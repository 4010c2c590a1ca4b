"""A size that others were known to give was needed in backward, where the argument that has it was not."""

import torch


def fn(y, v):
    y = y * 1
    n = v.shape[0]
    y[n:] = y[:-n]
    return y


def make():
    calls = [((torch.arange(float(a)).requires_grad_(), torch.ones(b)), {}) for a, b in ((4, 2), (3, 2), (5, 3))]
    return fn, calls, lambda index: None, lambda: {}
