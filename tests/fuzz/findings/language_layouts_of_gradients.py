"""Gradients had other strides: behind an argument changed in place, and of one result beside one with a number read."""

import torch

import firesteel as fs


def make():
    weight = torch.randn(4, 4, requires_grad=True)

    def fn(x, changes):
        if changes:
            changed = weight.permute(1, 0).clone()
            fs.graph_break()
            changed.mul_(2)
            return changed
        return weight.sum().expand(x.shape) * x.sum().item(), weight.permute(1, 0) + x[0]

    calls = [((torch.randn(4), changes), {}) for changes in (True, False, True)]
    return fn, calls, lambda index: None, lambda: weight
