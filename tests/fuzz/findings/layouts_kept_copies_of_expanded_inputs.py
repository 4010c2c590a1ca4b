"""The copy of an expanded input that backward needs was described with the strides of the input, which a copy does not
have; varying sizes alone made such a copy."""

import torch
import torch.nn.functional as F


def fn(x, index):
    return torch.cat([x, x.sin()], 1).reshape(-1), F.embedding(index, x), x.repeat(2, 1) * x[:1]


def make():
    calls = [((torch.arange(900.0).as_strided((rows, 2), (8, 0), 1).requires_grad_(), torch.tensor([1, 0])), {})
             for rows in (40, 40, 7)]
    return fn, calls, lambda index: None, lambda: {}
