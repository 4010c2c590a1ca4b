"""Large matrix products whose rows do not begin at multiples of 16 bytes are padded, for a GPU.

    mm: bf16[8192, 50257] = aten.mm.default(x, t)            t: bf16[768, 50257] is the transpose of w

becomes

    constant_pad_nd: bf16[50264, 768] = aten.constant_pad_nd.default(w, [0, 0, 0, 7])
    t: bf16[768, 50264] = aten.t.default(constant_pad_nd)
    mm: bf16[8192, 50264] = aten.mm.default(x, t)
    slice: bf16[8192, 50257]/[50264, 1] = aten.slice.Tensor(mm, 1, 0, 50257)
    clone: bf16[8192, 50257] = aten.clone.default(slice)

The library's fast kernels read and write 16 bytes at a time; without that such a product takes five times as long. What
is added are zeros, so the results are the same sums.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from ...functional.graph import FunctionalGraph
from ...passes.rewriting import ATEN, Rewriter, is_call
from ...passes.settings import STRICT, Settings
from .tile_products import is_faster, product_parts

LEAST_WORK = 1 << 32
"""Multiplications from which on padding pays."""
MULTIPLE = 8


def pad_products(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Pad the products of short floats that need it."""
    rewriter = Rewriter(functional)
    padded: dict[tuple[torch.fx.Node, int, int], torch.fx.Node] = {}
    for node in list(functional.graph.nodes):
        if is_call(node, ATEN.mm.default) and _fits(node) and not _has_kernel(node):
            _pad(rewriter, node, padded)
    return rewriter.finish()


def _fits(node: torch.fx.Node) -> bool:
    value = node.meta["val"]
    left: Any = node.args[0]
    sizes = (*value.shape, left.meta["val"].shape[1])
    if value.dtype not in (torch.float16, torch.bfloat16) or not all(isinstance(size, int) for size in sizes):
        return False
    if not value.is_contiguous():
        return False
    return sizes[0] * sizes[1] * sizes[2] >= LEAST_WORK and any(_missing(size) for size in sizes)


def _has_kernel(node: torch.fx.Node) -> bool:
    """Whether the product will be a kernel of ours, which needs no padding."""
    parts = product_parts(node)
    return parts is not None and is_faster(node, *parts)


def _missing(size: int) -> int:
    return -size % MULTIPLE


def _pad(rewriter: Rewriter, node: torch.fx.Node, padded: dict[tuple[torch.fx.Node, int, int], torch.fx.Node]) -> None:
    left, right = node.args
    assert isinstance(left, torch.fx.Node) and isinstance(right, torch.fx.Node)
    rows, columns = node.meta["val"].shape
    inner = left.meta["val"].shape[1]
    with rewriter.before(node):
        def with_zeros(source: torch.fx.Node, dim: int, count: int) -> torch.fx.Node:
            """A matrix with zeros behind it; those of a transpose are put behind what is transposed."""
            if not count:
                return source
            wider = padded.get((source, dim, count))
            if wider is None:
                if is_call(source, ATEN.t.default) and isinstance(source.args[0], torch.fx.Node):
                    wider = rewriter.call(ATEN.t.default, with_zeros(source.args[0], 1 - dim, count))
                else:
                    behind = [0, count, 0, 0] if dim == 1 else [0, 0, 0, count]
                    wider = rewriter.call(ATEN.constant_pad_nd.default, source, behind)
                padded[source, dim, count] = wider
            return wider

        a = with_zeros(with_zeros(left, 1, _missing(inner)), 0, _missing(rows))
        b = with_zeros(with_zeros(right, 0, _missing(inner)), 1, _missing(columns))
        padded_product = rewriter.call(ATEN.mm.default, a, b)
        if _missing(rows):
            padded_product = rewriter.call(ATEN.slice.Tensor, padded_product, 0, 0, rows)
        if _missing(columns):
            padded_product = rewriter.call(ATEN.slice.Tensor, padded_product, 1, 0, columns)
        # Users count on its strides. A copy of a slice is made by the kernel that reads it.
        padded_product = rewriter.call(ATEN.clone.default, padded_product, memory_format=torch.contiguous_format)
    rewriter.replace(node, padded_product)
