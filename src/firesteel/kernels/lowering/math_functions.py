"""Functions of one number: elementary and special functions, rounding, signs, tests for infinities and NaN."""

from __future__ import annotations

import math
from typing import Any

import torch

from .. import ir
from ..ir import Value
from .context import Lowering
from .elementwise import Operand, common_dtype, elementwise, pointwise, scalar_op
from .registry import lowering
from .scalars import cast, compare, div, invert, mul, neg, op, opmath, sub, through, where
from .tensors import Tensor

# Operators that are an operation of the IR on floats; integers become floats first.
_FLOAT = {
    **{name: name for name in (
        "sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
        "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "reciprocal",
        "sigmoid",
    )},
}  # fmt: skip


for _operator, _name in _FLOAT.items():
    elementwise(f"aten.{_operator}.default")(scalar_op(_name))


# Operators that leave the dtype alone; on integers and bools the rounding ones do nothing.
def _rounding(name: str) -> Any:
    def lower(ctx: Lowering, x: Tensor) -> Tensor:
        if not x.dtype.is_floating_point:
            return pointwise(ctx, lambda a: a, x)
        return pointwise(ctx, scalar_op(name), x)

    return lower


for _operator, _name in {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "round"}.items():
    lowering(f"aten.{_operator}.default")(_rounding(_name))


@lowering("aten.round.decimals")
def round_decimals(ctx: Lowering, x: Tensor, *, decimals: int) -> Tensor:
    if not x.dtype.is_floating_point:
        return ctx.unsupported("integers")
    scale = 10.0 ** abs(decimals)

    def nearest(a: Value) -> Value:
        if decimals < 0:
            return mul(ir.op("round", div(a, scale)), scale)
        return div(ir.op("round", mul(a, scale)), scale)

    return pointwise(ctx, nearest if decimals else scalar_op("round"), x)


elementwise("aten.neg.default")(neg)


@elementwise("aten.abs.default")
def absolute(a: Value) -> Value:
    return ir.op("abs", a) if a.dtype not in (torch.bool, torch.uint8) else a


@elementwise("aten.sign.default", "aten.sgn.default")
def sign(a: Value) -> Value:
    if a.dtype is torch.bool:
        return a
    # NaN has no sign: eager gives 0
    up, down = ir.cast(compare("gt", a, 0), a.dtype), ir.cast(compare("lt", a, 0), a.dtype)
    return sub(up, down)


elementwise("aten.frac.default")(lambda a: sub(a, ir.op("trunc", a)))
elementwise("aten.deg2rad.default")(lambda a: mul(a, math.pi / 180))
elementwise("aten.rad2deg.default")(lambda a: mul(a, 180 / math.pi))


@elementwise("aten.sinc.default")
def sinc(a: Value) -> Value:
    angle = mul(a, math.pi)
    return where(compare("eq", a, 0), 1.0, div(ir.op("sin", angle), angle))


@lowering("aten.logit.default")
def logit(ctx: Lowering, x: Tensor, eps: float | None = None) -> Tensor:
    # Eager rounds to the dtype at every step, on GPUs only at the end.
    dtype = ctx.out.dtype if ctx.kind.rounds_steps else opmath(ctx.out.dtype)

    def function(a: Value) -> Value:
        if eps is not None:
            low, high = ctx.scalar(eps, a.dtype), sub(1.0, ctx.scalar(eps, a.dtype))
            a = where(compare("lt", a, low), low, where(compare("gt", a, high), high, a))
        return ir.op("log", through(div(a, through(sub(1.0, a), dtype)), dtype))

    return pointwise(ctx, function, x)


@lowering("aten.special_entr.default")
def entr(ctx: Lowering, x: Tensor) -> Tensor:
    dtype = ctx.out.dtype

    def function(a: Value) -> Value:
        inside = where(compare("eq", a, 0), 0.0, neg(mul(a, through(ir.op("log", a), dtype))))
        return where(ir.op("isnan", a), a, where(compare("lt", a, 0), -math.inf, inside))

    return pointwise(ctx, function, x)


# ---------------------------------------------------------------------------------------------------------------------
# tests


def _never(a: Value) -> Value:
    return ir.const(False, torch.bool)


def _test(function: Any, for_integers: Any) -> Any:
    def lower(ctx: Lowering, x: Tensor) -> Tensor:
        return pointwise(ctx, function if x.dtype.is_floating_point else for_integers, x, compute=x.dtype)

    return lower


def _negative(a: Value) -> Value:
    return compare("lt", a, 0) if a.dtype.is_signed and a.dtype is not torch.bool else _never(a)


lowering("aten.isnan.default")(_test(scalar_op("isnan"), _never))
lowering("aten.isinf.default")(_test(scalar_op("isinf"), _never))
lowering("aten.isposinf.default")(_test(lambda a: compare("eq", a, math.inf), _never))
lowering("aten.isneginf.default")(_test(lambda a: compare("eq", a, -math.inf), _never))
lowering("aten.signbit.default")(_test(scalar_op("signbit"), _negative))


@lowering("aten.nan_to_num.default")
def nan_to_num(
    ctx: Lowering, x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    if not x.dtype.is_floating_point:
        return pointwise(ctx, lambda a: a, x)
    limits = torch.finfo(x.dtype)

    def function(a: Value) -> Value:
        high = cast(ir.const(limits.max if posinf is None else posinf, x.dtype), a.dtype)
        low = cast(ir.const(limits.min if neginf is None else neginf, x.dtype), a.dtype)
        ended = where(compare("eq", a, math.inf), high, where(compare("eq", a, -math.inf), low, a))
        return where(ir.op("isnan", a), cast(ir.const(0.0 if nan is None else nan, x.dtype), a.dtype), ended)

    return pointwise(ctx, function, x)


# ---------------------------------------------------------------------------------------------------------------------
# comparisons and logic


def _comparison(name: str) -> Any:
    def lower(ctx: Lowering, x: Operand, y: Operand) -> Tensor:
        return pointwise(ctx, lambda a, b: compare(name, a, b), x, y, compute=common_dtype((x, y)))

    return lower


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    lowering(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")(_comparison(_name))


def _logical(name: str) -> Any:
    def lower(ctx: Lowering, x: Tensor, y: Tensor) -> Tensor:
        return pointwise(ctx, scalar_op(name), x, y, compute=torch.bool)

    return lower


for _operator, _name in {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}.items():
    lowering(f"aten.{_operator}.default")(_logical(_name))


@lowering("aten.logical_not.default")
def logical_not(ctx: Lowering, x: Tensor) -> Tensor:
    return pointwise(ctx, invert, x, compute=torch.bool)


def _extremum(name: str, on_bools: str) -> Any:
    def lower(ctx: Lowering, x: Tensor, y: Tensor) -> Tensor:
        def function(a: Value, b: Value) -> Value:
            if a.dtype is torch.bool:
                return ir.op(on_bools, a, b)
            if name[0] == "f" and ctx.out.dtype is torch.bfloat16:
                a, b = b, a  # of two zeros eager takes the second here, otherwise the first
            return op(name if a.dtype.is_floating_point else name.removeprefix("f"), a, b)

        return pointwise(ctx, function, x, y)

    return lower


lowering("aten.maximum.default")(_extremum("max", "or"))
lowering("aten.minimum.default")(_extremum("min", "and"))
lowering("aten.fmax.default")(_extremum("fmax", "or"))
lowering("aten.fmin.default")(_extremum("fmin", "and"))

