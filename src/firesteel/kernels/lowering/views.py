"""Views: the same elements under other indices. In memory they are other strides, elsewhere arithmetic on indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import shapes
from ...shapes import Const, Expr
from ..ir import Value
from .context import Lowering
from .registry import lowering
from .reshaping import Reshape
from .scalars import invert
from .tensors import ONE, ZERO, Indices, Stored, Tensor, view


def wrap(dim: int, ndim: int) -> int:
    """A dimension counted from the front; tensors without dimensions count as having one."""
    return dim % max(ndim, 1)


@lowering("aten.view.default", "aten._unsafe_view.default", "aten._reshape_copy.default")
def reshape(ctx: Lowering, x: Tensor, size: Any) -> Tensor:
    return reshaped(ctx, x, ctx.out.shape)


def reshaped(ctx: Lowering, x: Tensor, shape: Sequence[Expr]) -> Tensor:
    """The elements of a tensor, in row-major order, as another shape."""
    if tuple(shape) == x.shape:
        return x
    key = (x.shape, tuple(shape))
    plan = ctx.reshapes.get(key)
    if plan is None:
        plan = ctx.reshapes[key] = Reshape(ctx, *key)
    return view(x, shape, plan.indices, plan.restride)


@lowering("aten.expand.default")
def expand(ctx: Lowering, x: Tensor, size: Any, *, implicit: bool = False) -> Tensor:
    return expanded(ctx, x, ctx.out.shape)


def expanded(ctx: Lowering, x: Tensor, shape: Sequence[Expr]) -> Tensor:
    """A tensor broadcast to a shape. What is not cheap is computed once, not once for each repetition."""
    shape = tuple(shape)
    if shape == x.shape:
        return x
    new = len(shape) - x.ndim
    repeated = [size is ONE and wanted is not ONE for size, wanted in zip(x.shape, shape[new:], strict=True)]
    if any(repeated) or any(size is not ONE for size in shape[:new]):
        x = ctx.share(x)

    def remap(indices: Indices) -> Indices:
        return tuple([ZERO if again else i for again, i in zip(repeated, indices[new:], strict=True)])

    def restride(base: Stored) -> Stored:
        strides = [ZERO if again else s for again, s in zip(repeated, base.strides, strict=True)]
        return base.restrided(shape, [ZERO] * new + strides)

    return view(x, shape, remap, restride)


@lowering("aten.permute.default")
def permute(ctx: Lowering, x: Tensor, dims: Sequence[int]) -> Tensor:
    return permuted(x, [wrap(dim, x.ndim) for dim in dims])


def permuted(x: Tensor, order: Sequence[int]) -> Tensor:
    """Dimensions in another order: dimension ``order[k]`` becomes dimension ``k``."""
    if list(order) == list(range(x.ndim)):
        return x

    def remap(indices: Indices) -> Indices:
        places: list[Expr] = [ZERO] * x.ndim
        for i, dim in zip(indices, order, strict=True):
            places[dim] = i
        return tuple(places)

    def restride(base: Stored) -> Stored:
        return base.restrided(shape, [base.strides[dim] for dim in order])

    shape = [x.shape[dim] for dim in order]
    return view(x, shape, remap, restride)


@lowering("aten.transpose.int")
def transpose(ctx: Lowering, x: Tensor, dim0: int, dim1: int) -> Tensor:
    order = list(range(x.ndim))
    if order:
        a, b = wrap(dim0, x.ndim), wrap(dim1, x.ndim)
        order[a], order[b] = order[b], order[a]
    return permuted(x, order)


@lowering("aten.t.default")
def t(ctx: Lowering, x: Tensor) -> Tensor:
    return permuted(x, list(reversed(range(x.ndim)))) if x.ndim <= 2 else ctx.unsupported("more than 2 dimensions")


@lowering("aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims")
def squeeze(ctx: Lowering, x: Tensor, dim: Any = None) -> Tensor:
    named = range(x.ndim) if dim is None else dim if isinstance(dim, list | tuple) else [dim]
    dims = [wrap(d, x.ndim) for d in named]
    dropped = {d for d in dims if d < x.ndim and ctx.same(x.shape[d], ONE)}
    if x.ndim - len(dropped) != len(ctx.out.shape):
        return ctx.unsupported("sizes that may be 1")
    return without_dims(x, dropped)


def without_dims(x: Tensor, dropped: set[int]) -> Tensor:
    """A tensor without some of its dimensions of size 1."""
    kept = [d for d in range(x.ndim) if d not in dropped]

    def remap(indices: Indices) -> Indices:
        places = iter(indices)
        return tuple([ZERO if d in dropped else next(places) for d in range(x.ndim)])

    def restride(base: Stored) -> Stored:
        return base.restrided([x.shape[d] for d in kept], [base.strides[d] for d in kept])

    return view(x, [x.shape[d] for d in kept], remap, restride)


@lowering("aten.unsqueeze.default")
def unsqueeze(ctx: Lowering, x: Tensor, dim: int) -> Tensor:
    place = dim % (x.ndim + 1)
    shape = (*x.shape[:place], ONE, *x.shape[place:])

    def remap(indices: Indices) -> Indices:
        return indices[:place] + indices[place + 1 :]

    def restride(base: Stored) -> Stored:
        step = ONE if place == x.ndim else base.strides[place] * base.shape[place]
        return base.restrided(shape, (*base.strides[:place], step, *base.strides[place:]))

    return view(x, shape, remap, restride)


def clamped(ctx: Lowering, position: Any, size: Expr) -> Expr:
    """An end of a slice: counted from the back where negative, kept inside of the tensor."""
    place = shapes.as_expr(position)
    if ctx.known(place >= size) is True:
        return size
    negative = ctx.known(place < 0)
    if negative is None:
        place = shapes.if_else(place < 0, place + size, place)
    elif negative:
        place = place + size
    return ctx.simplify(shapes.minimum(shapes.maximum(place, 0), size))


@lowering("aten.slice.Tensor")
def slice_(ctx: Lowering, x: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Tensor:
    dim = wrap(dim, x.ndim)
    first = ZERO if start is None else clamped(ctx, start, x.shape[dim])
    return sliced(ctx, x, dim, first, shapes.as_expr(step), ctx.out.shape[dim])


def narrow(ctx: Lowering, x: Tensor, dim: int, start: Any, length: Any) -> Tensor:
    """``length`` elements of a dimension; a start before its beginning or behind its end counts as there."""
    dim = wrap(dim, x.ndim)
    return sliced(ctx, x, dim, clamped(ctx, start, x.shape[dim]), ONE, ctx.out.shape[dim])


def sliced(ctx: Lowering, x: Tensor, dim: int, start: Expr, step: Expr, length: Expr) -> Tensor:
    """``length`` elements of a dimension from ``start`` on, ``step`` apart."""
    if start is ZERO and step is ONE and ctx.same(length, x.shape[dim]):
        return x
    shape = (*x.shape[:dim], length, *x.shape[dim + 1 :])

    def remap(indices: Indices) -> Indices:
        return (*indices[:dim], indices[dim] * step + start, *indices[dim + 1 :])

    def restride(base: Stored) -> Stored:
        steps = (*base.strides[:dim], base.strides[dim] * step, *base.strides[dim + 1 :])
        return base.restrided(shape, steps, base.offset + start * base.strides[dim])

    return view(x, shape, remap, restride)


@lowering("aten.select.int")
def select(ctx: Lowering, x: Tensor, dim: int, index: Any) -> Tensor:
    dim = wrap(dim, x.ndim)
    place = shapes.as_expr(index)
    negative = ctx.known(place < 0)
    if negative is None:
        place = shapes.if_else(place < 0, place + x.shape[dim], place)
    elif negative:
        place = place + x.shape[dim]
    return selected(x, dim, place)


def selected(x: Tensor, dim: int, place: Expr) -> Tensor:
    """One position of a dimension, which is gone in the result."""
    shape = x.shape[:dim] + x.shape[dim + 1 :]

    def remap(indices: Indices) -> Indices:
        return (*indices[:dim], place, *indices[dim:])

    def restride(base: Stored) -> Stored:
        steps = base.strides[:dim] + base.strides[dim + 1 :]
        return base.restrided(shape, steps, base.offset + place * base.strides[dim])

    return view(x, shape, remap, restride)


@lowering("aten.split.Tensor", "aten.split_with_sizes.default")
def split(ctx: Lowering, x: Tensor, sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    dim = wrap(dim, x.ndim)
    parts: list[Tensor] = []
    start: Expr = ZERO
    for spec in ctx.outs:
        assert spec is not None
        parts.append(sliced(ctx, x, dim, start, ONE, spec.shape[dim]))
        start = start + spec.shape[dim]
    return tuple(parts)


@lowering("aten.unbind.int")
def unbind(ctx: Lowering, x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    dim = wrap(dim, x.ndim)
    return tuple([selected(x, dim, shapes.const(k)) for k in range(len(ctx.outs))])


@lowering("aten.alias.default", "aten.detach.default", "aten.lift.default", "aten.lift_fresh.default")
def alias(ctx: Lowering, x: Tensor) -> Tensor:
    return x


@lowering("aten.diagonal.default")
def diagonal(ctx: Lowering, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    a, b = wrap(dim1, x.ndim), wrap(dim2, x.ndim)
    rest = [d for d in range(x.ndim) if d not in (a, b)]
    shape = ctx.out.shape
    if shape[-1] is ZERO:  # one that begins outside of the matrix
        offset = 0
    down, right = shapes.const(max(-offset, 0)), shapes.const(max(offset, 0))

    def remap(indices: Indices) -> Indices:
        places: list[Expr] = [ZERO] * x.ndim
        for i, d in zip(indices[:-1], rest, strict=True):
            places[d] = i
        places[a], places[b] = indices[-1] + down, indices[-1] + right
        return tuple(places)

    def restride(base: Stored) -> Stored:
        steps = [base.strides[d] for d in rest] + [base.strides[a] + base.strides[b]]
        return base.restrided(shape, steps, base.offset + down * base.strides[a] + right * base.strides[b])

    return view(x, shape, remap, restride)


@lowering("aten.unfold.default")
def unfold(ctx: Lowering, x: Tensor, dimension: int, size: Any, step: Any) -> Tensor:
    shape = ctx.out.shape
    if x.ndim == 0:  # as if it had one dimension of size 1, which windows of up to one element fit into
        return view(x, shape, lambda indices: ())
    dim = wrap(dimension, x.ndim)
    hop = shapes.as_expr(step)

    def remap(indices: Indices) -> Indices:
        return (*indices[:dim], indices[dim] * hop + indices[-1], *indices[dim + 1 : -1])

    def restride(base: Stored) -> Stored:
        steps = (*base.strides[:dim], base.strides[dim] * hop, *base.strides[dim + 1 :], base.strides[dim])
        return base.restrided(shape, steps)

    return view(x, shape, remap, restride)


@lowering("aten.as_strided.default")
def as_strided(ctx: Lowering, x: Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
    node = ctx.node
    assert node is not None
    if ctx.known(x.numel > 0) is not True:
        return ctx.unsupported("what has no elements has no address either, though its storage may have")
    fake = node.args[0].meta["val"]  # type: ignore[union-attr]
    from ...shapes.symnode import expr_of

    stored = ctx.realize_as(x, tuple(map(expr_of, fake.stride())))
    steps = tuple([shapes.as_expr(s) for s in stride])
    if storage_offset is None:
        return stored.restrided(ctx.out.shape, steps)
    # Offsets in torch count from the start of the storage, ours from where the tensor starts.
    move = shapes.as_expr(storage_offset) - expr_of(fake.storage_offset())
    return stored.restrided(ctx.out.shape, steps, stored.offset + move)


@lowering("aten.flip.default")
def flip(ctx: Lowering, x: Tensor, dims: Sequence[int]) -> Tensor:
    turned = {wrap(dim, x.ndim) for dim in dims}

    def remap(indices: Indices) -> Indices:
        return tuple([x.shape[d] - 1 - i if d in turned else i for d, i in enumerate(indices)])

    return view(x, x.shape, remap, strides=ctx.out.strides)


_LONGEST_SHIFT = 2**40


@lowering("aten.roll.default")
def roll(ctx: Lowering, x: Tensor, shifts: Sequence[Any], dims: Sequence[int] = ()) -> Tensor:
    known = [ctx.size_facts.interval(shapes.as_expr(shift)) for shift in shifts]
    if any(max(-shift.lower, shift.upper) > _LONGEST_SHIFT for shift in known):
        return ctx.unsupported("a shift so long that kernels may not divide it exactly, and ATen may refuse it")
    if not dims:
        flat = reshaped(ctx, x, (x.numel,))
        return reshaped(ctx, rolled(ctx, flat, {0: shapes.as_expr(shifts[0])}), x.shape)
    by: dict[int, Expr] = {}
    for shift, dim in zip(shifts, dims, strict=True):
        d = wrap(dim, x.ndim)
        by[d] = by.get(d, ZERO) + shift
    return rolled(ctx, x, by)


def rolled(ctx: Lowering, x: Tensor, by: dict[int, Expr]) -> Tensor:
    """Elements moved along dimensions, what falls off the end coming back at the front."""
    last = x.ndim - 1
    size, shift = (x.shape[last], by.get(last)) if by and x.ndim else (ZERO, None)
    if isinstance(size, Const) and isinstance(shift, Const) and not ctx.kind.runs_at_once:
        x = _rolled_row(ctx, x, int(shift) % max(int(size), 1), int(size))
        by = {dim: amount for dim, amount in by.items() if dim != last}
        if not by:
            return x

    def remap(indices: Indices) -> Indices:
        places = list(indices)
        for d, shift in by.items():
            if d < len(places) and x.shape[d] is not ZERO:
                places[d] = ctx.simplify((places[d] + (-shift) % x.shape[d]) % x.shape[d])
        return tuple(places)

    return view(x, x.shape, remap)


def _rolled_row(ctx: Lowering, x: Tensor, shift: int, size: int) -> Tensor:
    """Elements moved along the last dimension: vectors read both ends as they lie, each where its part is."""
    if shift == 0:
        return x
    x = ctx.share(x)

    def body(indices: Indices) -> Value:
        *rest, i = indices
        front = ctx.below(i, shapes.const(shift))
        behind = ctx.reading_under(invert(front), lambda: x.at((*rest, i - shift)))
        return ctx.masked(front, lambda: x.at((*rest, i + (size - shift))), behind)

    return ctx.computed(body, ctx.spec(x.shape, x.dtype, x.device))


@lowering("aten.repeat.default")
def repeat(ctx: Lowering, x: Tensor, repeats: Sequence[Any]) -> Tensor:
    shape = ctx.out.shape
    new = len(shape) - x.ndim

    def remap(indices: Indices) -> Indices:
        return tuple([
            ZERO if size is ONE else i if ctx.same(size, wanted) else ctx.simplify(i % size)
            for i, size, wanted in zip(indices[new:], x.shape, shape[new:], strict=True)
        ])  # fmt: skip

    return view(ctx.share(x), shape, remap, strides=ctx.out.strides)
