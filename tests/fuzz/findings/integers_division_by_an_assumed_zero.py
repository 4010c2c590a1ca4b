"""A division by a number from data that an operator took to be 0 before was computed with 1."""

import torch


def make():
    def fn(x, t):
        p, q = t.tolist()
        n = (q >> 2) * (p // (abs(p) + 1)) % 7
        y = x.as_strided((max(n, 0),), (1,), p) + 1
        return y[: -(x.storage_offset() // n)]

    def use(fn, args, kwargs):
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            return type(error).__name__

    x = torch.arange(6.0).reshape(2, 3)
    return fn, [((x, torch.tensor(t)), {}) for t in ([6, 4], [-1, 4])], lambda index: None, dict, use
