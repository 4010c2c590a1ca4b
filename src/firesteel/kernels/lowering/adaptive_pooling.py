"""Adaptive pooling: windows that divide a dimension into a given number of parts, of sizes that may differ by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ... import shapes
from ...shapes import Expr
from .. import ir
from ..ir import Value
from .context import Lowering
from .pooling import flat_position, is_small, lowest, nan_place, offsets_of, window_sum
from .reducing import emit_fold
from .registry import lowering
from .scalars import both, cast, compare, div, either, opmath, where
from .tensors import ONE, ZERO, Indices, Spec, Tensor


class Parts:
    """The windows of adaptive pooling over the last dimensions of a tensor."""

    def __init__(self, ctx: Lowering, x: Tensor, out: Spec, count: int) -> None:
        self.ctx = ctx
        self.x = x
        self.count = count
        self.full = x.shape[-count:]
        self.small = out.shape[-count:]
        self.even = [ctx.same(ctx.simplify(a % b), ZERO) for a, b in zip(self.full, self.small, strict=True)]
        self.kernel = [_largest_window(ctx, a, b, e) for a, b, e in zip(self.full, self.small, self.even, strict=True)]

    def bounds(self, indices: Indices) -> list[tuple[Expr, Expr]]:
        """Where a window starts and ends in each dimension."""
        return [
            (self.ctx.simplify(i * a // b), self.ctx.simplify(((i + 1) * a + b - 1) // b))
            for i, a, b in zip(indices[-self.count :], self.full, self.small, strict=True)
        ]

    def element(
        self, indices: Indices, offsets: Sequence[Any], dtype: torch.dtype, outside: float | int
    ) -> tuple[Value, list[Expr]]:
        """An element of a window, and its position; ``outside`` for offsets that are beyond the end of the window."""
        ctx, mask, position = self.ctx, ir.const(True, torch.bool), []
        for k, ((start, end), offset) in enumerate(zip(self.bounds(indices), offsets, strict=True)):
            position.append(start + offset)
            if not self.even[k]:
                mask = both(mask, ctx.below(start + offset, end))
        place = (*indices[: -self.count], *position)
        return ctx.masked(mask, lambda: cast(self.x.at(place), dtype), ir.const(outside, dtype)), position


def parts_of(ctx: Lowering, x: Tensor, out: Spec, count: int) -> Parts | None:
    """The windows; None where there may be none."""
    if not all(ctx.known(size > 0) for size in (*x.shape[-count:], *out.shape[-count:])):
        return None
    return Parts(ctx, ctx.share(x), out, count)


def _largest_window(ctx: Lowering, full: Expr, small: Expr, even: bool) -> int | Expr:
    """The most that a window has: a number, or a bound for sizes that are not constant."""
    if even:
        size = ctx.simplify(full // small)
        return int(size) if size.is_constant else size  # type: ignore[call-overload]
    if full.is_constant and small.is_constant:
        a, b = int(full), int(small)  # type: ignore[call-overload]
        return max(-((-(i + 1) * a) // b) - i * a // b for i in range(b))
    return ctx.simplify((full + small - 1) // small + 1)


def _avg_pool(count: int) -> Any:
    def lower(ctx: Lowering, x: Tensor, output_size: Any) -> Tensor:
        if not x.dtype.is_floating_point:
            return ctx.unsupported("means of integers")
        if count == 3 and opmath(x.dtype) is not x.dtype:
            return ctx.unsupported("eager adds short floats up in short floats")
        out, wide = ctx.out, opmath(x.dtype)
        parts = parts_of(ctx, x, out, count)
        if parts is None:
            return ctx.unsupported("a size that may be 0")
        summed = window_sum(ctx, out, parts.kernel, wide, lambda i, k: parts.element(i, k, wide, 0.0)[0])

        def mean(indices: Indices) -> Value:
            result = summed(indices)
            for start, end in parts.bounds(indices):
                result = div(result, ctx.scalar(ctx.simplify(end - start), wide))
            return cast(result, out.dtype)

        return ctx.computed(mean)

    return lower


lowering("aten.adaptive_avg_pool1d.default")(_avg_pool(1))
lowering("aten._adaptive_avg_pool2d.default")(_avg_pool(2))
lowering("aten._adaptive_avg_pool3d.default")(_avg_pool(3))


def _max_pool(count: int) -> Any:
    def lower(ctx: Lowering, x: Tensor, output_size: Any) -> Any:
        values, places = ctx.outs
        assert values is not None and places is not None
        parts = parts_of(ctx, x, values, count)
        if parts is None or x.dtype is torch.bool:
            return ctx.unsupported("a size that may be 0")
        sizes = x.shape[-count:]
        wide = opmath(x.dtype)
        if not is_small(parts.kernel):
            return _reduced_max(ctx, parts, values, places)

        def value(indices: Indices) -> Value:
            best: Value | None = None
            for offsets in offsets_of(parts.kernel):
                element, _ = parts.element(indices, offsets, wide, lowest(wide))
                best = element if best is None else ir.op("max", best, element)
            assert best is not None
            return cast(best, values.dtype)

        def place(indices: Indices) -> Value:
            """The position of the largest element; a NaN beats all before it."""
            best: Value | None = None
            found: Value | None = None
            for offsets in offsets_of(parts.kernel):
                element, position = parts.element(indices, offsets, wide, lowest(wide))
                at = ctx.index(flat_position(position, sizes))
                if best is None or found is None:
                    best, found = element, at
                    continue
                better = compare("gt", element, best)
                if wide.is_floating_point:
                    better = either(better, ir.op("isnan", element))
                best, found = where(better, element, best), where(better, at, found)
            assert found is not None
            return found

        return ctx.computed(value, values), ctx.computed(place, places)

    return lower


def _reduced_max(ctx: Lowering, parts: Parts, values: Spec, places: Spec) -> Any:
    """Windows that are too large to be written out."""
    wide = opmath(parts.x.dtype)
    axes, indices = ctx.axes(values.shape)
    inner_axes, inner = ctx.reduce_axes([shapes.as_expr(size) for size in parts.kernel])

    def element() -> Value:
        return parts.element(indices, inner, wide, lowest(wide))[0]

    best = emit_fold(ctx, "max", values, axes, indices, inner_axes, element)
    whole = ctx.spec(values.shape, torch.int64)
    in_window = emit_fold(ctx, "argmax", whole, axes, indices, inner_axes, element)
    not_a_number = emit_fold(ctx, "max", whole, axes, indices, inner_axes,
                             lambda: nan_place(ctx, element(), inner, [shapes.as_expr(size) for size in parts.kernel]))

    def place(at: Indices) -> Value:
        elements: Expr = ONE
        for size in parts.kernel:
            elements = elements * size
        nan = not_a_number.at(at)
        rest = ctx.indirect(where(compare("ge", nan, 0), nan, in_window.at(at)), elements)
        offsets: list[Expr] = []
        below: Expr = ONE
        for size in reversed(parts.kernel):
            offsets.insert(0, ctx.simplify((rest // below) % size))
            below = below * size
        position = [start + k for (start, _), k in zip(parts.bounds(at), offsets, strict=True)]
        return ctx.index(flat_position(position, parts.x.shape[-parts.count :]))

    return best, ctx.computed(place, places)


lowering("aten.adaptive_max_pool2d.default")(_max_pool(2))
lowering("aten.adaptive_max_pool3d.default")(_max_pool(3))
