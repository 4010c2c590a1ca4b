"""Products that add up few numbers, or give one for each batch, become loops: memory sets their time, and they fuse.

    bmm: f64[1, 4096, 1] = aten.bmm.default(x, w)         x: f64[1, 4096, 2]

becomes

    select_int: f64[1, 4096]/[8192, 2] = aten.select.int(x, 2, 0)
    unsqueeze_default: f64[1, 4096, 1]/[8192, 2, 1] = aten.unsqueeze.default(select_int, 2)
    ...
    add_tensor: f64[1, 4096, 1] = aten.add.Tensor(mul_tensor, mul_tensor_1)

and one row by one column in every batch, as ``einsum("ij,ij->i", x, y)`` asks for, becomes a sum of products. What such
products are made of is often a permuted copy, which then is not made either.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from ...devices import kind_of
from ...functional.graph import FunctionalGraph
from ...passes.rewriting import ATEN, Rewriter, is_call, same_layout
from ...passes.settings import STRICT, Settings
from .small_products import by_loops

FEW = 4
"""So many products are written out."""
LARGE = 1 << 12
"""Results or operands of so many elements are worth it: a call of the library costs little beside them."""


def thin_products(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Products in single and double precision whose operands are read once."""
    rewriter = Rewriter(functional)
    for node in functional.graph.nodes:
        if not is_call(node, ATEN.mm.default, ATEN.bmm.default) or not _is_plain(node):
            continue
        *batch, rows, columns = node.meta["val"].shape
        length = node.args[0].meta["val"].shape[-1]
        count = rows * columns
        for size in batch:
            count *= size
        with rewriter.before(node):
            if 0 < length <= FEW and count >= LARGE:
                total = _written_out(rewriter, node, length)
            elif batch and batch[0] > 1 and rows == columns == 1 and batch[0] * length >= LARGE:
                total = by_loops(node.target, node.args, rewriter.call)
            else:
                continue
        if same_layout(node.meta["val"], total.meta["val"]):
            rewriter.replace(node, total)
    return rewriter.finish()


def _is_plain(node: torch.fx.Node) -> bool:
    """Whether sizes are known, and the operands are floats in memory of the CPU's that eager rounds as loops do."""
    values: list[Any] = [part.meta["val"] for part in (node, *node.all_input_nodes)]
    dtype = values[0].dtype
    if dtype not in (torch.float32, torch.float64) or node.kwargs:
        return False
    if dtype is torch.float32 and torch.get_float32_matmul_precision() != "highest":
        return False
    return all(kind_of(value).is_host and value.dtype is dtype and all(type(size) is int for size in value.shape)
               for value in values)


def _written_out(rewriter: Rewriter, node: torch.fx.Node, length: int) -> torch.fx.Node:
    left, right = node.args
    dim = node.meta["val"].ndim - 1
    total = None
    for k in range(length):
        column = rewriter.call(ATEN.unsqueeze.default, rewriter.call(ATEN.select.int, left, dim, k), dim)
        row = rewriter.call(ATEN.unsqueeze.default, rewriter.call(ATEN.select.int, right, dim - 1, k), dim - 1)
        product = rewriter.call(ATEN.mul.Tensor, column, row)
        total = product if total is None else rewriter.call(ATEN.add.Tensor, total, product)
    assert total is not None
    return total
