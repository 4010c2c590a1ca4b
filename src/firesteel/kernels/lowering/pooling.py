"""Pooling: the largest or the mean element of windows that move over the last dimensions.

Small windows are written out, element by element, so that they are pointwise; large ones are reductions.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch

from ... import shapes
from ...records import dataclass
from ...shapes import Expr
from .. import ir
from ..ir import Value
from .context import Lowering
from .reducing import accumulator, emit_fold, of_one
from .registry import lowering
from .scalars import add, both, cast, compare, either, opmath, where
from .tensors import ONE, Indices, Spec, Tensor

WRITTEN_OUT = 16
"""Windows of up to this many elements are written out."""


def per_dim(numbers: Sequence[Any] | Any, count: int, otherwise: Sequence[Any]) -> list[Any]:
    """An argument with one number for each dimension, or one for all, or none."""
    if not isinstance(numbers, list | tuple):
        numbers = [numbers]
    if not numbers:
        return list(otherwise)
    return list(numbers) * count if len(numbers) == 1 else list(numbers)


@dataclass(frozen=True)
class Windows:
    """How windows move over the last dimensions of a tensor."""

    ctx: Lowering
    x: Tensor
    kernel: tuple[int, ...]
    stride: tuple[Expr, ...]
    padding: tuple[Expr, ...]
    dilation: tuple[Expr, ...]
    ends: tuple[bool, ...]
    """For each dimension whether a window may reach over the end."""

    @staticmethod
    def of(
        ctx: Lowering, x: Tensor, out: Spec, kernel: Any, stride: Any, padding: Any, dilation: Any, count: int
    ) -> Windows | None:
        sizes = per_dim(kernel, count, ())
        if any(isinstance(size, Expr) for size in sizes):
            return None
        steps = [shapes.as_expr(s) for s in per_dim(stride, count, sizes)]
        pads = [shapes.as_expr(p) for p in per_dim(padding, count, ())]
        gaps = [shapes.as_expr(d) for d in per_dim(dilation, count, ())]
        ends = []
        for k in range(count):
            size, full = out.shape[k - count], x.shape[k - count]
            last = (size - 1) * steps[k] - pads[k] + (sizes[k] - 1) * gaps[k]
            ends.append(ctx.known(last < full) is not True)
        return Windows(ctx, x, tuple(sizes), tuple(steps), tuple(pads), tuple(gaps), tuple(ends))

    @property
    def count(self) -> int:
        return len(self.kernel)

    @property
    def sizes(self) -> tuple[Expr, ...]:
        """The sizes of the dimensions that windows move over."""
        return self.x.shape[-self.count :]

    def starts(self, indices: Indices) -> list[Expr]:
        """The first position of a window in each dimension, below 0 in the padding."""
        return [i * s - p for i, s, p in zip(indices[-self.count :], self.stride, self.padding, strict=True)]

    def position(self, indices: Indices, offsets: Sequence[Expr | int]) -> tuple[Expr, ...]:
        """The position in each dimension of one element of a window."""
        return tuple([s + d * k for s, d, k in zip(self.starts(indices), self.dilation, offsets, strict=True)])

    def inside(self, position: Sequence[Expr]) -> Value:
        """Whether a position is no padding."""
        result = ir.const(True, torch.bool)
        for at, size, pad, end in zip(position, self.sizes, self.padding, self.ends, strict=True):
            if self.ctx.known(shapes.eq(pad, 0)) is not True:
                result = both(result, self.ctx.condition(at >= 0))
            if end:
                result = both(result, self.ctx.below(at, size))
        return result

    def element(self, indices: Indices, offsets: Sequence[Any], dtype: torch.dtype, outside: float | int) -> Value:
        """An element of a window, or what stands for the padding."""
        position = self.position(indices, offsets)
        place = (*indices[: -self.count], *position)
        return self.ctx.masked(self.inside(position), lambda: cast(self.x.at(place), dtype), ir.const(outside, dtype))

    def first(self, indices: Indices) -> list[Expr]:
        """The first position of a window that is no padding: the least ``start + k * gap`` that is not below 0."""
        return [start if self.ctx.known(shapes.eq(pad, 0)) else shapes.maximum(start, start % gap)
                for start, gap, pad in zip(self.starts(indices), self.dilation, self.padding, strict=True)]

    def divisor(self, indices: Indices, override: Any, count_padding: bool, dtype: torch.dtype) -> Value:
        """What the sum of a window is divided by: a given number, or that of its elements."""
        if override is not None:
            return self.ctx.scalar(override, dtype)
        number: Expr = ONE
        for k, start in enumerate(self.starts(indices)):
            size, pad = self.sizes[k], self.padding[k]
            end = start + self.kernel[k]
            if self.ends[k]:  # a window may reach over the padding as well, which then does not count
                end = shapes.minimum(end, size + pad)
            if not count_padding:
                start, end = shapes.maximum(start, 0), shapes.minimum(end, size)
            number = number * self.ctx.simplify(end - start)
        return self.ctx.scalar(number, dtype)


def lowest(dtype: torch.dtype) -> float | int:
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def _max_pool(count: int) -> Any:
    def lower(
        ctx: Lowering,
        x: Tensor,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:
        values, places = ctx.outs
        assert values is not None and places is not None
        if x.dtype is torch.bool:
            return ctx.unsupported("bools")
        x = ctx.share(x)
        windows = Windows.of(ctx, x, values, kernel_size, stride, padding, dilation, count)
        if windows is None:
            return ctx.unsupported("a window whose size is not constant")
        return largest(ctx, windows, values, places)

    return lower


class AnyWindows(Protocol):
    """Windows over the last dimensions of a tensor, of a fixed size or of sizes that divide it."""

    @property
    def x(self) -> Tensor: ...

    @property
    def count(self) -> int: ...

    @property
    def kernel(self) -> Sequence[int | Expr]:
        """The most elements that a window has in each dimension."""

    def element(self, indices: Indices, offsets: Sequence[Any], dtype: torch.dtype, outside: float | int) -> Value:
        """The element of a window at offsets in it; ``outside`` where there is none."""

    def position(self, indices: Indices, offsets: Sequence[Any]) -> Sequence[Expr]:
        """Where that is in each dimension."""

    def first(self, indices: Indices) -> Sequence[Expr] | None:
        """The first position that a window has elements at; None if it has all of the first ones."""


def largest(ctx: Lowering, windows: AnyWindows, values: Spec, places: Spec) -> tuple[Tensor, Tensor]:
    """The largest element of each window, and its position in the tensor."""
    if not is_small(windows.kernel):
        return _reduced_max(ctx, windows, values, places)
    wide, sizes = opmath(windows.x.dtype), windows.x.shape[-windows.count :]

    def elements(indices: Indices) -> Iterator[tuple[Value, Sequence[Expr]]]:
        for offsets in offsets_of(windows.kernel):
            yield windows.element(indices, offsets, wide, lowest(wide)), windows.position(indices, offsets)

    def value(indices: Indices) -> Value:
        return cast(functools.reduce(lambda a, b: ir.op("max", a, b), [e for e, _ in elements(indices)]), values.dtype)

    def place(indices: Indices) -> Value:
        """The position of the largest element; a NaN beats all before it."""
        best: Value | None = None
        for element, position in elements(indices):
            at = ctx.index(flat_position(position, sizes))
            if best is None:
                best, chosen, first = element, at, windows.first(indices)
                if first is not None:  # of a window of lowest values the first that is no padding counts
                    chosen = ctx.index(flat_position(first, sizes))
                    if element.dtype.is_floating_point:
                        chosen = where(ir.op("isnan", element), at, chosen)
                    chosen = where(compare("gt", element, lowest(wide)), at, chosen)
                continue
            better = compare("gt", element, best)
            if wide.is_floating_point:
                better = either(better, ir.op("isnan", element))
            best, chosen = where(better, element, best), where(better, at, chosen)
        return chosen

    return ctx.computed(value, values), ctx.computed(place, places)


def flat_position(position: Sequence[Expr], sizes: Sequence[Expr]) -> Expr:
    total: Expr = shapes.const(0)
    for at, size in zip(position, sizes, strict=True):
        total = total * size + at
    return total


def nan_place(ctx: Lowering, element: Value, inner: Indices, kernel: Sequence[Expr]) -> Value:
    """Where in the window an element is, if it is NaN: of several such eager takes the last. Otherwise -1."""
    if not element.dtype.is_floating_point:
        return ir.const(-1, torch.int64)
    return where(ir.op("isnan", element), ctx.index(flat_position(inner, kernel)), -1)


def _reduced_max(ctx: Lowering, windows: AnyWindows, values: Spec, places: Spec) -> tuple[Tensor, Tensor]:
    """Windows that are too large to be written out."""
    wide = opmath(windows.x.dtype)
    kernel = [shapes.as_expr(size) for size in windows.kernel]
    axes, indices = ctx.axes(values.shape)
    inner_axes, inner = ctx.reduce_axes(kernel)

    def element() -> Value:
        return windows.element(indices, inner, wide, lowest(wide))

    best = emit_fold(ctx, "max", values, axes, indices, inner_axes, element)
    whole = ctx.spec(values.shape, torch.int64)
    where_in_window = emit_fold(ctx, "argmax", whole, axes, indices, inner_axes, element)
    not_a_number = emit_fold(ctx, "max", whole, axes, indices, inner_axes,
                             lambda: nan_place(ctx, element(), inner, kernel))

    def place(at: Indices) -> Value:
        """The position in the input, from the one in the window."""
        nan = not_a_number.at(at)
        chosen = where(compare("ge", nan, 0), nan, where_in_window.at(at))
        rest = ctx.indirect(chosen, math.prod(kernel, start=ONE))
        offsets: list[Expr] = []
        below: Expr = ONE
        for size in reversed(kernel):
            offsets.insert(0, ctx.simplify((rest // below) % size))
            below = below * size
        position, first = windows.position(at, offsets), windows.first(at)
        if first is not None:
            position = [shapes.maximum(p, f) for p, f in zip(position, first, strict=True)]
        return ctx.index(flat_position(position, windows.x.shape[-windows.count :]))

    return best, ctx.computed(place, places)


lowering("aten.max_pool2d_with_indices.default")(_max_pool(2))
lowering("aten.max_pool3d_with_indices.default")(_max_pool(3))


# ---------------------------------------------------------------------------------------------------------------------
# means


def is_small(kernel: Sequence[int | Expr]) -> bool:
    """Whether windows are written out."""
    sizes = [size for size in kernel if isinstance(size, int)]
    return len(sizes) == len(kernel) and math.prod(sizes) <= WRITTEN_OUT


def offsets_of(kernel: Sequence[int | Expr]) -> Iterator[tuple[int, ...]]:
    """All elements of a small window, in order."""
    return itertools.product(*[range(size) for size in kernel if isinstance(size, int)])


def window_sum(
    ctx: Lowering,
    out: Spec,
    kernel: Sequence[int | Expr],
    wide: torch.dtype,
    element: Callable[[Indices, Sequence[Any]], Value],
) -> Callable[[Indices], Value]:
    """The sum of a window's elements: ``element`` at the indices of the result and offsets in the window."""
    if not is_small(kernel):
        axes, indices = ctx.axes(out.shape)
        inner_axes, inner = ctx.reduce_axes([shapes.as_expr(size) for size in kernel])
        spec = Spec(out.shape, out.strides, wide, out.device)
        return emit_fold(ctx, "sum", spec, axes, indices, inner_axes, lambda: element(indices, inner)).at

    def written_out(indices: Indices) -> Value:
        total: Value | None = None
        for offsets in offsets_of(kernel):
            value = element(indices, offsets)
            total = value if total is None else add(total, value)
        assert total is not None
        return of_one("sum", total)  # a sum of -0.0 only

    return written_out


def _avg_pool(count: int) -> Any:
    def lower(
        ctx: Lowering,
        x: Tensor,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Tensor:
        if x.dtype is torch.bool:
            return ctx.unsupported("bools")
        x = ctx.share(x)
        wide, dtype = accumulator(x.dtype), ctx.out.dtype
        windows = Windows.of(ctx, x, ctx.out, kernel_size, stride, padding, 1, count)
        if windows is None:
            return ctx.unsupported("a window whose size is not constant")
        summed = window_sum(
            ctx, ctx.out, windows.kernel, wide,
            lambda i, offsets: windows.element(i, offsets, wide, 0),
        )  # fmt: skip

        if divisor_override is not None and isinstance(divisor_override, Expr):
            return ctx.unsupported("a divisor that is not constant")
        quotient = "div" if wide.is_floating_point else "div_trunc"
        return ctx.computed(lambda i: cast(ir.op(
            quotient, summed(i), windows.divisor(i, divisor_override, count_include_pad, wide)), dtype))

    return lower


lowering("aten.avg_pool2d.default")(_avg_pool(2))
lowering("aten.avg_pool3d.default")(_avg_pool(3))
