"""Batch normalisation behind a convolution becomes part of the convolution's weight and bias, where those are frozen.

    conv = aten.convolution.default(x, weight, None, ...)
    norm = aten._native_batch_norm_legit_no_training.default(conv, gamma, beta, mean, variance, 0.1, 1e-05)
    result = getitem(norm, 0)

becomes

    scale = gamma * rsqrt(variance + 1e-05)
    result = aten.convolution.default(x, weight * scale[:, None, None, None], beta - mean * scale, ...)

`freezing` then computes everything but the convolution once.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.fx

from ..functional.graph import FunctionalGraph
from .rewriting import ATEN, Rewriter, is_call
from .settings import STRICT, Settings


def fold_batch_norm(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Fold normalisations whose statistics, and convolutions whose weights, are frozen."""
    rewriter = Rewriter(functional)
    for node in functional.graph.nodes if settings.frozen else ():
        if is_call(node, ATEN._native_batch_norm_legit_no_training.default):
            _fold(rewriter, node, settings)
    return rewriter.finish()


def _fold(rewriter: Rewriter, norm: torch.fx.Node, settings: Settings) -> None:
    args: Any = norm.args
    conv, gamma, beta, mean, variance, _, eps = args
    if not is_call(conv, ATEN.convolution.default) or len(conv.users) != 1 or conv.args[6]:
        return
    weight, bias = conv.args[1], conv.args[2]
    parts = [part for part in (weight, bias, gamma, beta, mean, variance) if part is not None]
    if not all(part in settings.frozen for part in parts) or conv.meta["val"].dtype is not torch.float32:
        return
    if any(part.meta["val"].dtype is not torch.float32 for part in parts):
        return
    if not all(user.target is operator.getitem and user.args[1] == 0 for user in norm.users):
        return
    with rewriter.before(norm):
        scale = rewriter.call(ATEN.rsqrt.default, rewriter.call(ATEN.add.Tensor, variance, eps))
        if gamma is not None:
            scale = rewriter.call(ATEN.mul.Tensor, scale, gamma)
        wide = rewriter.call(ATEN.view.default, scale, [-1] + [1] * (weight.meta["val"].ndim - 1))
        new_weight = rewriter.call(ATEN.mul.Tensor, weight, wide)
        shift = mean if bias is None else rewriter.call(ATEN.sub.Tensor, mean, bias)
        new_bias = rewriter.call(ATEN.neg.default, rewriter.call(ATEN.mul.Tensor, shift, scale))
        if beta is not None:
            new_bias = rewriter.call(ATEN.add.Tensor, new_bias, beta)
        folded = rewriter.call(ATEN.convolution.default, conv.args[0], new_weight, new_bias, *conv.args[3:],
                               val=conv.meta["val"])
    for user in list(norm.users):
        rewriter.replace(user, folded)
