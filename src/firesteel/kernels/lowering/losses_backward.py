"""Gradients of losses: every element on its own, times the gradient of the loss and over the number of elements.

The gradient of a loss that looks up a target is zero but at the target; it is computed at every place by comparing
places with targets, so that it becomes a part of what is computed next and needs no memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...shapes import Expr
from .. import ir
from ..ir import Value
from .context import Lowering
from .elementwise import Operand, pointwise
from .losses import MEAN, NONE
from .registry import lowering
from .scalars import add, both, cast, compare, div, exp, mul, neg, op, opmath, sub, where
from .tensors import ZERO, Indices, Tensor


@lowering("aten.nll_loss_backward.default", "aten.nll_loss2d_backward.default")
def nll_loss_backward(
    ctx: Lowering,
    grad: Tensor,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: Any,
    total_weight: Tensor,
) -> Any:
    if isinstance(ignore_index, Expr):
        return ctx.unsupported("an ignored index that is not constant")
    classes = 0 if x.ndim == 1 else 1
    wide, dtype = opmath(x.dtype), ctx.out.dtype
    each = reduction == NONE and x.ndim > 1
    only = (ZERO,) * grad.ndim

    def at_target(place: Indices, weight_place: Expr) -> Value:
        """The gradient at the target of one element, zero where that is ignored."""
        value = neg(cast(grad.at(place if each else only), wide))
        if weight is not None:
            value = mul(value, cast(weight.at((weight_place,)), wide))
        return value if reduction != MEAN else div(value, cast(total_weight.at(()), wide))

    def body(indices: Indices) -> Value:
        place = (ZERO,) * target.ndim if x.ndim == 1 else (indices[0], *indices[2:])
        wanted = cast(target.at(place), torch.int64)
        chosen = compare("eq", wanted, ctx.index(indices[classes]))
        if ignore_index >= 0:
            chosen = both(chosen, compare("ne", wanted, ignore_index))
        return cast(where(chosen, at_target(place, indices[classes]), 0.0), dtype)

    result = ctx.computed(body)
    if weight is None:
        # One element of each row is not zero: whoever adds rows up need not look for it.
        def row_sum(indices: Indices) -> Value:
            place = (ZERO,) * target.ndim if x.ndim == 1 else (indices[0], *indices[2:])
            wanted = cast(target.at(place), torch.int64)
            return cast(where(compare("ne", wanted, ignore_index), at_target(place, ZERO), 0.0), dtype)

        result.row_sums = (classes, row_sum)
    return result


# ---------------------------------------------------------------------------------------------------------------------
# differences

Slope = Callable[[Value, Value], Value]


def _elementwise(
    ctx: Lowering, grad: Tensor, x: Tensor, target: Operand, reduction: int, slope: Slope, factor: float = 1.0
) -> Tensor:
    """``slope(x, target) * grad``, over the number of elements for a mean."""

    def function(g: Value, a: Value, b: Value) -> Value:
        value = slope(a, b)
        if reduction != MEAN:
            return mul(value if factor == 1.0 else mul(value, factor), g)
        return mul(mul(value, div(ir.const(factor, g.dtype), ctx.scalar(x.numel, g.dtype))), g)

    return pointwise(ctx, function, grad, x, target)


@lowering("aten.mse_loss_backward.default")
def mse_loss_backward(ctx: Lowering, grad: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    return _elementwise(ctx, grad, x, target, reduction, sub, 2.0)


@lowering("aten.smooth_l1_loss_backward.default")
def smooth_l1_loss_backward(
    ctx: Lowering, grad: Tensor, x: Tensor, target: Tensor, reduction: int, beta: Any
) -> Tensor:
    def slope(a: Value, b: Value) -> Value:
        difference, width = sub(a, b), ctx.scalar(beta, a.dtype)
        inner = where(compare("ge", difference, width), 1.0, div(difference, width))
        return where(compare("le", difference, neg(width)), -1.0, inner)

    return _elementwise(ctx, grad, x, target, reduction, slope)


@lowering("aten.huber_loss_backward.default")
def huber_loss_backward(ctx: Lowering, grad: Tensor, x: Tensor, target: Tensor, reduction: int, delta: Any) -> Tensor:
    def slope(a: Value, b: Value) -> Value:
        difference, width = sub(a, b), ctx.scalar(delta, a.dtype)
        inner = where(compare("ge", difference, width), width, difference)
        return where(compare("le", difference, neg(width)), neg(width), inner)

    return _elementwise(ctx, grad, x, target, reduction, slope)


@lowering("aten.soft_margin_loss_backward.default")
def soft_margin_loss_backward(ctx: Lowering, grad: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    def slope(a: Value, b: Value) -> Value:
        power = exp(neg(mul(b, a)))
        return div(mul(neg(b), power), add(power, 1.0))

    return _elementwise(ctx, grad, x, target, reduction, slope)


@lowering("aten.binary_cross_entropy_backward.default")
def binary_cross_entropy_backward(
    ctx: Lowering, grad: Tensor, x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = MEAN
) -> Tensor:
    if opmath(x.dtype) is not x.dtype:
        return ctx.unsupported("eager rounds short floats on the way")

    def function(g: Value, a: Value, b: Value, *weights: Value) -> Value:
        value = div(mul(g, sub(a, b)), op("max", mul(sub(1.0, a), a), 1e-12))
        for factor in weights:
            value = mul(value, factor)
        return value if reduction != MEAN else div(value, ctx.scalar(x.numel, g.dtype))

    return pointwise(ctx, function, grad, x, target, *(() if weight is None else (weight,)))
