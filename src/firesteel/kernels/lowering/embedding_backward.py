"""Gradients of embeddings: the rows of the gradient, added to the rows of the table that were looked up, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...shapes import Expr
from .. import ir
from ..ir import Value
from .context import Lowering
from .index_checks import CheckedIndex, checked
from .parallel_scatters import obstacle
from .reducing import Body
from .registry import lowering
from .scalars import cast, compare, div, opmath, where
from .storing import copied, store, taken
from .tensors import Indices, Spec, Stored, Tensor
from .views import reshaped


@lowering("aten.embedding_dense_backward.default")
def embedding_dense_backward(
    ctx: Lowering, grad: Tensor, indices: Tensor, num_weights: Any, padding_idx: Any, scale_grad_by_freq: bool
) -> Tensor:
    out = ctx.out
    if isinstance(padding_idx, Expr):
        return ctx.unsupported("a padding index that is not constant")
    if reason := obstacle(ctx, "add"):
        return ctx.unsupported(reason)
    # The indices were checked when the rows were looked up.
    row = checked(ctx, indices, out.shape[0], None)
    if row is None:
        return ctx.unsupported("a size that may be 0")
    wide = opmath(out.dtype)
    counts = _counts(ctx, indices, out) if scale_grad_by_freq else None
    grad = ctx.share(grad)

    def value(at: Indices) -> Value:
        element = cast(grad.at(at), wide)
        return element if counts is None else div(element, cast(counts.at((row.at(at[:-1]),)), wide))

    if wide is not out.dtype and _is_sparse(ctx, indices, out):
        return _gathered(ctx, grad, indices, row, padding_idx, value)
    zeros = ctx.computed(lambda i: ir.const(0.0, wide), Spec(out.shape, out.strides, wide, out.device))
    target = copied(ctx, zeros, wide, out)
    _add_rows(ctx, target, grad, row, padding_idx, value, lambda i: (row.at(i[:-1]), i[-1]))
    return target if wide is out.dtype else ctx.computed(lambda i: cast(target.at(i), out.dtype))


def _add_rows(ctx: Lowering, target: Stored, grad: Tensor, row: CheckedIndex, padding: int, value: Body,
              place: Callable[[Indices], Indices]) -> None:
    """Add the rows of the gradient, all but those of the padding."""
    if padding < 0:
        store(ctx, target, grad.shape, place, value, "add")
    elif not ctx.kind.runs_at_once:
        store(ctx, target, grad.shape, place,
              lambda i: where(compare("eq", row.value(i[:-1]), padding), 0.0, value(i)), "add")
    else:  # many points that add nothing to one place would wait for each other
        store(ctx, target, grad.shape, place, value, "add", lambda i: compare("ne", row.value(i[:-1]), padding))


def _is_sparse(ctx: Lowering, indices: Tensor, out: Spec) -> bool:
    """Whether all points run at once, and most rows of the table were not looked up."""
    return ctx.kind.runs_at_once and ctx.known(indices.numel * 2 <= out.shape[0]) is True


def _gathered(ctx: Lowering, grad: Tensor, indices: Tensor, row: CheckedIndex, padding: int, value: Body) -> Tensor:
    """The sums in memory for the rows that were looked up, instead of a wide table for all:

        first[v] = the first position in ``indices`` that looks up v, the number of positions if none does
        sums[first[v]] = the sum of the rows of the gradient for v
        out[v] = sums[first[v]], 0 if v was not looked up
    """
    out, wide = ctx.out, opmath(ctx.out.dtype)
    count, length = indices.numel, out.shape[1]
    kind = torch.int32
    spec = ctx.spec((out.shape[0],), kind, out.device)
    flat = reshaped(ctx, indices, (count,))
    place = checked(ctx, flat, out.shape[0], None)
    assert place is not None
    none = cast(ctx.index(count), kind)
    first = copied(ctx, ctx.computed(lambda i: none, spec), kind, spec)
    store(ctx, first, (count,), lambda i: (place.at(i),), lambda i: cast(ctx.index(i[0]), kind), "min")
    zeros = ctx.computed(lambda i: ir.const(0.0, wide), ctx.spec((count, length), wide, out.device))
    sums = copied(ctx, zeros, wide, ctx.spec((count, length), wide, out.device))
    last = ctx.index(count - 1)

    def row_of(table: Any) -> Expr:
        """Where the sums of a row of the table are."""
        return ctx.indirect(ir.op("min", cast(first.at((table,)), torch.int64), last), count)

    _add_rows(ctx, sums, grad, row, padding, value, lambda i: (row_of(row.at(i[:-1])), i[-1]))

    def total(indices: Indices) -> Value:
        looked_up = compare("lt", cast(first.at(indices[:1]), torch.int64), ctx.index(count))
        sum_ = ctx.masked(looked_up, lambda: sums.at((row_of(indices[0]), indices[1])), ir.const(0.0, wide))
        return cast(sum_, out.dtype)

    return ctx.computed(total)


@lowering("firesteel.add_embedding_gradient.default")
def add_embedding_gradient(ctx: Lowering, x: Tensor, grad: Tensor, indices: Tensor, padding_idx: Any) -> Tensor:
    out = ctx.out
    row = checked(ctx, indices, out.shape[0], None)
    if row is None or isinstance(padding_idx, Expr) or opmath(out.dtype) is not out.dtype:
        return ctx.unsupported("a size that may be 0, a padding index that is not constant or short floats")
    if reason := obstacle(ctx, "add"):
        return ctx.unsupported(reason)
    grad = ctx.share(grad)
    target = taken(ctx, x) or copied(ctx, x, out.dtype, out)
    _add_rows(ctx, target, grad, row, padding_idx, grad.at, lambda i: (row.at(i[:-1]), i[-1]))
    return target


def _counts(ctx: Lowering, indices: Tensor, out: Spec) -> Tensor:
    """How often each row was looked up."""
    row = checked(ctx, indices, out.shape[0], None)
    assert row is not None
    spec = ctx.spec((out.shape[0],), torch.int64, out.device)
    counts = copied(ctx, ctx.computed(lambda i: ir.const(0, torch.int64), spec), torch.int64, spec)
    store(ctx, counts, indices.shape, lambda i: (row.at(i),), lambda i: ir.const(1, torch.int64), "add")
    return counts
