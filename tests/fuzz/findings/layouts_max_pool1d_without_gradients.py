"""Pooling of a row without gradients, which eager has a kernel of its own for, did not come back by rows."""

import torch
import torch.nn.functional as F


def make():
    def fn(x):
        return F.max_pool1d(x, 2, 2) * 2, F.max_pool1d(x.clone().requires_grad_(), 2, 2).detach()

    return fn, [((torch.arange(24.0).view(n, 6, -1).transpose(1, 2),), {}) for n in (1, 2)], lambda index: None, dict
