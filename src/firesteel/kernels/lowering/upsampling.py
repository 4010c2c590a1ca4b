"""Resampling of images: nearest, linear and cubic. Positions are computed in floats, rounded as eager rounds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ... import shapes
from ...records import dataclass
from ...shapes import Expr
from .. import ir
from ..ir import Value
from .context import Lowering
from .registry import lowering
from .scalars import add, cast, mul, op, opmath, sub
from .tensors import ONE, Indices, Tensor

UNCLEAR = "a scale that is not constant, or that sizes may contradict"


def scales_of(ctx: Lowering, sizes: Sequence[Expr], new: Sequence[Expr], given: Sequence[Any]) -> list[Any] | None:
    """The scale for each dimension, None where it follows from the sizes; None for all where kernels have no code for
    one of them."""
    scales = list(given) + [None] * (len(sizes) - len(given))
    known = all(_is_clear(ctx, *one) for one in zip(sizes, new, scales, strict=True))
    return scales if known else None


def _is_clear(ctx: Lowering, size: Expr, new: Expr, scale: Any) -> bool:
    """Whether all kernels of eager read a scale alike. Where it leaves a size as it is, or makes it twice as large,
    although it is not 1 or 2, some go by the sizes and others by the scale."""
    if scale is None:
        return True
    if isinstance(scale, Expr):
        return False
    if scale == int(scale) and ctx.same(new, size * int(scale)):
        return True
    return all(ctx.known(shapes.eq(new, size * times)) is False for times in (1, 2))


# ---------------------------------------------------------------------------------------------------------------------
# nearest


def _nearest(count: int, exact: bool) -> Any:
    def lower(ctx: Lowering, x: Tensor, output_size: Any, *given: Any) -> Tensor:
        sizes, new = x.shape[-count:], ctx.out.shape[-count:]
        scales = scales_of(ctx, sizes, new, given)
        if scales is None:
            return ctx.unsupported(UNCLEAR)
        x = ctx.share(x)

        def body(indices: Indices) -> Value:
            places = [
                nearest_place(ctx, i, a, b, scale, exact)
                for i, a, b, scale in zip(indices[-count:], sizes, new, scales, strict=True)
            ]
            return x.at((*indices[:-count], *places))

        return ctx.computed(body)

    return lower


def nearest_place(ctx: Lowering, i: Expr, size: Expr, new: Expr, scale: float | None, exact: bool) -> Expr:
    """The index of the nearest element; an integer expression where that agrees with eager's floats."""
    if size is new and not exact:
        return i
    if size.is_constant and new.is_constant:
        old, count = int(size), int(new)  # type: ignore[call-overload]
        places = torch.arange(count, dtype=torch.float32)
        factor = torch.tensor(1.0 / scale if scale else old / count, dtype=torch.float32)
        wanted = (((places + 0.5) if exact else places) * factor).floor().long().clamp(max=old - 1)
        simple = torch.arange(count) * old // count
        if torch.equal(wanted, simple):
            return ctx.simplify(i * old // count)
    elif not exact and ctx.same(new, size * 2):
        return ctx.simplify(i // 2)
    place = cast(ctx.index(i), torch.float32)
    ratio = _ratio(ctx, size, new, scale, torch.float32)
    source = ir.op("floor", mul(add(place, 0.5) if exact else place, ratio))
    return ctx.indirect(op("max", op("min", cast(source, torch.int64), ctx.index(size - 1)), 0), size)


def _ratio(ctx: Lowering, size: Expr, new: Expr, scale: float | None, dtype: torch.dtype) -> Value:
    """How far apart neighbours of the result are in the source."""
    if scale is not None and scale > 0:
        return ir.const(1.0 / scale, dtype)
    if size.is_constant and new.is_constant:
        wide = ir.const(int(size), dtype), ir.const(int(new), dtype)  # type: ignore[call-overload]
        quotient = torch.tensor(wide[0].data, dtype=dtype) / torch.tensor(wide[1].data, dtype=dtype)
        return ir.const(float(quotient), dtype)
    return ir.op("div", ctx.scalar(size, dtype), ctx.scalar(new, dtype))


for _count in (1, 2, 3):
    for _name, _exact in ((f"upsample_nearest{_count}d", False), (f"_upsample_nearest_exact{_count}d", True)):
        lowering(f"aten.{_name}.default")(_nearest(_count, _exact))


# ---------------------------------------------------------------------------------------------------------------------
# linear and cubic


@dataclass(frozen=True)
class Tap:
    """An element that a point of the result is made of, along one dimension."""

    place: Expr
    weight: Value


def source_of(
    ctx: Lowering, i: Expr, size: Expr, new: Expr, scale: float | None, align_corners: bool, dtype: torch.dtype
) -> Value:
    """The position in the source of a point of the result, not kept inside."""
    place = cast(ctx.index(i), dtype)
    if align_corners:
        if new is ONE:
            return ir.const(0.0, dtype)
        return mul(place, _ratio(ctx, size - 1, new - 1, None, dtype))
    return sub(mul(_ratio(ctx, size, new, scale, dtype), add(place, 0.5)), 0.5)


def linear_taps(ctx: Lowering, source: Value, size: Expr, new: Expr) -> list[Tap]:
    """The two neighbours; where the size stays, both are the point itself, so that infinity becomes NaN as in eager."""
    source = op("max", source, 0.0)
    last = ctx.index(size - 1)
    low = op("max", ir.op("min", cast(source, torch.int64), last), 0)
    known = ctx.known(shapes.eq(size, new))
    step = int(not known) if known is not None else cast(op("ne", ctx.index(size), ctx.index(new)), torch.int64)
    high = ir.op("min", add(low, step), last)
    weight = op("min", op("max", sub(source, cast(low, source.dtype)), 0.0), 1.0)
    return [Tap(ctx.indirect(low, size), sub(1.0, weight)), Tap(ctx.indirect(high, size), weight)]


def cubic_taps(ctx: Lowering, source: Value, size: Expr, new: Expr) -> list[Tap]:
    """Weights of the cubic convolution with parameter -0.75."""
    start = ir.op("floor", source)
    t = sub(source, start)
    first = cast(start, torch.int64)
    last = ctx.index(size - 1)
    a = -0.75

    def near(x: Value) -> Value:
        return add(mul(mul(sub(mul(x, a + 2), a + 3), x), x), 1.0)

    def far(x: Value) -> Value:
        return sub(mul(add(mul(sub(mul(x, a), 5 * a), x), 8 * a), x), 4 * a)

    weights = [far(add(t, 1.0)), near(t), near(sub(1.0, t)), far(sub(2.0, t))]
    places = [op("max", ir.op("min", add(first, k - 1), last), 0) for k in range(4)]
    return [Tap(ctx.indirect(place, size), weight) for place, weight in zip(places, weights, strict=True)]


def _pays_by_rows(ctx: Lowering, x: Tensor, sizes: Sequence[Expr], new: Sequence[Expr]) -> bool:
    """Whether to resample along rows first and keep that: elements of a row are read one by one from computed places,
    whole rows side by side, and each row is used for several rows of the result where there are more of these."""
    stored = x.stored()
    if ctx.kind.runs_at_once or len(sizes) < 2 or sizes[-1] is new[-1] \
            or stored is not None and not ctx.same(stored.strides[-1], ONE):
        return False
    return all(ctx.known(b >= a) is True for a, b in zip(sizes, new, strict=True)) \
        and any(ctx.known(b > a) is True for a, b in zip(sizes[:-1], new[:-1], strict=True))


def _interpolating(count: int, taps: Any) -> Any:
    def lower(ctx: Lowering, x: Tensor, output_size: Any, align_corners: bool, *given: Any) -> Tensor:
        sizes, new = x.shape[-count:], ctx.out.shape[-count:]
        scales = scales_of(ctx, sizes, new, given)
        if scales is None or not x.dtype.is_floating_point:
            return ctx.unsupported(f"{UNCLEAR}, or integers")
        if opmath(x.dtype) is not x.dtype and not (count == 2 and taps is linear_taps):
            return ctx.unsupported("eager rounds weights to short floats")
        if any(ctx.known(size > 0) is not True for size in sizes):
            return ctx.unsupported("a size that may be 0")
        wide, dtype = opmath(x.dtype), ctx.out.dtype
        x = ctx.share(x)

        def around(dim: int, i: Expr) -> list[Tap]:
            a, b, scale = sizes[dim], new[dim], scales[dim]
            if a is b and taps is linear_taps:
                return [Tap(i, ir.const(1.0, wide)), Tap(i, ir.const(0.0, wide))]
            return taps(ctx, source_of(ctx, i, a, b, scale, align_corners, wide), a, b)

        if _pays_by_rows(ctx, x, sizes, new):
            spec = ctx.spec((*x.shape[:-1], new[-1]), wide)
            rows = ctx.realize(ctx.computed(
                lambda indices: _weighted(x, indices[:-1], [around(count - 1, indices[-1])], wide), spec))

            def of_rows(indices: Indices) -> Value:
                outer = [around(dim, i) for dim, i in enumerate(indices[-count:-1])]
                last = [Tap(indices[-1], ir.const(1.0, wide))]
                return cast(_weighted(rows, indices[:-count], [*outer, last], wide), dtype)

            return ctx.computed(of_rows)

        def body(indices: Indices) -> Value:
            return cast(_weighted(x, indices[:-count], [around(dim, i) for dim, i in enumerate(indices[-count:])],
                                  wide), dtype)

        return ctx.computed(body)

    return lower


def _weighted(x: Tensor, outer: Indices, around: list[list[Tap]], dtype: torch.dtype) -> Value:
    """The sum of elements times weights, along the last dimension first."""
    taps, rest = around[0], around[1:]
    total: Value | None = None
    for tap in taps:
        place = (*outer, tap.place)
        value = _weighted(x, place, rest, dtype) if rest else cast(x.at(place), dtype)
        if len(taps) > 1:
            value = mul(value, tap.weight)
        total = value if total is None else add(total, value)
    assert total is not None
    return total


for _count, _name in ((1, "upsample_linear1d"), (2, "upsample_bilinear2d"), (3, "upsample_trilinear3d")):
    lowering(f"aten.{_name}.default")(_interpolating(_count, linear_taps))
lowering("aten.upsample_bicubic2d.default")(_interpolating(2, cubic_taps))
