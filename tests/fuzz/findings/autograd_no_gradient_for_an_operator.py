"""Where no gradient comes back to a custom operator, autograd hands it zeros, and there is a gradient behind it."""

import torch
from tests.fuzz import autograd_operators as ops

import firesteel as fs


class Ending(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return None


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return None


def fn(x):
    scaled = ops.scaled(x, 1.5)
    fs.graph_break()
    y = ops.scaled(x, 2.5)
    Dirty.apply(y)
    return Ending.apply(scaled) * y


def make():
    return fn, [((torch.ones(2, 3).requires_grad_(),), {})], lambda index: None, lambda: {}
