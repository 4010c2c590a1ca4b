"""searchsorted and bucketize: a binary search written out, whose steps all lanes of a vector take together.

    first = 0; behind = n
    middle = (first + behind) // 2; first, behind = where(table[middle] < x, (middle + 1, behind), (first, middle))
    ... as often as it takes to find one of n + 1 places

It goes the way of eager's, also in tables that are not sorted and for NaN.
"""

from __future__ import annotations

import torch

from ... import shapes
from ...shapes import Const
from .. import ir
from ..ir import Value
from .context import Lowering
from .registry import lowering
from .scalars import add, both, cast, compare, invert, opmath, where
from .tensors import Indices, Tensor

LARGEST = 1 << 12
"""Tables of more elements do not stay in the nearest cache, and the search has more steps than kernels should have."""


@lowering("aten.searchsorted.Tensor")
def searchsorted(ctx: Lowering, table: Tensor, x: Tensor, *, out_int32: bool = False, right: bool = False,
                 side: str | None = None, sorter: Tensor | None = None) -> Tensor:
    if sorter is not None:
        return ctx.unsupported("a sorter")
    return _searched(ctx, table, x, right or side == "right")


@lowering("aten.bucketize.Tensor")
def bucketize(ctx: Lowering, x: Tensor, table: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return _searched(ctx, table, x, right)


def _searched(ctx: Lowering, table: Tensor, x: Tensor, right: bool) -> Tensor:
    if ctx.kind.runs_at_once:
        return ctx.unsupported("a GPU's library searches as fast")
    size = table.shape[-1] if table.ndim else None
    if not isinstance(size, Const) or not 0 < int(size) <= LARGEST or x.dtype is not table.dtype:
        return ctx.unsupported("a table whose size is not known, or too large or small")
    if table.ndim > 1 and table.shape[:-1] != x.shape[:-1]:
        return ctx.unsupported("tables of other sizes")
    count, dtype, wide = int(size), ctx.out.dtype, opmath(x.dtype)
    table, x = ctx.realize(table), ctx.share(x)

    def body(indices: Indices) -> Value:
        wanted = cast(x.at(indices), wide)
        batch = indices[:-1] if table.ndim > 1 else ()
        first, behind = ir.const(0, torch.int64), ir.const(count, torch.int64)
        for _ in range(count.bit_length()):
            middle = ir.op("shr", add(first, behind), ir.const(1, torch.int64))
            at = ctx.indirect(ir.op("min", middle, ir.const(count - 1, torch.int64)), shapes.const(count))
            # NaN is behind all numbers: it is not that an element is larger, or as large.
            before = invert(compare("gt" if right else "ge", cast(table.at((*batch, at)), wide), wanted))
            going = ir.op("lt", first, behind)
            first, behind = (where(both(going, before), add(middle, 1), first),
                             where(both(going, invert(before)), middle, behind))
        return cast(first, dtype)

    return ctx.computed(body)
