"""Matrix products with weights go to oneDNN where it is faster than what eager calls and as exact.

    t: f32[384, 1536]/[1, 384] = aten.t.default(weight)
    addmm: f32[1576, 1536] = aten.addmm.default(bias, x, t)

becomes

    linear: f32[1576, 1536] = mkldnn._linear_pointwise.default(x, weight, bias, "none", [], "")

In bfloat16 both are the same library, and this way in saves the copy of the bias: results are equal bit for bit. In
single precision eager calls MKL, which on AMD's CPUs takes 7 to 30 percent longer for large products. oneDNN adds up
all products in one row; up to `MOST_PRODUCTS` of them that is at most twice MKL's rounding error.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.fx

from ..autodiff.graph import FunctionalGraph
from ..torch_compat import library_operators
from .rewriting import ATEN, Rewriter, is_call

MOST_PRODUCTS = 384
LEAST_WORK = 1 << 24
"""Multiplications from which on the library's longer way in does not matter."""


def linear_library(functional: FunctionalGraph) -> FunctionalGraph:
    """Products with a transposed matrix, with or without a bias."""
    operator = library_operators.onednn_linear()
    rewriter = Rewriter(functional)
    for node in functional.graph.nodes if operator is not None else ():
        parts = _linear(node)
        if parts is not None and _is_faster(*parts):
            x, weight, bias = parts
            with rewriter.before(node):
                made = rewriter.call(operator, x, weight, bias, "none", [], "", val=node.meta["val"])
            rewriter.replace(node, made)
    return rewriter.finish()


def _linear(node: torch.fx.Node) -> tuple[torch.fx.Node, torch.fx.Node, torch.fx.Node | None] | None:
    """Argument, weight and bias of a product with a transposed matrix; None for everything else."""
    args: Any = node.args
    if is_call(node, ATEN.mm.default):
        bias, (x, transposed) = None, args
    elif is_call(node, ATEN.addmm.default) and len(args) == 3 and not node.kwargs:
        bias, x, transposed = args
        if bias.meta["val"].ndim != 1 or bias.meta["val"].shape[0] != node.meta["val"].shape[1]:
            return None
    else:
        return None
    return (x, transposed.args[0], bias) if is_call(transposed, ATEN.t.default) else None


def _is_faster(x: torch.fx.Node, weight: torch.fx.Node, bias: torch.fx.Node | None) -> bool:
    left, right = x.meta["val"], weight.meta["val"]
    sizes = (*left.shape, right.shape[0])
    # The library prepares itself for each size anew, so sizes that change are not for it.
    if not all(isinstance(size, int) for size in sizes) or not (left.is_contiguous() and right.is_contiguous()):
        return False
    if left.device.type != "cpu" or left.dtype is not right.dtype:
        return False
    if left.dtype is torch.bfloat16:
        return bias is not None and library_operators.onednn_has_bfloat16()
    work = left.shape[0] * left.shape[1] * right.shape[0]
    return left.dtype is torch.float32 and left.shape[1] <= MOST_PRODUCTS and work >= LEAST_WORK and _mkl_is_slower()


@functools.cache
def _mkl_is_slower() -> bool:
    """Whether this is one of the CPUs that MKL does not use fully: those with AVX-512 from AMD."""
    from ..kernels.cpu.target import host

    return host().cpu.startswith("znver") and host().has_masks
