"""Products with vectors: sums of products, so small or so bound to memory that no library is faster."""

from __future__ import annotations

from typing import Any

import torch

from ..ir import Value, const
from .context import Lowering
from .reducing import Body, Folding, accumulator, fold, inner_spec
from .registry import lowering
from .scalars import add, cast, mul
from .tensors import ONE, ZERO, Indices, Spec, Tensor
from .views import expanded


def _sum_of_products(ctx: Lowering, x: Tensor, y: Tensor, spec: Spec) -> Tensor:
    """Products of the last dimension of ``x`` with a vector, added up."""
    wide = accumulator(x.dtype)

    def product(indices: Indices) -> Value:
        return mul(cast(x.at(indices), wide), cast(y.at(indices[-1:]), wide))

    body: Body = product
    return fold(ctx, "sum", Folding(x.shape, (x.ndim - 1,), False), body, spec)


@lowering("aten.dot.default", "aten.vdot.default")
def dot(ctx: Lowering, x: Tensor, y: Tensor) -> Tensor:
    return _sum_of_products(ctx, ctx.share(x), ctx.share(y), ctx.out)


@lowering("aten.mv.default")
def mv(ctx: Lowering, x: Tensor, y: Tensor) -> Tensor:
    if x.dtype in (torch.bfloat16, torch.float16):
        return ctx.unsupported("the library adds short floats up in its own order")
    # every row reads all of the vector
    return _sum_of_products(ctx, ctx.share(x), ctx.realize(y), ctx.out)


@lowering("aten.addmv.default")
def addmv(ctx: Lowering, base: Tensor, x: Tensor, y: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    dtype = ctx.out.dtype
    if dtype not in (torch.float32, torch.float64):
        return ctx.unsupported("integers and short floats are rounded otherwise")
    x, y = ctx.share(x), ctx.realize(y)  # every row reads all of the vector
    how = Folding(x.shape, (1,), False)
    summed: Body
    if how.sizes[0] is ONE:  # nothing is added but the base, whose zeros may have a sign
        summed = lambda i: mul(x.at((*i, ZERO)), y.at((ZERO,)))  # noqa: E731
    elif how.sizes[0] is ZERO:
        summed = lambda i: const(-0.0, dtype)  # noqa: E731
    else:
        summed = _sum_of_products(ctx, x, y, inner_spec(ctx, how, accumulator(dtype), x.device)).at

    def body(indices: Indices) -> Value:
        scaled = mul(summed(indices), ctx.scalar(alpha, dtype))
        if beta == 0:  # whatever is in the base, NaN too, does not count
            return scaled
        return add(mul(base.at(indices), ctx.scalar(beta, dtype)), scaled)

    base = expanded(ctx, base, ctx.out.shape)
    return ctx.computed(body)
