"""Padding by reflection or repetition, and the windows of a tensor as columns (unfold, fold)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ... import shapes
from ...shapes import Expr
from .. import ir
from ..ir import Value
from .context import Lowering
from .pooling import window_sum
from .registry import lowering
from .scalars import both, cast, opmath
from .tensors import Indices, Tensor, view


def _padded(ctx: Lowering, x: Tensor, padding: Sequence[Any], inside: Any) -> Tensor:
    """A tensor whose last dimensions go on over their ends; ``inside`` gives the place of such an index."""
    count = len(padding) // 2
    left = {x.ndim - 1 - k: padding[2 * k] for k in range(count)}

    def remap(indices: Indices) -> Indices:
        return tuple([
            ctx.simplify(inside(i - left[d], x.shape[d])) if d in left else i for d, i in enumerate(indices)
        ])  # fmt: skip

    return view(ctx.share(x), ctx.out.shape, remap, strides=ctx.out.strides)


def reflected(i: Expr, size: Expr) -> Expr:
    """0 1 2 3 goes on as 2 1 at the end and as 1 2 before the start."""
    return size - 1 - _distance(size - 1 - _distance(i))


def _distance(i: Expr) -> Expr:
    return shapes.maximum(i, -i)


def clamped(i: Expr, size: Expr) -> Expr:
    return shapes.minimum(shapes.maximum(i, 0), size - 1)


@lowering("aten.reflection_pad1d.default", "aten.reflection_pad2d.default", "aten.reflection_pad3d.default")
def reflection_pad(ctx: Lowering, x: Tensor, padding: Sequence[Any]) -> Tensor:
    return _padded(ctx, x, padding, reflected)


@lowering("aten.replication_pad1d.default", "aten.replication_pad2d.default", "aten.replication_pad3d.default")
def replication_pad(ctx: Lowering, x: Tensor, padding: Sequence[Any]) -> Tensor:
    return _padded(ctx, x, padding, clamped)


def _blocks(sizes: Sequence[Expr], kernel: Sequence[int], dilation: Any, padding: Any, stride: Any) -> list[Expr]:
    """How many windows there are along each dimension."""
    return [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, d, p, s in zip(sizes, kernel, dilation, padding, stride, strict=True)
    ]


@lowering("aten.im2col.default")
def im2col(ctx: Lowering, x: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    sizes = x.shape[-2:]
    height, width = kernel_size
    across = ctx.simplify(_blocks(sizes, kernel_size, dilation, padding, stride)[1])
    x = ctx.share(x)

    def body(indices: Indices) -> Value:
        row, block = indices[-2], indices[-1]
        channel = ctx.simplify(row // (height * width))
        offsets = (ctx.simplify(row // width % height), ctx.simplify(row % width))
        starts = (ctx.simplify(block // across), ctx.simplify(block % across))
        mask, place = ir.const(True, torch.bool), []
        for k in range(2):
            at = starts[k] * stride[k] - padding[k] + offsets[k] * dilation[k]
            mask = both(both(mask, ctx.condition(at >= 0)), ctx.below(at, sizes[k]))
            place.append(at)
        zero = ir.const(0, x.dtype)
        return ctx.masked(mask, lambda: x.at((*indices[:-2], channel, *place)), zero)

    return ctx.computed(body)


@lowering("aten.col2im.default")
def col2im(
    ctx: Lowering, x: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Tensor:
    out = ctx.out
    if x.dtype is torch.bool:
        return ctx.unsupported("bools")
    if opmath(x.dtype) is not x.dtype:
        return ctx.unsupported("eager adds short floats up in short floats")
    blocks = [ctx.simplify(n) for n in _blocks(out.shape[-2:], kernel_size, dilation, padding, stride)]
    height, width = kernel_size
    x = ctx.share(x)

    def element(indices: Indices, offsets: Sequence[Any]) -> Value:
        mask, starts = ir.const(True, torch.bool), []
        for k in range(2):
            at = indices[len(indices) - 2 + k] + padding[k] - dilation[k] * offsets[k]
            start = ctx.simplify(at // stride[k])
            mask = both(both(mask, ctx.condition(at >= 0)), ctx.below(start, blocks[k]))
            if stride[k] != 1:
                mask = both(mask, ctx.condition(shapes.eq(ctx.simplify(at % stride[k]), 0)))
            starts.append(start)
        channel = indices[-3] * (height * width) + offsets[0] * width + offsets[1]
        place = (*indices[:-3], channel, starts[0] * blocks[1] + starts[1])
        return ctx.masked(mask, lambda: x.at(place), ir.const(0, x.dtype))

    summed = window_sum(ctx, out, kernel_size, x.dtype, element)
    return ctx.computed(lambda indices: cast(summed(indices), out.dtype))
