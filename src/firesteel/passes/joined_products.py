"""Products of neighbouring parts of one tensor with the same matrix become products of more rows.

    select: f32[16, 256] = aten.select.int(x, 0, 0)
    first: f32[16, 1024] = aten.addmm.default(bias, select, weight)
    select_1: f32[16, 256] = aten.select.int(x, 0, 1)
    second: f32[16, 1024] = aten.addmm.default(bias, select_1, weight)

becomes

    both: f32[32, 256] = x[0:2].view(32, 256)
    product: f32[32, 1024] = aten.addmm.default(bias, both, weight)
    apart: f32[2, 16, 1024] = aten.view.default(product, [2, 16, 1024])
    first: f32[16, 1024] = aten.select.int(apart, 0, 0)
    second: f32[16, 1024] = aten.select.int(apart, 0, 1)

A loop over the steps of a sequence has such products: what goes into a step does not depend on the step before. With
few rows a good part of the time goes into reading the matrix. Results of all products of one group are in memory
together, so groups are no larger than what makes a product fast.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..functional.graph import FunctionalGraph
from .rewriting import ATEN, Rewriter, is_call
from .settings import STRICT, Settings

MOST_ROWS = 64
"""Rows of a product: with more it takes hardly less time for each."""

Key = tuple[torch.fx.Node, ...]


def joined_products(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Join products in single precision, as many as there are rows for."""
    groups: dict[Key, dict[int, torch.fx.Node]] = {}
    for node in functional.graph.nodes:
        if is_call(node, ATEN.addmm.default, ATEN.mm.default) and not node.kwargs and _fits(node):
            args: Any = node.args
            base, _, position = args[-2].args
            others = [arg for arg in args if arg is not args[-2]]
            groups.setdefault((base, *others), {}).setdefault(position, node)
    order = {node: number for number, node in enumerate(functional.graph.nodes)}
    rewriter = Rewriter(functional)
    for products in groups.values():
        for group in _groups(products):
            _join(rewriter, group, min(group.values(), key=order.__getitem__))
    return rewriter.finish()


def _groups(products: dict[int, torch.fx.Node]) -> list[dict[int, torch.fx.Node]]:
    """Products of parts that follow each other, at least two of them and not too many."""
    groups: list[dict[int, torch.fx.Node]] = []
    for position in sorted(products):
        product = products[position]
        most = MOST_ROWS // product.meta["val"].shape[0]
        if not groups or position - 1 not in groups[-1] or len(groups[-1]) == most:
            groups.append({})
        groups[-1][position] = product
    return [group for group in groups if len(group) > 1]


def _fits(node: torch.fx.Node) -> bool:
    """Whether a product is of a part of a tensor, all of known sizes, and has few rows."""
    left: Any = node.args[-2]
    if not is_call(left, ATEN.select.int) or left.kwargs or left in node.args[:-2] or left is node.args[-1]:
        return False
    base, dim, position = left.args
    whole, part = base.meta["val"], left.meta["val"]
    if whole.ndim != 3 or dim != 0 or type(position) is not int or position < 0:
        return False
    if part.dtype is not torch.float32 or node.meta["val"].dtype is not torch.float32:
        return False
    if not all(type(size) is int for size in (*whole.shape, *node.meta["val"].shape)):
        return False
    if not 0 < 2 * part.shape[0] <= MOST_ROWS or not whole.is_contiguous() or not node.meta["val"].is_contiguous():
        return False
    return not _is_returned(node)


def _is_returned(node: torch.fx.Node) -> bool:
    """Whether a result of the program would be a part of a larger tensor."""
    for user in node.users:
        if user.op == "output":
            return True
        target = user.target
        returns = torch_compat.schema_of(target).returns if isinstance(target, torch_compat.OpOverload) else ()
        if any(one.alias_info is not None for one in returns) and _is_returned(user):
            return True
    return False


def _join(rewriter: Rewriter, products: dict[int, torch.fx.Node], first: torch.fx.Node) -> None:
    """One product in place of several; in front of the first one is all that any of them multiplies with."""
    args: Any = first.args
    start, count = min(products), len(products)
    rows, depth = args[-2].meta["val"].shape
    with rewriter.before(first):
        parts = rewriter.call(ATEN.slice.Tensor, args[-2].args[0], 0, start, start + count)
        together = rewriter.call(ATEN.view.default, parts, [count * rows, depth])
        product = rewriter.call(first.target, *args[:-2], together, args[-1])
        apart = rewriter.call(ATEN.view.default, product, [count, rows, first.meta["val"].shape[1]])
        for position, old in products.items():
            result = rewriter.call(ATEN.select.int, apart, 0, position - start)
            rewriter.replace(old, result)
