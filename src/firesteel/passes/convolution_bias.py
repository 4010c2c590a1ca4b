"""The bias of a convolution on a GPU is added by the kernel that follows, where the library takes a pass of its own.

    conv: f32[4, 32, 96, 96] = convolution(x, w, b, ...)

becomes

    conv: f32[4, 32, 96, 96] = convolution(x, w, None, ...)
    view: f32[32, 1, 1] = aten.view.default(b, [32, 1, 1])
    add: f32[4, 32, 96, 96] = aten.add.Tensor(conv, view)

and in the same way the bias's gradient is a sum of ours, which reads what the kernel before it computes:

    back: (f32[4, 3, 96, 96], f32[32, 3, 3, 3], f32[32]) = convolution_backward(grad, x, w, ..., [True, True, True])

becomes

    back: (f32[4, 3, 96, 96], f32[32, 3, 3, 3], None) = convolution_backward(grad, x, w, ..., [True, True, False])
    sum: f32[32] = aten.sum.dim_IntList(grad, [0, 2, 3])

In short floats that holds for cuDNN: what it returns is rounded, and then the bias is added and the sum rounded again,
in eager too. Convolutions of single channels with the old layout are kernels of torch's own, which round once: their
biases stay where they are.
"""

from __future__ import annotations

from operator import getitem
from typing import Any

import torch
import torch.fx

from ..functional.graph import FunctionalGraph
from .rewriting import ATEN, Rewriter, is_call
from .settings import STRICT, Settings


def convolution_bias(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Take the biases out of calls of the library."""
    rewriter = Rewriter(functional)
    for node in list(functional.graph.nodes):
        if is_call(node, ATEN.convolution.default) and node.args[2] is not None and _is_plain(node, 0):
            if _is_rounded_before(node):
                _add_behind(rewriter, node)
        elif is_call(node, ATEN.convolution_backward.default) and len(node.args) == 11 and _is_plain(node, 1):
            if node.args[10][2] and all(user.target is getitem for user in node.users):  # type: ignore[index]
                _sum_beside(rewriter, node)
    return rewriter.finish()


def _is_rounded_before(node: torch.fx.Node) -> bool:
    """Whether eager rounds the result before the bias is added, or rounds neither to a short float."""
    args: Any = node.args
    if node.meta["val"].dtype.itemsize >= 4:
        return True
    x = args[0].meta["val"]
    last = x.ndim == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)
    return torch.backends.cudnn.enabled and (args[8] == 1 or last)


def _is_plain(node: torch.fx.Node, at: int) -> bool:
    """Whether a batch of images of floats is convolved."""
    x: Any = node.args[at]
    value = x.meta["val"]
    return not node.kwargs and value.dtype.is_floating_point and value.ndim in (3, 4, 5)


def _add_behind(rewriter: Rewriter, node: torch.fx.Node) -> None:
    args: Any = node.args
    value = node.meta["val"]
    with rewriter.before(node):
        without = rewriter.call(node.target, *args[:2], None, *args[3:], val=value)
        channels = args[2].meta["val"].shape[0]
        shape = [channels if type(channels) is int else -1, *[1] * (value.ndim - 2)]
        bias = rewriter.call(ATEN.view.default, args[2], shape)
        added = rewriter.call(ATEN.add.Tensor, without, bias, val=value)
    rewriter.replace(node, added)


def _sum_beside(rewriter: Rewriter, node: torch.fx.Node) -> None:
    args: Any = node.args
    grad, mask = args[0], args[10]
    results = node.meta["val"]
    with rewriter.before(node):
        rest = None
        if mask[0] or mask[1]:
            rest = rewriter.call(node.target, *args[:10], [mask[0], mask[1], False], val=(*results[:2], None))
        dims = [dim for dim in range(grad.meta["val"].ndim) if dim != 1]
        total = rewriter.call(ATEN.sum.dim_IntList, grad, dims, val=results[2])
        for user in list(node.users):
            at = user.args[1]
            if at == 2:
                rewriter.replace(user, total)
            elif rest is not None:
                rewriter.replace(user, rewriter.call(getitem, rest, at, val=user.meta["val"]))
