"""Mean and variance of the channels of a batch on a GPU, in one pass: those of parts first, then of all parts together.

    mean[p, c], squares[p, c]    of the rows of part p: their mean, and the sum of squared deviations from that
    mean[c]     = sum(p) mean[p, c] / parts
    variance[c] = sum(p) (squares[p, c] + rows * (mean[p, c] - mean[c]) ** 2) / (parts * rows)

A part is small enough to be held while it is read, so memory is read once, where deviations from the mean of all would
take a second pass. Nothing cancels: deviations are from means that lie among the elements. All of this is done with
elements less the first one of their channel, so that means of numbers far from zero are not rounded coarsely.
"""

from __future__ import annotations

from typing import Any

import torch

from ... import shapes
from ...shapes import Const, Expr
from ..ir import Value
from .context import Lowering
from .reducing import Body, Folding, fold, inner_spec, total
from .scalars import add, cast, div, mul, opmath, sub
from .tensors import ONE, ZERO, Indices, Spec, Tensor
from .views import permuted, reshaped

LEAST_ELEMENTS = 1 << 16
"""Fewer are read twice: they stay in a cache."""
MOST_PARTS = 1 << 16
"""So many numbers are reduced by one kernel."""
LEAST_ROWS, MOST_ROWS = 16, 2048
ENOUGH = 1 << 13
"""So many sums keep a GPU busy."""


def parted_moments(ctx: Lowering, x: Tensor) -> tuple[Tensor, Tensor] | None:
    """The mean and the variance of each channel (dimension 1); None where two passes are as good."""
    if not ctx.kind.runs_at_once or ctx.node is None or not all(isinstance(size, Const) for size in x.shape):
        return None
    sizes = [int(size) for size in x.shape]  # type: ignore[call-overload]
    channels, count = sizes[1], 1
    for size in sizes:
        count *= size
    if x.ndim < 3 or count < LEAST_ELEMENTS:
        return None
    x = ctx.share(x)
    wide = opmath(x.dtype)
    last = _channels_are_last(ctx.node.args[0])
    if last:
        rows = part_rows(count // channels, channels)
        if not rows:
            return None
        order = [0, *range(2, x.ndim), 1]
        shape: list[Any] = [count // channels // rows, rows, channels]
        parted, how = permuted(x, order), Folding(tuple(map(shapes.const, shape)), (1,), False)
    else:
        rows = count // channels // sizes[0]
        if rows < LEAST_ROWS or rows > MOST_ROWS * 4 or sizes[0] * channels > MOST_PARTS:
            return None
        shape = [sizes[0], channels, rows]
        parted, how = x, Folding(tuple(map(shapes.const, shape)), (2,), False)
    parted = reshaped(ctx, parted, how.shape)
    spec = inner_spec(ctx, how, wide, x.device)

    def first(channel: Expr) -> Value:
        return cast(x.at((ZERO, channel, *[ZERO] * (x.ndim - 2))), wide)

    def moved(indices: Indices) -> Value:
        return sub(cast(parted.at(indices), wide), first(indices[2 if last else 1]))

    sums = total(ctx, parted, how, moved, wide)
    length = ctx.scalar(rows, wide)
    means = ctx.computed(lambda i: div(sums.at(i), length), spec)

    def squared(indices: Indices) -> Value:
        deviation = sub(moved(indices), means.at(how.result(indices)))
        return mul(deviation, deviation)

    squares = total(ctx, parted, how, squared, wide)
    together = Folding(how.result_shape, (0,), False)
    final = inner_spec(ctx, together, wide, x.device)
    added = total(ctx, means, together, means.at, wide)
    middle = ctx.computed(lambda c: div(added.at(c), ctx.scalar(shape[0], wide)), final)
    mean = ctx.computed(lambda c: add(middle.at(c), first(c[0])), final)

    def spread(indices: Indices) -> Value:
        away = sub(means.at(indices), middle.at(indices[1:]))
        return add(squares.at(indices), mul(length, mul(away, away)))

    spreads = total(ctx, squares, together, spread, wide)
    return mean, ctx.computed(lambda c: div(spreads.at(c), ctx.scalar(count // channels, wide)), final)


def channel_sum(ctx: Lowering, x: Tensor, body: Body, spec: Spec) -> Tensor:
    """The sum of ``body`` over everything but the channels, in two stages where the first are whole rows of an image.

    What computes the elements that are added up can then share the kernel of the first stage.
    """
    how = Folding(x.shape, tuple([d for d in range(x.ndim) if d != 1]), False)
    inner = _inner_dims(ctx, x)
    if not inner:
        return fold(ctx, "sum", how, body, spec)
    rows = Folding(x.shape, inner, False)
    shape = rows.result_shape
    # Channels side by side, as in what is read.
    order = [*[d for d in range(len(shape)) if d != 1], 1]
    strides: list[Expr] = [ONE] * len(shape)
    step: Expr = ONE
    for dim in reversed(order):
        strides[dim] = step
        step = step * shape[dim]
    parts = fold(ctx, "sum", rows, body, Spec(shape, tuple(strides), spec.dtype, spec.device))
    rest = Folding(shape, tuple([d for d in range(len(shape)) if d != 1]), False)
    return fold(ctx, "sum", rest, parts.at, spec)


def _inner_dims(ctx: Lowering, x: Tensor) -> tuple[int, ...]:
    """The dimensions that the first stage adds up; none where one stage is as good."""
    if not ctx.kind.runs_at_once or x.ndim != 4 or ctx.node is None or not _channels_are_last(ctx.node.args[1]):
        return ()
    if not all(isinstance(size, Const) for size in x.shape):
        return ()
    images, channels, height, width = (int(size) for size in x.shape)  # type: ignore[call-overload]
    if images * channels * height * width < LEAST_ELEMENTS:
        return ()
    if images * channels >= ENOUGH:
        return (2, 3)
    return (3,) if width > 4 and images * height * channels >= ENOUGH else ()


def part_rows(count: int, channels: int) -> int:
    """How many of ``count`` rows make a part: a divisor, a power of two if possible; 0 where there is none."""
    least = max(LEAST_ROWS, -(-count * channels // (MOST_PARTS - 1)))
    power = least if least & (least - 1) == 0 else 1 << least.bit_length()
    if power <= MOST_ROWS and count % power == 0:
        return power
    return next((rows for rows in range(least, min(MOST_ROWS, count // 2) + 1) if count % rows == 0), 0)


def _channels_are_last(node: Any) -> bool:
    value = node.meta["val"]
    return isinstance(value, torch.Tensor) and value.stride(1) == 1 and value.shape[1] > 1
