# The gradient of a product over no rows was an expanded tensor.
import torch


def make():
    def fn(x):
        return torch.prod(x, -1).sum()

    calls = [((torch.ones(rows, 5, requires_grad=True),), {}) for rows in (3, 0)]
    return fn, calls, lambda index: None, lambda: {}
