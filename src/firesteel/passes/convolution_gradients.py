"""The gradient of a convolution's input is computed after that of its weight, when the input itself is not needed.

    back: (f32[4, 64, 96, 96], f32[32, 64, 3, 3], f32[32]) = convolution_backward(grad, x, w, ..., [True, True, True])

becomes

    rest: (None, f32[32, 64, 3, 3], f32[32]) = convolution_backward(grad, x, w, ..., [False, True, True])
    back: f32[4, 64, 96, 96] = convolution(grad, w, None, ..., transposed=True, ...)

ATen does the two one after the other anyway, the other way round, and the library computes them with the same code.
This way the memory of ``x`` is free before that of its gradient is asked for.
"""

from __future__ import annotations

from operator import getitem
from typing import Any

import torch
import torch.fx

from ..devices import kind_of
from ..functional.graph import FunctionalGraph
from ..torch_compat.library_operators import onednn_enabled
from .rewriting import ATEN, Rewriter, is_call
from .settings import STRICT, Settings

LEAST_BYTES = 1 << 20
"""Inputs with less memory are not worth a second call."""


def convolution_gradients(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Part gradients of convolutions whose input is large."""
    rewriter = Rewriter(functional)
    for node in functional.graph.nodes:
        if is_call(node, ATEN.convolution_backward.default) and _fits(node) and onednn_enabled():
            _part(rewriter, node)
    return rewriter.finish()


def _fits(node: torch.fx.Node) -> bool:
    args: Any = node.args
    if node.kwargs or len(args) != 11 or args[10][0] is not True or not (args[10][1] or args[10][2]):
        return False
    values = [*(arg.meta["val"] for arg in args[:3]), node.meta["val"][0]]
    transposed, groups = args[7], args[9]
    if transposed or groups != 1 or any(user.target is not getitem for user in node.users):
        return False
    if any(type(number) is not int for value in values for number in (*value.shape, *value.stride())):
        return False
    if any(value.ndim != 4 or value.dtype is not torch.float32 or not kind_of(value).is_host for value in values):
        return False
    # With channels last the library takes other kernels, and for single pixels it is slower this way round.
    if not all(value.is_contiguous() for value in values) or tuple(values[2].shape[2:]) == (1, 1):
        return False
    return values[1].numel() * values[1].dtype.itemsize >= LEAST_BYTES


def _part(rewriter: Rewriter, node: torch.fx.Node) -> None:
    args: Any = node.args
    grad, x, weight = args[:3]
    stride, padding, dilation = ([*part] * 2 if len(part) == 1 else [*part] for part in args[4:7])
    sizes = x.meta["val"].shape[2:], grad.meta["val"].shape[2:], weight.meta["val"].shape[2:]
    # What the sizes of the result leave open.
    extra = [big - ((small - 1) * stride[k] - 2 * padding[k] + dilation[k] * (kernel - 1) + 1)
             for k, (big, small, kernel) in enumerate(zip(*sizes, strict=True))]
    result = node.meta["val"]
    with rewriter.before(node):
        rest = rewriter.call(ATEN.convolution_backward.default, *args[:10], [False, *args[10][1:]],
                             val=(None, *result[1:]))
        back = rewriter.call(ATEN.convolution.default, grad, weight, None, stride, padding, dilation, True, extra, 1,
                             val=result[0])
        for user in list(node.users):
            at = user.args[1]
            gradient = rewriter.call(getitem, rest, at, val=user.meta["val"]) if at else back
            rewriter.replace(user, gradient)
