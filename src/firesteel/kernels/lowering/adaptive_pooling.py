"""Adaptive pooling: windows that divide a dimension into a given number of parts, of sizes that may differ by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...shapes import Expr
from .. import ir
from ..ir import Value
from .context import Lowering
from .pooling import largest, window_sum
from .registry import lowering
from .scalars import both, cast, div, opmath
from .tensors import ZERO, Indices, Spec, Tensor


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

    def position(self, indices: Indices, offsets: Sequence[Any]) -> list[Expr]:
        """The position in each dimension of one element of a window."""
        return [start + offset for (start, _), offset in zip(self.bounds(indices), offsets, strict=True)]

    def element(self, indices: Indices, offsets: Sequence[Any], dtype: torch.dtype, outside: float | int) -> Value:
        """An element of a window; ``outside`` for offsets that are beyond the end of the window."""
        mask, position = ir.const(True, torch.bool), self.position(indices, offsets)
        for at, even, (_, end) in zip(position, self.even, self.bounds(indices), strict=True):
            if not even:
                mask = both(mask, self.ctx.below(at, end))
        place = (*indices[: -self.count], *position)
        return self.ctx.masked(mask, lambda: cast(self.x.at(place), dtype), ir.const(outside, dtype))

    def first(self, indices: Indices) -> None:
        """Every window has its first elements."""


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
        summed = window_sum(ctx, out, parts.kernel, wide, lambda i, k: parts.element(i, k, wide, 0.0))

        def mean(indices: Indices) -> Value:
            result = summed(indices)
            for start, end in parts.bounds(indices):
                result = div(result, ctx.scalar(ctx.simplify(end - start), wide))
            return cast(result, out.dtype)

        return ctx.computed(mean)

    return lower


lowering("aten._adaptive_avg_pool2d.default")(_avg_pool(2))
lowering("aten._adaptive_avg_pool3d.default")(_avg_pool(3))


def _max_pool(count: int) -> Any:
    def lower(ctx: Lowering, x: Tensor, output_size: Any) -> Any:
        values, places = ctx.outs
        assert values is not None and places is not None
        parts = parts_of(ctx, x, values, count)
        if parts is None or x.dtype is torch.bool:
            return ctx.unsupported("a size that may be 0")
        return largest(ctx, parts, values, places)

    return lower


lowering("aten.adaptive_max_pool2d.default")(_max_pool(2))
lowering("aten.adaptive_max_pool3d.default")(_max_pool(3))
