"""A size that data and an argument make together was taken for 0, and nothing checked it."""

import torch


def fn(x, n, t):
    p = t[0].item()
    i1 = (p - (n >> 1)) % 7
    return x.as_strided((max(i1, 0),), (0,), 1) + 1


def make():
    def dense(rows, columns):
        return torch.arange(rows * columns, dtype=torch.float32).reshape(rows, columns) + 1

    calls = [
        ((dense(4, 2), 3, torch.tensor([6, -1])), {}),
        ((dense(4, 2), 2, torch.tensor([-7, 0])), {}),
        ((dense(4, 2), 2, torch.tensor([0, -1])), {}),
    ]
    return fn, calls, lambda index: None, lambda: {}
