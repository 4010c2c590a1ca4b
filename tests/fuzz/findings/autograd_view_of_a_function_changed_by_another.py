"""Autograd refuses to let a Function change what another returned as it came, and code with a break in between did
it."""

import torch


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 3


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


def fn(x, detach):
    same = Same.apply(x.exp())
    turned = x.exp().t().t()
    print(type(same).__name__)
    if detach:
        turned.detach_()
    return Doubled.apply(same)


def make():
    calls = [((torch.ones(2, 3, requires_grad=True), detach), {}) for detach in (False, True)]
    return fn, calls, lambda index: None, lambda: {}
