"""A slice of all of a dimension whose size varied was no view of everything, and its gradient lay in another way."""

import torch


def make():
    def fn(x):
        return x[..., ::1], x * 2

    xs = [torch.zeros(2700).as_strided((33, n), (2, 66), 0).requires_grad_() for n in (40, 40, 16)]
    return fn, [((x,), {}) for x in xs], lambda index: None, dict
