"""Strides of a gradient behind a break, where the gradient that comes back is transposed: it was laid out by rows."""

import torch

WEIGHT = torch.arange(16.0).reshape(4, 4).requires_grad_()


def fn(x):
    y = WEIGHT + WEIGHT.sum()
    print("break")
    return x + y.transpose(0, 1)


def make():
    return fn, [((torch.ones(4, 4),), {})], lambda index: None, lambda: {"weight": WEIGHT}
