"""Operators that give back what they get are removed. Every law here is exact, for NaN, infinities and -0.0 as well.

    a: f32[4, 3] = aten.t.default(x)
    b: f32[3, 4] = aten.t.default(a)
    c: f32[3, 4] = aten.mul.Tensor(b, 1)
    d: f32[3, 4] = aten.exp.default(c)

becomes

    d: f32[3, 4] = aten.exp.default(x)

A node is replaced only by one of the same dtype, sizes and strides. Adding 0 to floats is not among the laws, because
-0.0 + 0 is 0.0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from ..functional.graph import FunctionalGraph
from .rewriting import ATEN, Rewriter, is_call, same_layout
from .settings import STRICT, Settings

Law = Callable[[torch.fx.Node], Any]
"""What a node is equal to: another node, or None if the law says nothing of it."""


def identities(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Remove operators that do nothing, and casts that later casts make needless."""
    rewriter = Rewriter(functional)
    laws = _laws()
    for node in functional.graph.nodes:
        law = laws.get(node.target) if node.op == "call_function" else None
        if law is None:
            continue
        same = law(node)
        if isinstance(same, torch.fx.Node) and same_layout(node.meta["val"], same.meta["val"]):
            rewriter.replace(node, same)
    for node in functional.graph.nodes:
        if is_call(node, ATEN._to_copy.default):
            _skip_cast(rewriter, node)
    return rewriter.finish()


# ---------------------------------------------------------------------------------------------------------------------
# laws


def _argument(node: torch.fx.Node) -> Any:
    return node.args[0]


def _neutral(number: int, floats: bool = True) -> Law:
    """``x op number`` is x, except where x is complex: an infinite part makes the other one NaN there."""
    def law(node: torch.fx.Node) -> Any:
        left, right = node.args[0], node.args[1]
        if type(right) not in (int, float) or right != number or node.kwargs.get("alpha", 1) != 1:
            return None
        if node.kwargs.get("rounding_mode") is not None or str(right) == "-0.0":  # x - -0.0 turns -0.0 into 0.0
            return None
        dtype = node.meta["val"].dtype
        return None if dtype.is_complex or not floats and dtype.is_floating_point else left

    return law


def _inverse_of_itself(node: torch.fx.Node) -> Any:
    """op(op(x)) is x."""
    inner: Any = node.args[0]
    return inner.args[0] if is_call(inner, node.target) and node.args[1:] == inner.args[1:] else None


def _idempotent(node: torch.fx.Node) -> Any:
    """op(op(x)) is op(x)."""
    return node.args[0] if is_call(node.args[0], node.target) else None


def _permutation(node: torch.fx.Node) -> Any:
    """permute(permute(x, p), q) is x where q undoes p."""
    inner: Any = node.args[0]
    order: Any = node.args[1]
    count = node.meta["val"].ndim
    if not is_call(inner, ATEN.permute.default):
        return None
    first = [dim % count for dim in inner.args[1]]
    return inner.args[0] if [first[dim] for dim in order] == list(range(count)) else None


@functools.cache
def _laws() -> dict[Any, Law]:
    return {
        ATEN.mul.Tensor: _neutral(1),  # x * 1 -> x
        ATEN.div.Tensor: _neutral(1),  # x / 1 -> x, for floats; of integers the dtype would differ
        ATEN.sub.Tensor: _neutral(0),  # x - 0 -> x
        ATEN.add.Tensor: _neutral(0, floats=False),  # x + 0 -> x, for integers
        ATEN.pow.Tensor_Scalar: _neutral(1),  # x ** 1 -> x
        ATEN.t.default: _inverse_of_itself,  # t(t(x)) -> x
        ATEN.transpose.int: _inverse_of_itself,
        ATEN.permute.default: _permutation,
        ATEN.neg.default: _inverse_of_itself,  # -(-x) -> x
        ATEN.bitwise_not.default: _inverse_of_itself,
        ATEN.relu.default: _idempotent,  # relu(relu(x)) -> relu(x)
        ATEN.abs.default: _idempotent,
        ATEN.floor.default: _idempotent,
        ATEN.ceil.default: _idempotent,
        ATEN.trunc.default: _idempotent,
        # Views of the whole: equal layouts are asked for anyway, and then the memory is the same, too.
        ATEN.view.default: _argument,
        ATEN._unsafe_view.default: _argument,
        ATEN.expand.default: _argument,
        ATEN.slice.Tensor: _argument,
        ATEN.squeeze.dim: _argument,
        ATEN.alias.default: _argument,
        ATEN.detach.default: _argument,
    }


# ---------------------------------------------------------------------------------------------------------------------
# casts

_INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_HOLDS = {
    torch.bool: (*_INTEGERS, torch.float16, torch.bfloat16, torch.float32, torch.float64),
    torch.uint8: (torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64),
    torch.int8: (torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64),
    torch.int16: (torch.int32, torch.int64, torch.float32, torch.float64),
    torch.int32: (torch.int64, torch.float64),
    torch.float16: (torch.float32, torch.float64),
    torch.bfloat16: (torch.float32, torch.float64),
    torch.float32: (torch.float64,),
}
"""For each dtype those that have all of its values."""


def _skip_cast(rewriter: Rewriter, node: torch.fx.Node) -> None:
    """cast(cast(x, wider), dtype) -> cast(x, dtype), which is x if that is its own dtype."""
    inner: Any = node.args[0]
    if not is_call(inner, ATEN._to_copy.default) or set(node.kwargs) - {"dtype"} or set(inner.kwargs) - {"dtype"}:
        return
    source = inner.args[0]
    old, wide = source.meta["val"], inner.meta["val"]
    if wide.dtype not in _HOLDS.get(old.dtype, ()):
        return
    if same_layout(old, node.meta["val"]):
        rewriter.replace(node, source)
    elif node.meta["val"].dtype is not old.dtype:
        node.args = (source,)
        rewriter.changed = True
