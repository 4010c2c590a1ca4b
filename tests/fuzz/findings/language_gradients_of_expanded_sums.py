"""Strides of gradients where the gradient that comes back is one number, expanded, and transposed by what made the
result: products of it were laid out by columns."""

import torch

import firesteel as fs


def make():
    weight = torch.randn(4, 4, requires_grad=True)

    def fn(contiguous):
        product = (0.5 * weight).T
        product = product.contiguous() if contiguous else product
        fs.graph_break()
        return product.sum()

    return fn, [((contiguous,), {}) for contiguous in (False, True)], lambda index: None, lambda: weight
