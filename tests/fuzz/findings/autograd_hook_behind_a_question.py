"""A hook on a value that was used before it saw its own gradient only, where the program had asked for its history."""

import torch


def make():
    leaf = torch.ones(3, requires_grad=True)

    def fn(x):
        a = x * 2
        b = a.sin()
        if a.grad_fn is not None:
            a.register_hook(lambda g: g * 2)
        return b, a

    return fn, [((leaf,), {}), ((leaf * 2,), {})], lambda index: None, lambda: {"leaf": leaf}
