"""The gradient of a transposed tensor without elements, of which one size is a symbol, keeps the strides that it came
with."""

import torch


def make():
    def fn(x, n):
        return torch.roll(x.t(), n, 0)

    calls = [((torch.ones(shape, requires_grad=True), number), {})
             for shape, number in (((5, 4), 1), ((4, 0), 2), ((4, 5), -3), ((3, 0), 1))]
    return fn, calls, lambda index: None, lambda: None
