"""Choosing between elements: where, masks, limits, triangles, and writing one tensor into a part of another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ... import shapes
from ...shapes import Expr
from .. import ir
from ..ir import Value
from .context import Lowering
from .elementwise import Operand, broadcast, element, limited, pointwise
from .registry import lowering
from .scalars import both, cast, invert, where
from .tensors import ONE, ZERO, Indices, Tensor
from .views import clamped, reshaped, wrap

# Sizes added to anything nearer to 0 do not overflow.
_FAR = 2**62


@lowering("aten.where.self")
def where_(ctx: Lowering, condition: Tensor, x: Operand, y: Operand) -> Tensor:
    spec = ctx.out
    plain = torch.bool if condition.dtype is torch.bool else condition.dtype

    def body(indices: Indices) -> Value:
        chosen = cast(element(ctx, wide[0], indices, plain), torch.bool)
        then, otherwise = (cast(element(ctx, part, indices, spec.dtype), spec.dtype) for part in wide[1:])
        return where(chosen, then, otherwise)

    wide = [broadcast(ctx, part, spec.shape) for part in (condition, x, y)]
    return ctx.computed(body)


@lowering("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(ctx: Lowering, x: Tensor, mask: Tensor, value: Operand) -> Tensor:
    return where_(ctx, mask, value, x)


@lowering("aten.clamp.default", "aten.clamp.Tensor")
def clamp(ctx: Lowering, x: Tensor, minimum: Operand | None = None, maximum: Operand | None = None) -> Tensor:
    def function(a: Value, *limits: Value) -> Value:
        rest = iter(limits)
        if minimum is not None:
            a = limited("max", a, next(rest))
        if maximum is not None:
            a = limited("min", a, next(rest))
        return a

    if ctx.out.dtype is torch.bool:
        return ctx.unsupported("limits of bools")
    if (minimum is None or maximum is None) and any(
            isinstance(limit, float) and math.isnan(limit) for limit in (minimum, maximum)):
        return ctx.unsupported("a limit that is NaN, of which releases of torch make different things")
    return pointwise(ctx, function, x, *[limit for limit in (minimum, maximum) if limit is not None])


@lowering("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(ctx: Lowering, x: Tensor, minimum: Operand) -> Tensor:
    return clamp(ctx, x, minimum, None)


@lowering("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(ctx: Lowering, x: Tensor, maximum: Operand) -> Tensor:
    return clamp(ctx, x, None, maximum)


@lowering("aten.tril.default", "aten.triu.default")
def triangle(ctx: Lowering, x: Tensor, diagonal: Any = 0) -> Tensor:
    lower_part = "tril" in str(ctx.node.target)  # type: ignore[union-attr]
    offset = shapes.as_expr(diagonal)
    if not -_FAR < ctx.size_facts.interval(offset).lower <= ctx.size_facts.interval(offset).upper < _FAR:
        # outside of the matrix all diagonals are alike, and sums with far ones overflow
        offset = shapes.minimum(shapes.maximum(offset, -x.shape[-2]), x.shape[-1])

    def body(indices: Indices) -> Value:
        row, column = indices[-2], indices[-1]
        inside = ctx.below(column, row + offset + 1) if lower_part else ctx.below(row + offset - 1, column)
        return ctx.masked(inside, lambda: x.at(indices), ir.const(0, x.dtype))

    return ctx.computed(body)


# ---------------------------------------------------------------------------------------------------------------------
# into a part of another tensor


def _within(ctx: Lowering, index: Expr, start: Expr, end: Expr, step: Expr) -> Value:
    """Whether an index is one of start, start + step ... below end."""
    inside = both(invert(ctx.below(index, start)), ctx.below(index, end))
    if step is not ONE:
        rest = ctx.simplify((index - start) % step)
        inside = both(inside, ctx.condition(shapes.eq(rest, 0)))
    return inside


@lowering("aten.slice_scatter.default")
def slice_scatter(
    ctx: Lowering, x: Tensor, source: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Tensor:
    dim = wrap(dim, x.ndim)
    size, hop = x.shape[dim], shapes.as_expr(step)
    first = ZERO if start is None else clamped(ctx, start, size)
    last = size if end is None else clamped(ctx, end, size)
    if first is ZERO and last is size and hop is ONE:
        return pointwise(ctx, lambda a: a, source)

    def place(indices: Indices) -> Indices:
        return (*indices[:dim], ctx.simplify((indices[dim] - first) // hop), *indices[dim + 1 :])

    def without_rest(indices: Indices, inside: Value, value: Callable[[], Value]) -> Value:
        return ctx.dividing(inside, place(indices)[dim], indices[dim] - first, hop, value)

    return _written(ctx, x, source, lambda i: _within(ctx, i[dim], first, last, hop), place, without_rest)


@lowering("aten.select_scatter.default")
def select_scatter(ctx: Lowering, x: Tensor, source: Tensor, dim: int, index: Any) -> Tensor:
    dim = wrap(dim, x.ndim)
    place = shapes.as_expr(index)
    if ctx.known(place < 0) is None:
        return ctx.unsupported("a position that may be negative")
    if ctx.known(place < 0):
        place = place + x.shape[dim]
    return _written(
        ctx, x, source,
        lambda indices: ctx.condition(shapes.eq(indices[dim], place)),
        lambda indices: indices[:dim] + indices[dim + 1 :],
    )  # fmt: skip


@lowering("aten.diagonal_scatter.default")
def diagonal_scatter(
    ctx: Lowering, x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    a, b = wrap(dim1, x.ndim), wrap(dim2, x.ndim)
    down, right = max(-offset, 0), max(offset, 0)
    rest = [d for d in range(x.ndim) if d not in (a, b)]
    return _written(
        ctx, x, source,
        lambda indices: ctx.condition(shapes.eq(indices[a] - down, indices[b] - right)),
        lambda indices: (*[indices[d] for d in rest], indices[a] - down),
    )  # fmt: skip


def _written(ctx: Lowering, x: Tensor, source: Tensor, inside: Any, place: Any,
             reading: Callable[[Indices, Value, Callable[[], Value]], Value] | None = None) -> Tensor:
    """``source`` at ``place(indices)`` where ``inside(indices)``, elsewhere ``x``; ``reading`` is around the reads."""
    x = ctx.share(x)
    if not ctx.kind.runs_at_once:
        # Vectors would compute it everywhere. On a GPU it is read once, where it goes.
        source = ctx.share(source)

    def body(indices: Indices) -> Value:
        new = inside(indices)
        old = ctx.reading_under(invert(new), lambda: x.at(indices))

        def written() -> Value:
            return cast(source.at(place(indices)), x.dtype)

        return ctx.masked(new, written if reading is None else lambda: reading(indices, new, written), old)

    return ctx.computed(body)


@lowering("aten.constant_pad_nd.default")
def constant_pad_nd(ctx: Lowering, x: Tensor, pad: Sequence[Any], value: Any = 0) -> Tensor:
    before: list[Expr] = [ZERO] * x.ndim
    after: list[Expr] = [ZERO] * x.ndim
    for k in range(len(pad) // 2):
        before[x.ndim - 1 - k] = shapes.as_expr(pad[2 * k])
        after[x.ndim - 1 - k] = shapes.as_expr(pad[2 * k + 1])

    def body(indices: Indices) -> Value:
        inside = ir.const(True, torch.bool)
        places: list[Expr] = []
        for i, front, back, size in zip(indices, before, after, x.shape, strict=True):
            if ctx.known(front > 0) is not False:
                inside = both(inside, invert(ctx.below(i, front)))
            if ctx.known(back > 0) is not False:
                inside = both(inside, ctx.below(i - front, size))
            places.append(i - front)
        return ctx.masked(inside, lambda: x.at(places), ctx.scalar(value, x.dtype))

    return ctx.computed(body)


# ---------------------------------------------------------------------------------------------------------------------
# one tensor after the other

# Up to this many parts, users that read point by point choose between the parts instead of reading a joined copy.
_FEW_PARTS = 4
# Each part is a copy of its own. More than this take longer to compile than they can save: the library joins them.
_MOST_PARTS = 128


@lowering("aten.cat.default")
def cat(ctx: Lowering, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    spec = ctx.out
    # a tensor of shape (0,) joins with anything
    parts = [t for t in tensors if not (t.ndim == 1 and t.shape[0] is ZERO and len(spec.shape) != 1)]
    parts = [t for t in parts if t.shape[wrap(dim, t.ndim)] is not ZERO] or parts[:1]
    if not parts:
        return ctx.unsupported("nothing to join")
    dim = wrap(dim, parts[0].ndim)
    if len(parts) == 1:
        return pointwise(ctx, lambda a: a, parts[0])
    if len(parts) > _MOST_PARTS:
        return ctx.unsupported(f"{len(parts)} parts to join")
    starts: list[Expr] = [ZERO]
    for part in parts:
        starts.append(ctx.simplify(starts[-1] + part.shape[dim]))
    if len(parts) <= _FEW_PARTS and ctx.is_read_pointwise():
        return _chosen(ctx, [ctx.share(part) for part in parts], dim, starts)
    target = ctx.new_buffer(spec)
    for part, start in zip(parts, starts, strict=False):
        piece = target.restrided(part.shape, target.strides, target.offset + start * target.strides[dim])
        converted = part if part.dtype is spec.dtype else _converted(ctx, part, spec.dtype)
        ctx.fill(piece, converted)
    return target


def _converted(ctx: Lowering, x: Tensor, dtype: torch.dtype) -> Tensor:
    return ctx.computed(lambda indices: cast(x.at(indices), dtype), ctx.spec(x.shape, dtype, x.device))


def _chosen(ctx: Lowering, parts: Sequence[Tensor], dim: int, starts: Sequence[Expr]) -> Tensor:
    """The joined tensor without memory of its own."""
    dtype = ctx.out.dtype

    def body(indices: Indices) -> Value:
        def piece(k: int) -> Value:
            place = (*indices[:dim], indices[dim] - starts[k], *indices[dim + 1 :])
            return cast(parts[k].at(place), dtype)

        def from_part(k: int) -> Value:
            if k == len(parts) - 1:
                return piece(k)
            here = ctx.below(indices[dim], starts[k + 1])
            rest = ctx.reading_under(invert(here), lambda: from_part(k + 1))
            return ctx.masked(here, lambda: piece(k), rest)

        return from_part(0)

    return ctx.computed(body)


@lowering("aten.stack.default")
def stack(ctx: Lowering, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    place = dim % (tensors[0].ndim + 1)
    shape = (*tensors[0].shape[:place], ONE, *tensors[0].shape[place:])
    return cat(ctx, [reshaped(ctx, t, shape) for t in tensors], place)


