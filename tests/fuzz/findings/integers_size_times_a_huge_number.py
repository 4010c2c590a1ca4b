"""A varying size times a number from a tensor may need more than 64 bits, which eager refuses."""

import torch


def fn(x, t):
    return x.triu(x.size(0) * t[0].item() << 2) * 2


def make():
    calls = [((torch.ones(5, rows).t(), torch.tensor([q])), {}) for rows, q in ((3, 2**63 - 1), (3, 2**31), (4, -6))]

    def use(fn, args, kwargs):
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            return type(error).__name__

    return fn, calls, lambda index: None, lambda: {}, use
