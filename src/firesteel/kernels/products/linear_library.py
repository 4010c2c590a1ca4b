"""Matrix products with weights go to oneDNN where it is faster than what eager calls and as exact.

    t: f32[384, 1536]/[1, 384] = aten.t.default(weight)
    addmm: f32[1576, 1536] = aten.addmm.default(bias, x, t)

becomes

    linear: f32[1576, 1536] = mkldnn._linear_pointwise.default(x, weight, bias, "none", [], "")

In bfloat16 both are the same library, and this way in saves the copy of the bias: results are equal bit for bit. In
single precision eager calls MKL, which on AMD's CPUs takes 7 to 30 percent longer for large products. oneDNN adds up
all products in one row; up to `MOST_PRODUCTS` of them that is at most twice MKL's rounding error. Frozen weights are
packed into the library's own layout, once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from ...devices import kind_of
from ...functional.graph import FunctionalGraph
from ...passes.rewriting import ATEN, Rewriter, is_call, is_dense_bias
from ...passes.settings import STRICT, Settings
from ...torch_compat import library_operators

if TYPE_CHECKING:
    from ..tuning import Tuner

MOST_PRODUCTS = 384
LEAST_WORK = 1 << 24
"""Multiplications from which on the library's longer way in does not matter."""
LEAST_WORK_PACKED = 1 << 21


def linear_library(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Products with a transposed matrix, with or without a bias."""
    operator, pack = library_operators.onednn_linear(), library_operators.pack_linear_weight()
    rewriter = Rewriter(functional)
    for node in functional.graph.nodes if operator is not None else ():
        parts = linear_parts(node)
        if parts is not None and _is_faster(*parts, settings):
            x, weight, bias = parts
            with rewriter.before(node):
                if weight in settings.frozen and pack is not None:
                    rows = x.meta["val"].shape[0]
                    weight = rewriter.call(pack, weight, rows, val=weight.meta["val"])
                linear = rewriter.call(operator, x, weight, bias, "none", [], "", val=node.meta["val"])
            rewriter.replace(node, linear)
    return rewriter.finish()


def linear_parts(node: torch.fx.Node) -> tuple[torch.fx.Node, torch.fx.Node, torch.fx.Node | None] | None:
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


def _is_faster(x: torch.fx.Node, weight: torch.fx.Node, bias: torch.fx.Node | None, settings: Settings) -> bool:
    left, right = x.meta["val"], weight.meta["val"]
    sizes = (*left.shape, right.shape[0])
    # The library prepares itself for each size anew, so sizes that change are not for it. It refuses those that are 0.
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return False
    if not (left.is_contiguous() and right.is_contiguous()):
        return False
    if not kind_of(left).is_host or left.dtype is not right.dtype or not is_dense_bias(bias):
        return False
    if left.dtype is torch.bfloat16:
        return (bias is not None or weight in settings.frozen) and library_operators.onednn_has_bfloat16()
    if left.dtype is not torch.float32 or not (left.shape[1] <= MOST_PRODUCTS or settings.relaxed):
        return False
    if settings.tuner is not None:
        return _measures_faster(settings.tuner, left, right, bias, weight in settings.frozen)
    work = left.shape[0] * left.shape[1] * right.shape[0]
    return mkl_is_slower() and work >= (LEAST_WORK_PACKED if weight in settings.frozen else LEAST_WORK)


def _measures_faster(tuner: Tuner, left: Any, right: Any, bias: torch.fx.Node | None, packed: bool) -> bool:
    """Whether the library is faster for these sizes, on made-up tensors."""
    operator, pack = library_operators.onednn_linear(), library_operators.pack_linear_weight()
    assert operator is not None
    x, weight = (torch.ones(tuple(t.shape), dtype=t.dtype) for t in (left, right))
    added = None if bias is None else torch.ones(weight.shape[0], dtype=weight.dtype)

    def usual() -> Callable[[], object]:
        other = weight.t()
        return lambda: torch.mm(x, other) if added is None else torch.addmm(added, x, other)

    def library() -> Callable[[], object]:
        ready = weight if not packed or pack is None else pack(weight, x.shape[0])
        return lambda: operator(x, ready, added, "none", [], "")

    about = f"linear {tuple(x.shape)} to {weight.shape[0]}{'' if added is None else ' with a bias'} {x.dtype}" \
            f"{', packed' if packed else ''}"
    with torch.no_grad():
        return tuner.choose(about, about, {"ATen": usual, "oneDNN": library}) == "oneDNN"


@functools.cache
def mkl_is_slower() -> bool:
    """Whether this is one of the CPUs that MKL does not use fully: those with AVX-512 from AMD."""
    from ..cpu.target import host

    return host().cpu.startswith("znver") and host().has_masks
