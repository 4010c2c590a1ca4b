"""Whether a transposed selection is copied depends on how many rows it has: of one row or none it was copied still."""

import torch


def fn(w, m):
    v = w[m].t()
    flat = v.flatten()
    pairs = w[m][:, :1].expand(-1, 2)
    return v, flat, v.contiguous(), v.reshape(-1)[:2], pairs, pairs.flatten()[:1]


def make():
    masks = [[1, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]]
    calls = [((torch.arange(16.0).reshape(4, 4), torch.tensor(mask).bool()), {}) for mask in masks]
    return fn, calls, lambda index: None, dict
