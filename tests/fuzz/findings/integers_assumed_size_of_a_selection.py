"""Nothing checked the size of what a mask selects where an operator needs it to fit: kernels read behind it."""

import torch


def make():
    def fn(x, y, m):
        return x[m] * 2 + y, x[m].squeeze(), x[:1] * x[m][:1]

    def use(fn, args, kwargs):
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            return type(error).__name__

    x, y = torch.arange(8.0), torch.arange(5.0)
    return fn, [((x, y, torch.arange(8) < n), {}) for n in (4, 5, 1, 0, 5)], lambda index: None, dict, use
