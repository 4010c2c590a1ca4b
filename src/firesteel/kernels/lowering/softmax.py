"""Softmax and its logarithm. Rows are read for the largest element, for the sum of exponentials, and for the result."""

from __future__ import annotations

import torch

from .. import ir
from ..ir import Value
from .context import Lowering
from .reducing import Folding, elements, fold, folding, inner_spec, is_empty, total
from .registry import lowering
from .scalars import cast, div, opmath, sub
from .tensors import ZERO, Indices, Tensor


def _shifted(ctx: Lowering, x: Tensor, how: Folding, wide: torch.dtype) -> Tensor:
    """The elements less the largest of their row."""
    largest = fold(ctx, "max", how, elements(x, wide), inner_spec(ctx, how, wide, x.device))

    def body(indices: Indices) -> Value:
        return sub(cast(x.at(indices), wide), largest.at(how.result(indices)))

    return ctx.computed(body, ctx.spec(x.shape, wide, x.device))


@lowering("aten._softmax.default")
def softmax(ctx: Lowering, x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    how = folding(x, dim, True)
    if any(size is ZERO for size in x.shape):
        return ctx.computed(lambda indices: ir.const(0.0, dtype), dtype=(dtype := ctx.out.dtype))
    if is_empty(ctx, how):
        return ctx.unsupported("a size that may be 0")
    dtype = ctx.out.dtype
    wide = opmath(dtype)
    shifted = _shifted(ctx, ctx.share(x), how, wide)
    # Read twice: for the sum and for the result. A row of them stays in the cache.
    spec = ctx.out if dtype is wide else ctx.spec(x.shape, wide, x.device)
    exponentials = ctx.realize(ctx.computed(lambda i: ir.op("exp", shifted.at(i)), spec))
    summed = total(ctx, x, how, exponentials.at, wide)
    return ctx.computed(lambda i: cast(div(exponentials.at(i), summed.at(how.result(i))), dtype))


@lowering("aten._log_softmax.default")
def log_softmax(ctx: Lowering, x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    how = folding(x, dim, True)
    if any(size is ZERO for size in x.shape):
        return ctx.computed(lambda indices: ir.const(0.0, dtype), dtype=(dtype := ctx.out.dtype))
    if is_empty(ctx, how):
        return ctx.unsupported("a size that may be 0")
    dtype = ctx.out.dtype
    wide = opmath(dtype)
    shifted = _shifted(ctx, ctx.share(x), how, wide)
    summed = total(ctx, x, how, lambda i: ir.op("exp", shifted.at(i)), wide)
    # Along the last dimension eager keeps the sum and its logarithm as short floats on the CPU.
    short = dtype if how.dims == (x.ndim - 1,) and x.dtype is dtype and ctx.kind.rounds_steps else wide

    def log_of_sum(indices: Indices) -> Value:
        return cast(cast(ir.op("log", cast(cast(summed.at(indices), short), wide)), short), wide)

    logarithm = ctx.realize(ctx.computed(log_of_sum, inner_spec(ctx, how, wide, x.device)))
    return ctx.computed(lambda i: cast(sub(shifted.at(i), logarithm.at(how.result(i))), dtype))
