"""A view that does not exist, of a size that is computed from strides: meta kernels let it pass."""

import torch


def fn(x):
    width = x.stride(0)
    return (x[1:].unfold(-1, width, 2) + 1).narrow(-1, 0, abs(width) & 3).view(-1)


def make():
    calls = [((torch.arange(30.0)[: rows * columns].reshape(rows, columns),), {})
             for rows, columns in ((4, 2), (2, 4), (5, 6), (4, 6))]

    def use(fn, args, kwargs):
        try:
            return fn(*args, **kwargs)
        except RuntimeError as error:
            return type(error).__name__

    return fn, calls, lambda index: None, dict, use
