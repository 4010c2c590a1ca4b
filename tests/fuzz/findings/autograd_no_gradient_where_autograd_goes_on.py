"""Where a Function has no gradient for an argument, autograd goes on to the argument's history all the same: it refuses
what it has freed there, and other Functions make zeros."""

import torch


class First(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2, None


def fn(x, y):
    z = First.apply(y, y)
    return First.apply(x, z) + x, z.sum()


def use(fn, args, kwargs):
    found = []
    for _ in range(2):
        try:
            fn(*args)[0].sum().backward()
        except RuntimeError as error:
            found.append(str(error))
    return found


def make():
    leaves = [torch.full((3,), value, requires_grad=True) for value in (1.0, 2.0)]
    calls = [(tuple(leaves), {}), ((leaves[0], leaves[1] * 3), {}), ((leaves[0] * 1, leaves[1]), {})]
    return fn, calls, lambda index: None, lambda: {"leaves": leaves}, use
