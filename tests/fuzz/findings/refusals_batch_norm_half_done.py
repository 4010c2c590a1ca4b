"""Batch norm refused its bias after the running statistics had been changed, and the plain run changed them again."""

import torch
import torch.nn.functional as F


def make():
    def fn(x, mean, variance, weight, bias):
        try:
            return F.batch_norm(x, mean, variance, weight * 1, bias * 1, training=True)
        except RuntimeError as error:
            return str(error)

    def call(dtype, bias_dtype):
        x = torch.arange(12.0).reshape(4, 3).sin().to(dtype)
        mean, variance, weight = (torch.full((3,), value, dtype=dtype) for value in (0.5, 1.5, 2.0))
        return (x, mean, variance, weight, torch.ones(3, dtype=bias_dtype)), {}

    calls = [call(torch.float16, torch.int32), call(torch.float16, torch.float32), call(torch.float32, torch.float64)]
    return fn, calls, lambda index: None, lambda: {}
