"""Running sums, products and extremes along a dimension."""

from __future__ import annotations

from typing import Any

import torch

from .. import ir
from ..ir import Value
from .context import Lowering
from .reducing import elements, scan
from .registry import lowering
from .scalars import compare, either, opmath, where
from .tensors import ONE, Indices, Tensor
from .views import wrap

LONG = 1 << 15
"""One row that is longer is left to ATen, whose scan gives it to the whole GPU in one pass over memory."""


def _accumulator(dtype: torch.dtype) -> torch.dtype:
    """What a running sum is kept in: eager's CPU kernels keep one of float32 in float64.

    Its GPU kernels do not, but add up in another order; in float64 no order is farther from the exact sum than theirs.
    """
    if not dtype.is_floating_point:
        return torch.int64
    return torch.float64 if dtype is torch.float32 else opmath(dtype)


def _is_one_long_row(ctx: Lowering, x: Tensor, dim: int) -> bool:
    if not ctx.kind.runs_at_once or not x.ndim:
        return False
    size = x.shape[wrap(dim, x.ndim)]
    others = [other for d, other in enumerate(x.shape) if d != wrap(dim, x.ndim)]
    return all(other is ONE for other in others) and ctx.known(size <= LONG) is not True


def _running(kind: str) -> Any:
    def lower(ctx: Lowering, x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
        out = ctx.out.dtype
        if _is_one_long_row(ctx, x, dim):
            return ctx.unsupported("one long row")
        return scan(ctx, kind, x, dim, elements(x, _accumulator(out), out), ctx.out)

    return lower


lowering("aten.cumsum.default")(_running("cumsum"))
lowering("aten.cumprod.default")(_running("cumprod"))


@lowering("aten.logcumsumexp.default")
def logcumsumexp(ctx: Lowering, x: Tensor, dim: int) -> Tensor:
    if _is_one_long_row(ctx, x, dim):
        return ctx.unsupported("one long row")
    return scan(ctx, "logcumsumexp", x, dim, elements(x, opmath(x.dtype)), ctx.out)


def _extreme(kind: str) -> Any:
    def lower(ctx: Lowering, x: Tensor, dim: int) -> Any:
        values, places = ctx.outs
        assert values is not None and places is not None
        wide = torch.int64 if x.dtype is torch.bool else opmath(x.dtype)
        dim = wrap(dim, x.ndim)
        x = ctx.share(x)
        best = scan(ctx, kind, x, dim, elements(x, wide), values)

        def place(indices: Indices) -> Value:
            """The index where an element is the running extreme, which later ones then exceed."""
            value = x.at(indices)
            is_best = compare("eq", value, best.at(indices))
            if value.dtype.is_floating_point:
                is_best = either(is_best, ir.op("isnan", value))
            here = ctx.index(indices[dim]) if indices else ir.const(0, torch.int64)
            return where(is_best, here, ir.const(0, torch.int64))

        return best, scan(ctx, "cummax", x, dim, place, places)

    return lower


lowering("aten.cummax.default")(_extreme("cummax"))
lowering("aten.cummin.default")(_extreme("cummin"))
