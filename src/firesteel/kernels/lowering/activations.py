"""Activation functions, by eager's own formulas: computed in one piece and rounded once."""

from __future__ import annotations

import math
from typing import Any

from .. import ir
from ..ir import Value
from .context import Lowering
from .elementwise import elementwise, limited, pointwise
from .registry import lowering
from .scalars import Operand, add, compare, div, either, exp, mul, neg, op, sub, where
from .tensors import ONE, ZERO, Tensor
from .views import sliced, wrap

elementwise("aten.relu.default")(lambda a: op("max", a, 0))


@lowering("aten.hardtanh.default")
def hardtanh(ctx: Lowering, x: Tensor, min_val: Any = -1, max_val: Any = 1) -> Tensor:
    return pointwise(ctx, lambda a, low, high: limited("min", limited("max", a, low), high), x, min_val, max_val)


@elementwise("aten.leaky_relu.default", exact_scalars=True)
def leaky_relu(a: Value, slope: Operand = 0.01) -> Value:
    return where(compare("gt", a, 0), a, mul(a, slope))


elementwise("aten._prelu_kernel.default")(lambda a, w: where(compare("gt", a, 0), a, mul(w, a)))


@lowering("aten.elu.default")
def elu(ctx: Lowering, x: Tensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Tensor:
    def function(a: Value) -> Value:
        below = mul(mul(ir.op("expm1", mul(a, ctx.scalar(input_scale, a.dtype))), ctx.scalar(alpha, a.dtype)),
                    ctx.scalar(scale, a.dtype))  # fmt: skip
        return where(compare("le", a, 0), below, mul(a, ctx.scalar(scale, a.dtype)))

    return pointwise(ctx, function, x)


@lowering("aten.celu.default")
def celu(ctx: Lowering, x: Tensor, alpha: Any = 1.0) -> Tensor:
    return elu(ctx, x, alpha, 1.0, 1.0 / alpha)


elementwise("aten.silu.default")(lambda a: div(a, add(exp(neg(a)), 1)))
elementwise("aten.mish.default")(lambda a: mul(a, ir.op("tanh", ir.op("log1p", exp(a)))))


@lowering("aten.gelu.default")
def gelu(ctx: Lowering, x: Tensor, approximate: str = "none") -> Tensor:
    return pointwise(ctx, gelu_tanh if approximate == "tanh" else gelu_erf, x)


def gelu_erf(a: Value) -> Value:
    """``x * P(X <= x)`` for a normal X."""
    return mul(mul(a, 0.5), add(ir.op("erf", mul(a, math.sqrt(0.5))), 1))


def gelu_tanh(a: Value) -> Value:
    """The approximation of `gelu_erf` by tanh."""
    cube = mul(mul(a, a), a)
    inner = mul(add(a, mul(cube, 0.044715)), math.sqrt(2) * (2 / math.sqrt(math.pi)) * 0.5)
    return mul(mul(a, 0.5), add(ir.op("tanh", inner), 1))


@elementwise("aten.softplus.default", exact_scalars=True)
def softplus(a: Value, beta: Operand = 1, threshold: Operand = 20) -> Value:
    scaled = mul(a, beta)
    return where(compare("gt", scaled, threshold), a, div(ir.op("log1p", exp(scaled)), beta))


@lowering("aten.log_sigmoid_forward.default")
def log_sigmoid(ctx: Lowering, x: Tensor) -> tuple[Tensor, Tensor]:
    def function(a: Value) -> Value:
        return sub(op("min", a, 0), ir.op("log1p", exp(neg(ir.op("abs", a)))))

    result, buffer = ctx.outs
    assert result is not None and buffer is not None
    if buffer.shape != x.shape:
        return ctx.unsupported("no buffer")
    return (
        pointwise(ctx, function, x, spec=result),
        pointwise(ctx, lambda a: exp(neg(ir.op("abs", a))), x, spec=buffer),
    )


elementwise("aten.hardsigmoid.default")(lambda a: div(op("min", op("max", add(a, 3), 0), 6), 6))
elementwise("aten.hardswish.default")(lambda a: div(mul(a, op("min", op("max", add(a, 3), 0), 6)), 6))


@elementwise("aten.threshold.default", exact_scalars=True)
def threshold(a: Value, limit: Value, other: Value) -> Value:
    return where(compare("le", a, limit), other, a)


@lowering("aten.softshrink.default")
def softshrink(ctx: Lowering, x: Tensor, lambd: Any = 0.5) -> Tensor:
    def function(a: Value, width: Value) -> Value:
        # What is inside becomes a zero of its own sign, and NaN stays.
        low = where(compare("lt", a, neg(width)), add(a, width), mul(a, 0.0))
        return where(compare("gt", a, width), sub(a, width), low)

    return pointwise(ctx, function, x, lambd)


@lowering("aten.hardshrink.default")
def hardshrink(ctx: Lowering, x: Tensor, lambd: Any = 0.5) -> Tensor:
    def function(a: Value, width: Value) -> Value:
        inside = ir.op("and", compare("ge", a, neg(width)), compare("le", a, width))
        return where(inside, 0.0, a)

    return pointwise(ctx, function, x, lambd)


@lowering("aten.glu.default")
def glu(ctx: Lowering, x: Tensor, dim: int = -1) -> Tensor:
    dim = wrap(dim, x.ndim)
    half = ctx.out.shape[dim]
    if half is ONE and x.shape[dim] is ONE:
        return ctx.unsupported("no dimensions")
    first, second = sliced(ctx, x, dim, ZERO, ONE, half), sliced(ctx, x, dim, half, ONE, half)
    return pointwise(ctx, lambda a, gate: mul(a, ir.op("sigmoid", gate)), first, second)


# ---------------------------------------------------------------------------------------------------------------------
# derivatives


elementwise("aten.threshold_backward.default")(lambda g, a, limit: where(compare("le", a, limit), 0, g))
elementwise("aten.tanh_backward.default")(lambda g, y: mul(g, sub(1, mul(y, y))))
elementwise("aten.sigmoid_backward.default")(lambda g, y: mul(mul(g, sub(1, y)), y))


@lowering("aten.gelu_backward.default")
def gelu_backward(ctx: Lowering, grad: Tensor, x: Tensor, approximate: str = "none") -> Tensor:
    def by_erf(g: Value, a: Value) -> Value:
        below = mul(add(ir.op("erf", mul(a, math.sqrt(0.5))), 1), 0.5)
        density = mul(exp(mul(mul(a, a), -0.5)), math.sqrt(0.5) * (2 / math.sqrt(math.pi)) * 0.5)
        return mul(g, add(below, mul(a, density)))

    def by_tanh(g: Value, a: Value) -> Value:
        beta, kappa = math.sqrt(2) * (2 / math.sqrt(math.pi)) * 0.5, 0.044715
        square = mul(a, a)
        bend = ir.op("tanh", mul(add(a, mul(mul(square, a), kappa)), beta))
        left = mul(a, 0.5)
        right = add(bend, 1)
        slope = mul(mul(left, sub(1, mul(bend, bend))), mul(add(mul(square, 3 * kappa), 1), beta))
        return mul(g, add(mul(right, 0.5), slope))

    return pointwise(ctx, by_tanh if approximate == "tanh" else by_erf, grad, x)


@elementwise("aten.leaky_relu_backward.default", exact_scalars=True)
def leaky_relu_backward(g: Value, a: Value, slope: Value, self_is_result: Value) -> Value:
    return where(compare("gt", a, 0), g, mul(g, slope))


@lowering("aten.elu_backward.default")
def elu_backward(
    ctx: Lowering, grad: Tensor, alpha: Any, scale: Any, input_scale: Any, is_result: bool, x: Tensor
) -> Tensor:
    def function(g: Value, a: Value) -> Value:
        outer, inner, height = (ctx.scalar(n, g.dtype) for n in (scale, input_scale, alpha))
        top = mul(height, outer)
        if is_result:
            below = mul(mul(g, inner), add(a, top))
        else:
            below = mul(mul(mul(g, inner), top), exp(mul(a, inner)))
        return where(compare("le", a, 0), below, mul(g, outer))

    return pointwise(ctx, function, grad, x)


@elementwise("aten.hardtanh_backward.default", exact_scalars=True)
def hardtanh_backward(g: Value, a: Value, low: Value, high: Value) -> Value:
    return where(either(compare("le", a, low), compare("ge", a, high)), 0, g)


@elementwise("aten.hardsigmoid_backward.default")
def hardsigmoid_backward(g: Value, a: Value) -> Value:
    return where(ir.op("and", compare("gt", a, -3), compare("lt", a, 3)), mul(g, 1 / 6), 0)


@elementwise("aten.hardswish_backward.default")
def hardswish_backward(g: Value, a: Value) -> Value:
    middle = mul(g, add(div(a, 3), 0.5))
    return where(compare("le", a, -3), 0, where(compare("lt", a, 3), middle, g))


@elementwise("aten.softplus_backward.default", exact_scalars=True)
def softplus_backward(g: Value, a: Value, beta: Value, threshold: Value) -> Value:
    scaled = mul(a, beta)
    power = exp(scaled)
    return where(compare("gt", scaled, threshold), g, div(mul(g, power), add(power, 1)))


