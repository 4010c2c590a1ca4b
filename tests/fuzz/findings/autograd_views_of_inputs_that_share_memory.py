"""A view of an input that shares memory with another one was made from the other: in the next call they did not share
it.
"""

import torch


def make():
    leaf = torch.ones(6, requires_grad=True)
    base = leaf * 2

    def fn(x, y):
        x * x
        return y.detach(), y.detach()[1:]

    calls = [((base, base[:]), {}), ((leaf * 3, leaf * 4), {})]
    return fn, calls, lambda index: None, dict
