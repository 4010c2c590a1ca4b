"""Operators that show a tensor under other indices in memory of their own: the ``_copy`` forms of views, and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ... import shapes
from ...shapes import Expr
from .. import ir
from ..ir import Value
from . import views
from .casts import converted
from .context import Lowering
from .elementwise import broadcast, pointwise
from .registry import lowering
from .scalars import cast, mul, opmath, sub, through
from .tensors import ONE, ZERO, Computed, Indices, Tensor
from .views import permuted, reshaped, wrap


def _copy_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The lowering of a copy, from that of the view."""

    def lower(ctx: Lowering, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        seen = function(ctx, x, *args, **kwargs)
        if seen is NotImplemented:
            return seen
        if isinstance(seen, tuple):
            return tuple([_copied(ctx, part, spec) for part, spec in zip(seen, ctx.outs, strict=True)])
        return converted(ctx, seen)

    return lower


def _copied(ctx: Lowering, x: Tensor, spec: Any) -> Computed:
    return ctx.computed(x.at, spec)


_VIEWS: dict[str, Callable[..., Any]] = {
    "view_copy.default": views.reshape, "expand_copy.default": views.expand, "permute_copy.default": views.permute,
    "transpose_copy.int": views.transpose, "t_copy.default": views.t,
    "squeeze_copy.default": views.squeeze, "squeeze_copy.dim": views.squeeze,
    "squeeze_copy.dims": views.squeeze, "unsqueeze_copy.default": views.unsqueeze, "slice_copy.Tensor": views.slice_,
    "select_copy.int": views.select, "diagonal_copy.default": views.diagonal, "unfold_copy.default": views.unfold,
    "narrow_copy.default": views.narrow, "as_strided_copy.default": views.as_strided, "split_copy.Tensor": views.split,
    "split_with_sizes_copy.default": views.split, "unbind_copy.int": views.unbind, "unsafe_split.Tensor": views.split,
    "unsafe_split_with_sizes.default": views.split, "alias_copy.default": lambda ctx, x: x,
    "detach_copy.default": lambda ctx, x: x,
}  # fmt: skip
for _name, _function in _VIEWS.items():
    lowering(f"aten.{_name}")(_copy_of(_function))


@lowering("aten.rot90.default")
def rot90(ctx: Lowering, x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    a, b = (wrap(dim, x.ndim) for dim in dims)
    turns = k % 4

    def body(indices: Indices) -> Value:
        places = list(indices)
        i, j = indices[a], indices[b]
        if turns == 1:
            places[a], places[b] = j, x.shape[b] - 1 - i
        elif turns == 2:
            places[a], places[b] = x.shape[a] - 1 - i, x.shape[b] - 1 - j
        elif turns == 3:
            places[a], places[b] = x.shape[a] - 1 - j, i
        return x.at(places)

    return ctx.computed(body)


@lowering("aten.pixel_shuffle.default")
def pixel_shuffle(ctx: Lowering, x: Tensor, factor: int) -> Tensor:
    *batch, channels, height, width = x.shape
    n, r = len(batch), shapes.as_expr(factor)
    taken = reshaped(ctx, x, (*batch, channels // (factor * factor), r, r, height, width))
    moved = permuted(taken, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return converted(ctx, reshaped(ctx, moved, ctx.out.shape))


@lowering("aten.pixel_unshuffle.default")
def pixel_unshuffle(ctx: Lowering, x: Tensor, factor: int) -> Tensor:
    *batch, channels, height, width = x.shape
    n, r = len(batch), shapes.as_expr(factor)
    taken = reshaped(ctx, x, (*batch, channels, height // factor, r, width // factor, r))
    moved = permuted(taken, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return converted(ctx, reshaped(ctx, moved, ctx.out.shape))


@lowering("aten.channel_shuffle.default")
def channel_shuffle(ctx: Lowering, x: Tensor, groups: int) -> Tensor:
    batch, channels, *rest = x.shape
    taken = reshaped(ctx, x, (batch, shapes.as_expr(groups), channels // groups, *rest))
    moved = permuted(taken, [0, 2, 1, *range(3, 3 + len(rest))])
    return converted(ctx, reshaped(ctx, moved, x.shape))


@lowering("aten.diag_embed.default")
def diag_embed(ctx: Lowering, x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    a, b = wrap(dim1, x.ndim + 1), wrap(dim2, x.ndim + 1)
    down, right = max(-offset, 0), max(offset, 0)

    def body(indices: Indices) -> Value:
        rest = [i for d, i in enumerate(indices) if d not in (a, b)]
        place = indices[a] - down
        inside = ctx.condition(shapes.eq(place, indices[b] - right))
        if down or right:
            # the corner that the diagonal does not reach
            size = x.shape[-1]
            reached = ctx.condition(shapes.and_(place >= 0, place < size))
            inside = ir.op("and", inside, reached) if reached.op != "const" else inside
        return ctx.masked(inside, lambda: x.at([*rest, place]), ir.const(0, x.dtype))

    return ctx.computed(body)


@lowering("aten.addr.default")
def addr(ctx: Lowering, x: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    if ctx.out.dtype not in (torch.float32, torch.float64) or isinstance(beta, Expr) or beta == 0:
        return ctx.unsupported("integers and short floats are rounded otherwise")
    column = reshaped(ctx, a, (*a.shape, ONE))

    def combine(s: Value, p: Value, q: Value) -> Value:
        kept = mul(s, ctx.scalar(beta, s.dtype))
        return ir.op("add", kept, mul(mul(ctx.scalar(alpha, s.dtype), p), q))

    return pointwise(ctx, combine, x, column, b)


@lowering("aten.linalg_cross.default")
def cross(ctx: Lowering, x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    shape = ctx.out.shape
    d = wrap(dim, len(shape))
    a, b = (broadcast(ctx, part, shape) for part in (x, y))
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    dtype = ctx.out.dtype

    def body(indices: Indices) -> Value:
        def at(tensor: Tensor, step: int) -> Value:
            place = ctx.simplify((indices[d] + step) % 3)
            return tensor.at((*indices[:d], place, *indices[d + 1 :]))

        wide = opmath(dtype)
        left = through(mul(cast(at(a, 1), wide), cast(at(b, 2), wide)), dtype)
        right = through(mul(cast(at(a, 2), wide), cast(at(b, 1), wide)), dtype)
        return cast(sub(left, right), dtype)

    return ctx.computed(body)


@lowering("aten.block_diag.default")
def block_diag(ctx: Lowering, tensors: Sequence[Tensor]) -> Tensor:
    blocks: list[tuple[Tensor, Expr, Expr, Tensor]] = []
    row: Expr = ZERO
    column: Expr = ZERO
    for x in tensors:
        block = reshaped(ctx, x, (*[ONE] * (2 - x.ndim), *x.shape)) if x.ndim < 2 else x
        blocks.append((x, row, column, block))
        row, column = row + block.shape[0], column + block.shape[1]
    if len(blocks) > 4:
        return ctx.unsupported("many blocks")
    dtype = ctx.out.dtype

    def body(indices: Indices) -> Value:
        value: Value = ir.const(0, dtype)
        for _, top, left, block in blocks:
            i, j = indices[0] - top, indices[1] - left
            inside = ctx.condition(shapes.and_(i >= 0, i < block.shape[0], j >= 0, j < block.shape[1]))
            value = ctx.masked(inside, lambda b=block, i=i, j=j: cast(b.at([i, j]), dtype), value)  # type: ignore[misc]
        return value

    return ctx.computed(body)


