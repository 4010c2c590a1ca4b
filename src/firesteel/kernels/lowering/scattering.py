"""Writing at places that data decides on: a copy of the tensor, then stores into it that replace or combine.

    out[i0] = load(x, i0)                          for i0 < 8
    out[t0] add= load(src, i0), t0 = load(index, i0)    for i0 < 5

Points of such a computation may meet in one place; they run in order, as in eager. On a GPU they run at once, and what
they combine is added, or replaced by what is larger, in memory: `parallel_scatters` says what is kept there.
"""

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
from .index_checks import CheckedIndex, checked
from .indexing import EMPTY, IndexedPlaces, with_dimension
from .parallel_scatters import combine_at_once, obstacle
from .reducing import Body
from .registry import lowering
from .reshaping import Reshape
from .scalars import add, cast, mul, opmath, where
from .storing import copied, store
from .tensors import ONE, ZERO, Indices, Stored, Tensor
from .views import expanded, reshaped, wrap

MODES = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min", "mean": "add"}


def _combining(dtype: torch.dtype) -> torch.dtype:
    """What values are combined in: bools as numbers, which are true when they are not 0."""
    return torch.int32 if dtype is torch.bool else opmath(dtype)


def combine(
    ctx: Lowering,
    x: Tensor,
    shape: Sequence[Expr],
    at: Callable[[Indices], Indices],
    value: Body,
    reduce: str | None,
    include_self: bool = True,
    short: bool = False,
) -> Tensor:
    """``x`` with ``value`` stored at ``at(indices)``, or combined with what is there, for all indices of ``shape``.

    With ``short`` every step is rounded to the dtype, as some operators of eager do.
    """
    out = ctx.out
    if reason := obstacle(ctx, "set" if reduce is None else MODES[reduce]):
        return ctx.unsupported(reason)
    if ctx.kind.runs_at_once and reduce is not None:
        return combine_at_once(ctx, x, shape, at, value, reduce, MODES[reduce], include_self)
    if reduce is None:
        target = copied(ctx, x, out.dtype, out)
        store(ctx, target, shape, at, value)
        return target
    wide = out.dtype if short else _combining(out.dtype)
    target = copied(ctx, x, wide, out)
    if not include_self:
        start = _neutral(reduce, wide)
        store(ctx, target, shape, at, lambda i: start)
    store(ctx, target, shape, at, lambda i: cast(value(i), wide), MODES[reduce])
    if reduce == "mean":
        return _mean(ctx, target, shape, at, include_self)
    return target if wide is out.dtype else ctx.computed(lambda i: cast(target.at(i), out.dtype))


def _mean(
    ctx: Lowering, sums: Stored, shape: Sequence[Expr], at: Callable[[Indices], Indices], include_self: bool
) -> Tensor:
    spec, wide, dtype = ctx.spec(sums.shape, sums.dtype, sums.device), sums.dtype, ctx.out.dtype
    one = ir.const(1, wide)
    first = ir.const(int(include_self), wide)
    counts = copied(ctx, ctx.computed(lambda i: first, spec), wide, spec)
    store(ctx, counts, shape, at, lambda i: one, "add")

    def body(indices: Indices) -> Value:
        total, count = (cast(buffer.at(indices), opmath(wide)) for buffer in (sums, counts))
        count = ir.op("max", count, ir.const(1, opmath(wide)))
        return cast(ir.op("div" if wide.is_floating_point else "div_floor", total, count), dtype)

    return ctx.computed(body)


def _neutral(reduce: str, dtype: torch.dtype) -> Value:
    if reduce in ("sum", "mean", "prod"):
        return ir.const(int(reduce == "prod"), dtype)
    if dtype.is_floating_point:
        return ir.const(-math.inf if reduce == "amax" else math.inf, dtype)
    limits = torch.iinfo(dtype)
    return ir.const(limits.min if reduce == "amax" else limits.max, dtype)


def _scatter(
    ctx: Lowering, x: Tensor, dim: int, index: Tensor, value: Body, reduce: str | None, include_self: bool = True
) -> Tensor:
    index = with_dimension(ctx, index)
    if index.ndim != max(x.ndim, 1):
        return ctx.unsupported("no indices")
    dim = wrap(dim, x.ndim)
    place = checked(ctx, index, x.shape[dim] if x.ndim else ONE, "scatter", dim)
    if place is None:
        return ctx.unsupported(EMPTY)
    if not x.ndim:  # the only index there is is 0
        return combine(ctx, x, index.shape, lambda i: (), value, reduce, include_self)
    return combine(ctx, x, index.shape, _along(place, dim), value, reduce, include_self)


def _along(place: CheckedIndex, dim: int) -> Callable[[Indices], Indices]:
    return lambda i: (*i[:dim], place.at(i), *i[dim + 1 :])


def _elements(ctx: Lowering, source: Tensor) -> Body:
    return with_dimension(ctx, source).at


@lowering("aten.scatter.src", "aten.scatter.reduce")
def scatter(ctx: Lowering, x: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str | None = None) -> Tensor:
    return _scatter(ctx, x, dim, index, _elements(ctx, src), reduce)


@lowering("aten.scatter.value", "aten.scatter.value_reduce")
def scatter_value(ctx: Lowering, x: Tensor, dim: int, index: Tensor, value: Any, *, reduce: Any = None) -> Tensor:
    number = ctx.scalar(value, x.dtype)
    return _scatter(ctx, x, dim, index, lambda i: number, reduce)


