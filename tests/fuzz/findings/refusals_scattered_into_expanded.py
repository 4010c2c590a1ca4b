"""as_strided_scatter into an expanded tensor of any size: the copy is dense."""

import torch


def fn(y, v):
    return y.as_strided_scatter(v, (2, 2), (1, 1)) * 1


def make():
    v = torch.arange(4.0).reshape(2, 2).requires_grad_()
    calls = [((torch.ones(1).expand(size), v), {}) for size in (4, 5)] + [((torch.ones(4).requires_grad_(), v), {})]
    return fn, calls, lambda index: None, lambda: {}
