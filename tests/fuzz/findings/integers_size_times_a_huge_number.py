"""A varying size times a number from a tensor may need more than 64 bits, which eager refuses."""

import torch


def fn(x, t, n):
    return x.triu(x.size(0) * t[0].item() << 2) * 2, x.t() + len(x) * n


def make():
    numbers = ((3, 2**63 - 1, 3), (3, 2**31, 2**61), (4, -6, 2**61), (5, 4, 2**60), (8, 5, 2**60))
    calls = [((torch.ones(5, rows).t(), torch.tensor([q]), n), {}) for rows, q, n in numbers]

    def use(fn, args, kwargs):
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            return type(error).__name__

    return fn, calls, lambda index: None, lambda: {}, use
