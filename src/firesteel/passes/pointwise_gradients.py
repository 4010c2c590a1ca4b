"""The gradient of the input of a convolution that takes single pixels with a stride: computed for those pixels.

    back: (f32[16, 64, 32, 32], ...) = convolution_backward(grad, x, w, ..., stride [2, 2], ..., [True, True, False])

becomes, with a weight of shape [128, 64, 1, 1],

    rest: (None, f32[128, 64, 1, 1], None) = convolution_backward(grad, x, w, ..., [False, True, False])
    turned: f32[64, 128, 1, 1] = aten.transpose.int(w, 0, 1)
    taken: f32[16, 64, 16, 16] = convolution(grad, turned, None, stride [1, 1], ...)
    back: f32[16, 64, 32, 32], the pixels that were taken between zeros

The library goes over all pixels instead, zeros included, and takes up to nine times as long. The zeros are not stored
where what follows is a kernel. Sums are added up in another order, with no larger error than the library's.
"""

from __future__ import annotations

from operator import getitem
from typing import Any

import torch
import torch.fx

from ..devices import kind_of
from ..functional.graph import FunctionalGraph
from .rewriting import ATEN, Rewriter, is_call
from .settings import STRICT, Settings


def pointwise_gradients(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Gradients of strided convolutions with one weight for each pair of channels."""
    rewriter = Rewriter(functional)
    for node in functional.graph.nodes:
        if is_call(node, ATEN.convolution_backward.default) and _fits(node):
            _rewrite(rewriter, node)
    return rewriter.finish()


def _fits(node: torch.fx.Node) -> bool:
    args: Any = node.args
    if node.kwargs or len(args) != 11 or args[10][0] is not True or any(user.target is not getitem
                                                                        for user in node.users):
        return False
    values = [*(arg.meta["val"] for arg in args[:3]), node.meta["val"][0]]
    stride, padding, transposed, groups = args[4], args[5], args[7], args[9]
    if transposed or groups != 1 or any(padding) or all(step == 1 for step in stride):
        return False
    if any(type(number) is not int for value in values for number in (*value.shape, *value.stride())):
        return False
    if any(value.ndim != 4 or value.dtype is not torch.float32 or not kind_of(value).is_host or not value.numel()
           for value in values):
        return False
    return all(value.is_contiguous() for value in values) and tuple(values[2].shape[2:]) == (1, 1)


def _rewrite(rewriter: Rewriter, node: torch.fx.Node) -> None:
    args: Any = node.args
    grad, x, weight = args[:3]
    stride = [*args[4]] * 2 if len(args[4]) == 1 else [*args[4]]
    result = node.meta["val"]
    count, channels, height, width = x.meta["val"].shape
    with rewriter.before(node):
        rest = None
        if args[10][1] or args[10][2]:
            rest = rewriter.call(ATEN.convolution_backward.default, *args[:10], [False, *args[10][1:]],
                                 val=(None, *result[1:]))
        turned = rewriter.call(ATEN.transpose.int, weight, 0, 1)
        gradient = rewriter.call(ATEN.convolution.default, grad, turned, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
        rows = grad.meta["val"].shape[2]
        for dim, shape, step in ((3, [count, channels, rows, width], stride[1]), (2, list(result[0].shape), stride[0])):
            if step != 1:
                zeros = rewriter.call(ATEN.full.default, shape, 0.0, dtype=result[0].dtype, device=result[0].device)
                gradient = rewriter.call(ATEN.slice_scatter.default, zeros, gradient, dim, 0, shape[dim], step)
        for user in list(node.users):
            at = user.args[1]
            assert rest is not None or not at
            new = rewriter.call(getitem, rest, at, val=user.meta["val"]) if at and rest is not None else gradient
            rewriter.replace(user, new)
