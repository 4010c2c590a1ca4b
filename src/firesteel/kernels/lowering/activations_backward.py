"""Gradients of the rarer activation functions; those of the common ones stand beside the functions."""

from __future__ import annotations

import math
from typing import Any

from .. import ir
from ..ir import Value
from .context import Lowering
from .elementwise import elementwise, pointwise
from .registry import lowering
from .scalars import add, both, compare, div, mul, neg, sub, where
from .tensors import ONE, ZERO, Indices, Tensor
from .views import sliced, wrap


@elementwise("aten.hardshrink_backward.default", "aten.softshrink_backward.default")
def shrink_backward(g: Value, a: Value, width: Value) -> Value:
    return where(both(compare("ge", a, neg(width)), compare("le", a, width)), 0.0, g)


@lowering("aten.log_sigmoid_backward.default")
def log_sigmoid_backward(ctx: Lowering, grad: Tensor, x: Tensor, buffer: Tensor) -> Tensor:
    if buffer.shape != x.shape:
        return ctx.unsupported("no buffer")

    def function(g: Value, a: Value, power: Value) -> Value:
        # the buffer holds exp(-|x|)
        share = div(power, add(power, 1.0))
        return mul(g, where(compare("lt", a, 0), sub(1.0, share), share))

    return pointwise(ctx, function, grad, x, buffer)


@lowering("aten.logit_backward.default")
def logit_backward(ctx: Lowering, grad: Tensor, x: Tensor, eps: Any = None) -> Tensor:
    if not (eps is None or isinstance(eps, float | int)):
        return ctx.unsupported("a bound that is not constant")

    def function(g: Value, a: Value) -> Value:
        low = 0.0 if eps is None else float(eps)
        inside = both(compare("ge", a, low), compare("le", a, 1.0 - low))
        return where(inside, div(g, mul(a, sub(1.0, a))), math.nan if eps is None else 0.0)

    return pointwise(ctx, function, grad, x)


@lowering("aten._prelu_kernel_backward.default")
def prelu_backward(ctx: Lowering, grad: Tensor, x: Tensor, weight: Tensor) -> Any:
    first, second = ctx.outs
    assert first is not None and second is not None
    return (
        pointwise(ctx, lambda g, a, w: where(compare("gt", a, 0), g, mul(w, g)), grad, x, weight, spec=first),
        pointwise(ctx, lambda g, a: where(compare("gt", a, 0), 0.0, mul(a, g)), grad, x, spec=second),
    )


@lowering("aten.rrelu_with_noise_backward.default")
def rrelu_backward(
    ctx: Lowering, grad: Tensor, x: Tensor, noise: Tensor, lower: Any, upper: Any, training: bool, is_result: bool
) -> Tensor:
    if training and not isinstance(lower, float | int):
        return ctx.unsupported("bounds that are not constant")
    if training and upper - lower > 1e-6:
        return pointwise(ctx, mul, grad, noise)

    def function(g: Value, a: Value) -> Value:
        slope = ctx.scalar((lower + upper) / 2, g.dtype)
        return where(compare("gt", a, 0), g, mul(g, slope))

    return pointwise(ctx, function, grad, x)


@lowering("aten.glu_backward.default")
def glu_backward(ctx: Lowering, grad: Tensor, x: Tensor, dim: int) -> Tensor:
    dim = wrap(dim, x.ndim)
    half = grad.shape[dim]
    if half is ONE and x.shape[dim] is ONE:
        return ctx.unsupported("no dimensions")
    x, grad = ctx.share(x), ctx.share(grad)
    first, second = sliced(ctx, x, dim, ZERO, ONE, half), sliced(ctx, x, dim, half, ONE, half)
    spec = ctx.spec(grad.shape, ctx.out.dtype, x.device)

    def of_gate(g: Value, a: Value, b: Value) -> Value:
        gate = ir.op("sigmoid", b)
        return mul(mul(mul(sub(1.0, gate), gate), g), a)

    upper = pointwise(ctx, lambda g, b: mul(ir.op("sigmoid", b), g), grad, second, spec=spec)
    lower = pointwise(ctx, of_gate, grad, first, second, spec=spec)

    def body(indices: Indices) -> Value:
        place = indices[dim]
        near = ctx.below(place, half)
        before = ctx.masked(near, lambda: upper.at(indices), ir.const(0.0, spec.dtype))
        moved = (*indices[:dim], place - half, *indices[dim + 1 :])
        after = ctx.reading_under(ir.op("not", near), lambda: lower.at(moved))
        return where(near, before, after)

    return ctx.computed(body)
