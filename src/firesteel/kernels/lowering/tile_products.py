"""Matrix products of our own on a GPU, as reductions that the printer gives to the matrix units.

    out[768*i0 + i1] = dot(r0 < 64) mul(cast(load(x, 64*i0 + r0), f32), cast(load(w, 64*i1 + r0), f32))
"""

from __future__ import annotations

import torch

from ...shapes import const
from ..gpu.tiles import ONE_ROW, read_tiles
from ..ir import Value
from .context import Lowering
from .reducing import emit_fold
from .registry import lowering
from .scalars import add, cast, mul
from .tensors import ZERO, Indices, Tensor
from .views import expanded

FEW_ROWS = 64
"""Rows up to which a result has one row of tiles."""


@lowering("firesteel.tile_product")
def tile_product(ctx: Lowering, x: Tensor, w: Tensor, bias: Tensor | None = None,
                 tiles: str | None = None) -> Tensor:
    # The left operand is read once for every column of tiles. Where there is one row of tiles the right one is read
    # once, and what is cheap, such as making short integers floats, is done while it is read.
    once = ctx.known(ctx.out.shape[-2] <= FEW_ROWS) is True
    left, right, wide = ctx.realize(x), ctx.share(w) if once else ctx.realize(w), torch.float32
    parts = 1 if tiles is None or tiles == ONE_ROW else read_tiles(tiles).parts
    if parts > 1:
        return _in_parts(ctx, left, right, bias, parts)
    kind = "sum" if tiles == ONE_ROW else "dot"
    axes, indices = ctx.axes(ctx.out.shape)
    reduce_axes, (inner,) = ctx.reduce_axes(left.shape[-1:])

    def product() -> Value:
        *batch, row, column = indices
        return mul(cast(left.at((*batch, row, inner)), wide), cast(right.at((*batch, inner, column)), wide))

    if bias is None:
        return emit_fold(ctx, kind, ctx.out, axes, indices, reduce_axes, product)
    # The sum is rounded once, with the bias in it.
    total = emit_fold(ctx, kind, ctx.spec(ctx.out.shape, wide, left.device), axes, indices, reduce_axes, product)
    spread, dtype = expanded(ctx, bias, ctx.out.shape), ctx.out.dtype

    def body(at: Indices) -> Value:
        return cast(add(total.at(at), cast(spread.at(at), wide)), dtype)

    return ctx.realize(ctx.computed(body))


def _in_parts(ctx: Lowering, left: Tensor, right: Tensor, bias: Tensor | None, parts: int) -> Tensor:
    """A product as several, each of a part of the sums, as the batches of one kernel; who reads it adds them up."""
    wide, dtype = torch.float32, ctx.out.dtype
    shape = (const(parts), *ctx.out.shape)
    axes, (part, row, column) = ctx.axes(shape)
    length = left.shape[-1] // parts
    reduce_axes, (inner,) = ctx.reduce_axes((length,))

    def product() -> Value:
        at = part * length + inner
        return mul(cast(left.at((row, at)), wide), cast(right.at((at, column)), wide))

    spec = ctx.spec(shape, wide, left.device)
    sums = emit_fold(ctx, "dot", spec, axes, (part, row, column), reduce_axes, product)
    spread = None if bias is None else expanded(ctx, bias, ctx.out.shape)

    def body(at: Indices) -> Value:
        total = sums.at((ZERO, *at))
        for number in range(1, parts):
            total = add(total, sums.at((const(number), *at)))
        return cast(total if spread is None else add(total, cast(spread.at(at), wide)), dtype)

    return ctx.computed(body)
