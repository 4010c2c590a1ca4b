"""backward() through a view made in inference mode, where gradients go nowhere, did not free what eager frees."""

import torch

LEAVES = []


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def fn(x, leaf):
    with torch.inference_mode():
        view = x[:]
    y = Double.apply(view) * 2
    z = (y.square().sum() + leaf.square().sum()) if leaf is not None else y.square().sum()
    z.backward()
    return y.unbind()[1]


def use(fn, args, kwargs):
    result = fn(*args)
    try:
        result.sum().backward()
    except RuntimeError as error:
        return str(error)[:60], result.detach()
    return result


def make():
    del LEAVES[:]
    LEAVES.extend(torch.arange(6.0).reshape(2, 3).requires_grad_() for _ in range(3))
    calls = [((LEAVES[0] * 1, None), {}), ((LEAVES[1] * 1, LEAVES[2]), {})]
    return fn, calls, lambda index: [setattr(leaf, "grad", None) for leaf in LEAVES], lambda: {"leaves": LEAVES}, use
