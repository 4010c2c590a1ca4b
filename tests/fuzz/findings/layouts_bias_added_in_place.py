"""A linear layer whose bias or argument is not contiguous adds the bias in place: the result keeps the product's dtype,
shape and layout, empty or not."""

import torch
import torch.nn.functional as F


def fn(x, weight, bias):
    try:
        return F.linear(x, weight, bias), F.linear(x, weight, bias=bias).dtype
    except RuntimeError as error:
        return str(error).split("\n")[0]


def make():
    weight, bias = torch.ones(4, 3) / 4, torch.arange(12.0).reshape(4, 3)[:, 1]
    half = torch.bfloat16
    calls = [
        (torch.ones(0, 1, 3), weight, bias),
        (torch.ones(0, 1, 3, dtype=half), weight.to(half), bias[:1].to(half).expand(4)),
        (torch.ones(2, 5, 3, dtype=half), weight.to(half), bias),
        (torch.ones(2, 3, 5).mT, weight, torch.arange(4.0, dtype=torch.float64)),
        (torch.ones(2, 1, 3), weight, torch.ones(5, 4)),
        (torch.ones(2, 5, 3), weight, torch.ones(5, 4)),
        (torch.ones(2, 5, 3, dtype=torch.int32), weight.int(), bias),
    ]
    return fn, [(args, {}) for args in calls], lambda index: None, dict
