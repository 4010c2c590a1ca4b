"""Sizes that had to equal those of arguments were found to be different before the assertion: an internal error."""

import torch


def make():
    def fn(x, m, y):
        return x[m] * y

    def use(fn, args, kwargs):
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            return type(error).__name__

    x = torch.arange(8.0).reshape(4, 2)
    calls = [((x, torch.arange(4) < n, torch.ones(k, 2)), {}) for n, k in ((1, 3), (2, 2), (1, 2), (0, 3))]
    return fn, calls, lambda index: None, dict, use
