"""A result behind a Function whose saved tensors a backward inside of the program has freed: an internal failure."""

import torch


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        y = x / scale
        ctx.save_for_backward(y)
        return y * scale

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * 2, (g * y).sum()


def fn(x, scale):
    y = Scaled.apply(x, scale)
    y.sum().backward()
    return y


def make():
    leaves = torch.ones(5, requires_grad=True), torch.tensor(0.1, requires_grad=True)
    return fn, [(leaves, {})], lambda index: None, lambda: {"leaves": leaves}
