"""Autograd refused to tell about a tensor while a call was captured: the error came before the change that Python makes
first. And gradients of a function marked once_differentiable were differentiated inside of the graph."""

import torch


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.contiguous()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return g * 3


def fn(x, changed):
    y = x.sin()
    z = Once.apply(x)
    if changed:
        with torch.no_grad():
            z.add_(y)
        return torch.autograd.grad(y.square().sum(), z, allow_unused=True)[0]
    return torch.autograd.grad((x + z).square().sum(), x, create_graph=True)[0] * 2


def use(fn, args, kwargs):
    result = fn(*args)
    result.cos().sum().backward()
    return result


def make():
    x = torch.ones(2, 3, requires_grad=True)
    return fn, [((x.exp(), True), {}), ((x, False), {})], lambda index: None, lambda: {"x": x}, use
