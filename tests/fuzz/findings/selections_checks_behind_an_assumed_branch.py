"""A check that the program makes on one of its ways only was made in front of the question which way it goes."""

import torch


def fn(x, m, w):
    v = w[m].sum(1)
    torch.sym_constrain_range_for_size(v.shape[0], min=0, max=3)
    if not v.shape[0]:
        return x.masked_scatter(m, v)
    torch._check(v.numel() == 1, lambda: "so many")
    return torch.zeros(v.shape[0] * 2 - 1)


def make():
    x, w = torch.arange(1.0, 5.0), torch.arange(16.0).reshape(4, 4)
    masks = [torch.tensor(mask) for mask in ([True, False, False, False], [True] * 4, [False] * 4)]
    return fn, [((x, mask, w), {}) for mask in masks], lambda index: None, lambda: {}
