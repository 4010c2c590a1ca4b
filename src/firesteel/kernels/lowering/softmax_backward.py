"""Gradients of softmax and its logarithm, from the result: one sum for each row."""

from __future__ import annotations

from typing import Any

import torch

from .. import ir
from ..ir import Value
from .context import Lowering
from .reducing import Body, Folding, folding, is_empty, total
from .registry import lowering
from .scalars import cast, mul, opmath, sub
from .tensors import ONE, ZERO, Computed, Indices, Tensor


def _zeros(ctx: Lowering) -> Tensor:
    dtype = ctx.out.dtype
    return ctx.computed(lambda indices: ir.const(0.0, dtype))


def _row_sums(ctx: Lowering, output: Tensor, how: Folding, body: Body, dtype: torch.dtype) -> Body:
    """The sums, at places of the result. Eager's sum of the last dimension is one element where that is all."""
    if how.dims == (output.ndim - 1,) and how.sizes[0] is ONE:
        return body
    summed = total(ctx, output, how, body, dtype)
    return lambda indices: summed.at(how.result(indices))


@lowering("aten._softmax_backward_data.default")
def softmax_backward(ctx: Lowering, grad: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype) -> Any:
    how = folding(output, dim, True)
    if any(size is ZERO for size in output.shape):
        return _zeros(ctx)
    if is_empty(ctx, how) or grad.shape != output.shape:
        return ctx.unsupported("a size that may be 0")
    dtype = ctx.out.dtype
    wide = opmath(output.dtype)
    grad, output = ctx.share(grad), ctx.share(output)

    def product(indices: Indices) -> Value:
        return mul(cast(grad.at(indices), wide), cast(output.at(indices), wide))

    sums = _row_sums(ctx, output, how, product, wide)

    def body(indices: Indices) -> Value:
        rest = sub(cast(grad.at(indices), wide), sums(indices))
        return cast(mul(cast(output.at(indices), wide), rest), dtype)

    return ctx.computed(body)


@lowering("aten._log_softmax_backward_data.default")
def log_softmax_backward(ctx: Lowering, grad: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype) -> Any:
    how = folding(output, dim, True)
    if any(size is ZERO for size in output.shape):
        return _zeros(ctx)
    if is_empty(ctx, how) or grad.shape != output.shape:
        return ctx.unsupported("a size that may be 0")
    dtype = ctx.out.dtype
    wide = opmath(output.dtype)
    known = grad.row_sums if isinstance(grad, Computed) and grad.stored() is None else None
    grad, output = ctx.share(grad), ctx.share(output)
    if known is not None and (known[0],) == how.dims:
        sums: Body = lambda i: cast(known[1](i), wide)  # noqa: E731
    else:
        sums = _row_sums(ctx, output, how, lambda i: cast(grad.at(i), wide), wide)

    def body(indices: Indices) -> Value:
        share = mul(ir.op("exp", cast(output.at(indices), wide)), sums(indices))
        return cast(sub(cast(grad.at(indices), wide), share), dtype)

    return ctx.computed(body)
