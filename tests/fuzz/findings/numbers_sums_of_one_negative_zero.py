"""Sums of one element: -0.0 instead of 0 + -0.0."""

import torch
import torch.nn.functional as F


def fn(x):
    first = x[:, 0]
    return [1 / part for part in (
        x.sum(0), x[0, 0].sum(), x.mean(0), x.nansum(0), x.nanmean(0), x.cumsum(0), x[0, 0].cumsum(0),
        F.avg_pool1d(x, 1), F.avg_pool1d(x, 2), first @ -first, torch.mv(x.t(), -first), x.prod(0),
        F.layer_norm(x[:, :1], (1,)), torch.trace(x[:, :1]), F.nll_loss(-x[:, :1], torch.tensor([0])))], \
        F.avg_pool1d(x, 1)


def use(fn, args, kwargs):
    x = args[0].clone().requires_grad_()
    results, pooled = fn(x)
    gradient, = torch.autograd.grad(pooled, x, torch.full_like(pooled, -0.0))
    return results, 1 / gradient


def make():
    return fn, [((torch.full((1, 2), -0.0, dtype=dtype),), {}) for dtype in (torch.float32, torch.bfloat16)], \
        lambda index: None, lambda: {}, use