@lowering("aten.scatter_add.default")
def scatter_add(ctx: Lowering, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return _scatter(ctx, x, dim, index, _elements(ctx, src), "add")


@lowering("aten.scatter_reduce.two")
def scatter_reduce(
    ctx: Lowering, x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    return _scatter(ctx, x, dim, index, _elements(ctx, src), reduce, include_self)


# ---------------------------------------------------------------------------------------------------------------------
# one index for whole slices


def _slices(
    ctx: Lowering,
    x: Tensor,
    dim: int,
    index: Tensor,
    value: Body,
    reduce: str | None = None,
    *,
    kind: str = "index",
    negative: bool = False,
    include_self: bool = True,
    short: bool = False,
) -> Tensor:
    """Stores into the slices of ``x`` that a vector of indices names; ``value`` is asked at places of such slices."""
    index = with_dimension(ctx, index)
    dim = wrap(dim, x.ndim)
    place = checked(ctx, index, x.shape[dim] if x.ndim else ONE, kind, dim, negative, others=x.shape)
    if place is None:
        return ctx.unsupported(EMPTY)
    if not x.ndim:
        return combine(ctx, x, index.shape, lambda i: (), value, reduce, include_self, short)
    shape = (*x.shape[:dim], index.numel, *x.shape[dim + 1 :])
    at: Callable[[Indices], Indices] = lambda i: (*i[:dim], place.at((i[dim],)), *i[dim + 1 :])  # noqa: E731
    return combine(ctx, x, shape, at, value, reduce, include_self, short)


@lowering("aten.index_add.default")
def index_add(ctx: Lowering, x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    wide = _combining(x.dtype)
    plain = not isinstance(alpha, Expr) and alpha == 1
    seen = with_dimension(ctx, source)

    def value(indices: Indices) -> Value:
        term = cast(seen.at(indices), wide)
        return term if plain else mul(term, ctx.scalar(alpha, wide))

    return _slices(ctx, x, dim, index, value, "add", kind="index_add")


@lowering("aten.index_copy.default")
def index_copy(ctx: Lowering, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    if x.ndim > 1 and source.ndim != x.ndim:
        return ctx.unsupported("a source without dimensions")
    return _slices(ctx, x, dim, index, _elements(ctx, source), kind="index_copy")


@lowering("aten.index_reduce.default")
def index_reduce(
    ctx: Lowering, x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    value = _elements(ctx, source)
    return _slices(ctx, x, dim, index, value, reduce, kind="index_select", include_self=include_self, short=True)


@lowering("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(ctx: Lowering, x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        number = value
        return _slices(ctx, x, dim, index, lambda i: cast(number.at(()), x.dtype), negative=True)
    constant = ctx.scalar(value, x.dtype)
    return _slices(ctx, x, dim, index, lambda i: constant, negative=True)


@lowering("aten.put.default")
def put(ctx: Lowering, x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    place = checked(ctx, index, x.numel, "take", negative=True)
    if place is None:
        return ctx.unsupported(EMPTY)
    values = reshaped(ctx, source, index.shape)
    flat = Reshape(ctx, x.shape, (x.numel,))
    return combine(ctx, x, index.shape, lambda i: flat.indices((place.at(i),)), values.at,
                   "add" if accumulate else None)  # fmt: skip


@lowering("aten.index_put.default", "aten._unsafe_index_put.default", "aten._index_put_impl.default")
def index_put(
    ctx: Lowering,
    x: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Tensor:
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype is torch.bool:
        return _masked_put(ctx, x, indices[0], values, accumulate)
    places = IndexedPlaces(ctx, x, indices)
    if places.reason:
        return ctx.unsupported(places.reason)
    shape = places.shape(x)
    if values.ndim > len(shape):
        return ctx.unsupported("values with more dimensions")
    return combine(ctx, x, shape, places.at, expanded(ctx, values, shape).at, "add" if accumulate else None)


def _masked_put(ctx: Lowering, x: Tensor, mask: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    """One value wherever a mask is true."""
    several = any(not ctx.same(size, ONE) for size in values.shape)
    if several or mask.ndim > x.ndim or (x.dtype is torch.bool and accumulate):
        return ctx.unsupported("masks")

    single = (ZERO,) * values.ndim

    def chosen(indices: Indices) -> Value:
        old = x.at(indices)
        new = cast(values.at(single), x.dtype)
        if accumulate:
            wide = opmath(x.dtype)
            new = cast(add(cast(old, wide), cast(new, wide)), x.dtype)
        return where(mask.at(indices[: mask.ndim]), new, old)

    return ctx.computed(chosen)


@lowering("aten.as_strided_scatter.default")
def as_strided_scatter(
    ctx: Lowering, x: Tensor, src: Tensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> Tensor:
    fake = ctx.node.args[0].meta["val"] if ctx.node is not None else None  # type: ignore[union-attr]
    numbers = [*size, *stride, 0 if storage_offset is None else storage_offset]
    if fake is None or any(not isinstance(number, int) for number in (*numbers, *fake.shape, *fake.stride())):
        return ctx.unsupported("symbolic sizes")
    if not fake.is_contiguous() or fake.storage_offset() != 0 or fake.numel() == 0 or not _apart(size, stride):
        return ctx.unsupported("another layout than a plain one, or elements that share memory")
    reach = numbers[-1] + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if reach >= fake.numel():
        return ctx.unsupported("memory beyond the tensor")
    target = copied(ctx, x, ctx.out.dtype, ctx.out)
    shape, strides = ([shapes.const(n) for n in part] for part in (size, stride))
    seen = target.restrided(shape, strides, shapes.const(numbers[-1]))
    if all(size):
        store(ctx, seen, seen.shape, lambda indices: indices, src.at)
    return target


def _apart(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether all elements of a strided view have places of their own, as far as is seen easily."""
    reach = 0
    for step, count in sorted(zip(stride, size, strict=True)):
        if count > 1 and step <= reach:
            return False
        reach += (count - 1) * step
    return True
