"""A view by a size that a later operator assumed raised before the assumption was checked."""

import torch


def fn(x, y, m):
    places = torch.where(m)[0] * 1.5
    return torch.outer(x[m], y), y * places


def make():
    def call(count, mask):
        return (torch.arange(1.0, 5.0).requires_grad_(), torch.ones(count) * 3, torch.tensor(mask).bool()), {}

    calls = [call(4, [1, 1, 1, 1]), call(2, [1, 1, 0, 0]), call(2, [1, 0, 0, 0]), call(2, [1, 0, 1, 0])]
    return fn, calls, lambda index: None, lambda: {}
