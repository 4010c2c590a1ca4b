"""Arithmetic operators: sums, products, quotients, remainders, powers, and what is made of them."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...shapes import Expr
from .. import ir
from ..ir import Value
from .context import Lowering
from .elementwise import Operand, elementwise, floating, pointwise, scalar_op
from .integer_division import divided_by_tensor
from .registry import lowering
from .scalars import add, both, cast, compare, div, mul, neg, op, opmath, sub, through, where
from .tensors import Tensor


def _is_number(x: Any) -> bool:
    return not isinstance(x, Tensor)


def _plus(a: Value, b: Value) -> Value:
    return op("or" if a.dtype is torch.bool else "add", a, b)


def _times(a: Value, b: Value) -> Value:
    return op("and" if a.dtype is torch.bool else "mul", a, b)


@lowering("aten.add.Tensor", "aten.add.Scalar")
def add_(ctx: Lowering, x: Operand, y: Operand, alpha: Any = 1) -> Tensor:
    return _add_scaled(ctx, x, y, alpha)


@lowering("aten.sub.Tensor", "aten.sub.Scalar")
def sub_(ctx: Lowering, x: Operand, y: Operand, alpha: Any = 1) -> Tensor:
    if alpha == 1 and not isinstance(alpha, Expr):
        return pointwise(ctx, scalar_op("sub"), x, y, exact_scalars=_keeps_numbers(ctx))
    return _add_scaled(ctx, x, y, -alpha)


@lowering("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(ctx: Lowering, x: Operand, y: Operand, alpha: Any = 1) -> Tensor:
    return sub_(ctx, y, x, alpha)


def _add_scaled(ctx: Lowering, x: Operand, y: Operand, alpha: Any) -> Tensor:
    if not isinstance(alpha, Expr) and alpha == 1:
        return pointwise(ctx, _plus, x, y, exact_scalars=_keeps_numbers(ctx))

    dtype = ctx.out.dtype

    def scaled(a: Value, b: Value) -> Value:
        factor = ctx.scalar(alpha, a.dtype) if _keeps_numbers(ctx) else cast(ctx.scalar(alpha, dtype), a.dtype)
        return ir.op("fma", b, factor, a) if a.dtype.is_floating_point else _plus(a, _times(b, factor))

    return pointwise(ctx, scaled, x, y, exact_scalars=_keeps_numbers(ctx))


def _keeps_numbers(ctx: Lowering) -> bool:
    """Whether eager does not round a number to a short float in sums; in products and quotients it never does."""
    return not ctx.kind.rounds_steps


@lowering("aten.mul.Tensor", "aten.mul.Scalar")
def mul_(ctx: Lowering, x: Operand, y: Operand) -> Tensor:
    return pointwise(ctx, _times, x, y, exact_scalars=True)


@lowering("aten.div.Tensor", "aten.div.Scalar")
def div_(ctx: Lowering, x: Operand, y: Operand) -> Tensor:
    return pointwise(ctx, scalar_op("div"), x, y, exact_scalars=True)


@lowering("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(ctx: Lowering, x: Operand, y: Operand, rounding_mode: str | None = None) -> Tensor:
    if rounding_mode is None:
        return div_(ctx, x, y)
    if rounding_mode == "floor":
        return floor_divide(ctx, x, y)
    if ctx.out.dtype.is_floating_point:
        steps = _steps(ctx, y)
        return pointwise(ctx, lambda a, b: ir.op("trunc", through(div(a, b), steps)), x, y, exact_scalars=True)
    return _integer_quotient(ctx, "div_trunc", x, y)


@lowering("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(ctx: Lowering, x: Operand, y: Operand) -> Tensor:
    if ctx.out.dtype.is_floating_point:
        steps = _steps(ctx, y)
        return pointwise(ctx, lambda a, b: float_floor_division(a, b, steps), x, y, exact_scalars=True)
    return _integer_quotient(ctx, "div_floor", x, y)


def _steps(ctx: Lowering, divisor: Operand) -> torch.dtype:
    """What rounded quotients are rounded to on the way: short floats, unless the divisor is a single number."""
    return ctx.out.dtype if isinstance(divisor, Tensor) and divisor.ndim else opmath(ctx.out.dtype)


def float_floor_division(a: Value, b: Value, steps: torch.dtype) -> Value:
    """The quotient rounded down as Python does it, consistent with the remainder; every step rounded to ``steps``."""
    quotient = div(a, b)
    rest = through(op("fmod", a, b), steps)
    whole = through(div(through(sub(a, rest), steps), b), steps)
    opposite = ir.op("xor", compare("lt", b, 0), compare("lt", rest, 0))
    whole = where(both(compare("ne", rest, 0), opposite), through(sub(whole, 1), steps), whole)
    floor = ir.op("floor", whole)
    floor = where(compare("gt", through(sub(whole, floor), steps), 0.5), through(add(floor, 1), steps), floor)
    # a quotient of 0 has the sign of the true one
    floor = where(compare("eq", whole, 0), op("copysign", 0.0, quotient), floor)
    return where(compare("eq", b, 0), quotient, floor)


def _integer_quotient(ctx: Lowering, name: str, x: Operand, y: Operand) -> Tensor:
    if isinstance(y, Tensor):
        return divided_by_tensor(ctx, name, x, y)
    if isinstance(y, Expr) or y == 0 or (isinstance(y, int) and y % 2 ** (8 * ctx.out.dtype.itemsize) == 0):
        return ctx.unsupported("division of integers raises for 0")
    if y == -1 and ctx.out.dtype.is_signed:  # the quotient of the smallest integer overflows, which processors trap
        return pointwise(ctx, neg if name.startswith("div") else lambda a: mul(a, 0), x)
    return pointwise(ctx, scalar_op(name), x, y)


@lowering("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(ctx: Lowering, x: Operand, y: Operand) -> Tensor:
    if ctx.out.dtype.is_floating_point:
        return pointwise(ctx, float_remainder, x, y)
    return _integer_quotient(ctx, "remainder", x, y)


def float_remainder(a: Value, b: Value) -> Value:
    """The remainder with the sign of the divisor."""
    rest = op("fmod", a, b)
    opposite = ir.op("xor", compare("lt", b, 0), compare("lt", rest, 0))
    return where(both(compare("ne", rest, 0), opposite), add(rest, b), rest)


@lowering("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(ctx: Lowering, x: Operand, y: Operand) -> Tensor:
    if ctx.out.dtype.is_floating_point:
        return pointwise(ctx, scalar_op("fmod"), x, y)
    return _integer_quotient(ctx, "mod_trunc", x, y)


# ---------------------------------------------------------------------------------------------------------------------
# powers


@lowering("aten.pow.Tensor_Scalar")
def pow_scalar(ctx: Lowering, x: Tensor, exponent: Any) -> Tensor:
    short = ctx.out.dtype in (torch.float16, torch.bfloat16) and ctx.kind.rounds_steps
    if isinstance(exponent, Expr):
        if short:
            return ctx.unsupported("an exponent that eager rounds to short floats")
        if exponent.kind == "float":
            return ctx.unsupported("an exponent that may be one of those that eager has functions for")
        if not ctx.out.dtype.is_floating_point:
            return ctx.unsupported("an integer to a power that is not constant")
        known = ctx.size_facts.interval(exponent)
        if not -_EXACT_IN_FLOAT32 <= known.lower <= known.upper <= _EXACT_IN_FLOAT32 and ctx.kind.rounds_steps:
            return ctx.unsupported("an exponent that eager rounds in some elements")
        return pointwise(ctx, scalar_op("pow"), x, exponent)
    if short:
        exponent = torch.tensor(exponent, dtype=ctx.out.dtype).item()
    if ctx.out.dtype is torch.float32 and ctx.kind.rounds_steps and _rounds_to_another_kind(float(exponent)):
        return ctx.unsupported("an exponent that eager rounds in some elements")
    if exponent == 0:
        return ctx.computed(lambda indices: ir.const(1, ctx_dtype), dtype=(ctx_dtype := ctx.out.dtype))
    if exponent == 1:
        return pointwise(ctx, lambda a: a, x)
    if not ctx.out.dtype.is_floating_point:
        return _integer_power(ctx, x, int(exponent))
    # Eager's squares are rounded in bfloat16 but not in float16.
    steps = ctx.out.dtype if ctx.out.dtype is torch.bfloat16 else opmath(ctx.out.dtype)
    if ctx.out.dtype is torch.float16 and ctx.kind.rounds_steps and abs(exponent) == 0.5:
        # no square root there: the power of -inf is inf, not NaN
        return pointwise(ctx, lambda a: op("pow", a, float(exponent)), x)
    return pointwise(ctx, lambda a: float_power(a, float(exponent), steps), x)


_EXACT_IN_FLOAT32 = 2**24
"""Whole numbers up to here are numbers of float32; of those behind it only the even ones are."""


def _rounds_to_another_kind(exponent: float) -> bool:
    """Whether a number is whole in float32 only, or odd in float64 only. Eager's vectors have it as float32 and the
    rest of its loops as float64, so that powers of negative numbers are NaN, or have another sign, in some elements."""
    if not math.isfinite(exponent):
        return False
    if exponent.is_integer():
        return exponent % 2 != 0 and abs(exponent) > _EXACT_IN_FLOAT32
    return float(torch.tensor(exponent)).is_integer()


def float_power(a: Value, exponent: float, steps: torch.dtype) -> Value:
    """A power with constant exponent, by the special cases that eager has. Rounded to ``steps`` on the way."""
    match exponent:
        case 0.5:
            return ir.op("sqrt", a)
        case 2.0:
            return mul(a, a)
        case 3.0:
            return mul(through(mul(a, a), steps), a)
        case 1.5 if steps is a.dtype:  # no further from the truth than a power; that of -inf is inf
            return where(compare("eq", a, -math.inf), math.inf, mul(a, ir.op("sqrt", a)))
        case -0.5:
            return ir.op("rsqrt", a)
        case -1.0:
            return div(1.0, a)
        case -2.0:
            return div(1.0, through(mul(a, a), steps))
    return op("pow", a, exponent)


def _integer_power(ctx: Lowering, x: Tensor, exponent: int) -> Tensor:
    if exponent < 0 or ctx.out.dtype is torch.bool:
        return ctx.unsupported("an integer to a negative power")

    def power(a: Value) -> Value:
        result: Value | None = None
        n = exponent
        while n:  # square and multiply
            if n & 1:
                result = a if result is None else mul(result, a)
            n >>= 1
            if n:
                a = mul(a, a)
        assert result is not None
        return result

    return pointwise(ctx, power, x)


@lowering("aten.pow.Tensor_Tensor")
def pow_tensor(ctx: Lowering, x: Tensor, exponent: Tensor) -> Tensor:
    if not ctx.out.dtype.is_floating_point:
        return ctx.unsupported("powers of integers")

    def power(a: Value, b: Value) -> Value:
        return ir.op("exp2", b) if a.op == "const" and a.data == 2 else op("pow", a, b)

    return pointwise(ctx, power, x, exponent)


@lowering("aten.pow.Scalar")
def pow_base(ctx: Lowering, base: Any, exponent: Tensor) -> Tensor:
    if not ctx.out.dtype.is_floating_point:
        return ctx.unsupported("powers of integers")
    if not isinstance(base, Expr) and base == 1:
        return pointwise(ctx, lambda a: ir.const(1, a.dtype), exponent)
    if not isinstance(base, Expr) and base == 2:
        return pointwise(ctx, scalar_op("exp2"), exponent)
    return pointwise(ctx, scalar_op("pow"), base, exponent)


# ---------------------------------------------------------------------------------------------------------------------
# combinations that eager rounds once


def _adding(combine: Any) -> Any:
    def lower(ctx: Lowering, x: Tensor, a: Tensor, b: Tensor, value: Any = 1) -> Tensor:
        return pointwise(ctx, lambda s, p, q: add(s, combine(mul(ctx.scalar(value, s.dtype), p), q)), x, a, b)

    return lower


lowering("aten.addcmul.default")(_adding(mul))
lowering("aten.addcdiv.default")(_adding(div))


@lowering("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(ctx: Lowering, x: Tensor, end: Tensor, weight: Operand) -> Tensor:
    def interpolate(a: Value, b: Value, w: Value) -> Value:
        distance = sub(b, a)
        near = ir.op("fma", w, distance, a)
        far = sub(b, mul(distance, sub(1.0, w)))
        return where(compare("lt", ir.op("abs", w), 0.5), near, far)

    return pointwise(ctx, interpolate, x, end, weight, exact_scalars=_is_number(weight))


elementwise("aten.hypot.default")(scalar_op("hypot"))


@lowering("aten.atan2.default")
def atan2(ctx: Lowering, x: Tensor, y: Tensor) -> Tensor:
    return pointwise(ctx, scalar_op("atan2"), x, y, compute=floating((x, y)))


@lowering("aten.nextafter.default")
def nextafter(ctx: Lowering, x: Tensor, y: Tensor) -> Tensor:
    if ctx.out.dtype not in (torch.float32, torch.float64):
        return ctx.unsupported("neighbours of short floats")
    return pointwise(ctx, scalar_op("nextafter"), x, y)


elementwise("aten.copysign.Tensor", "aten.copysign.Scalar")(scalar_op("copysign"))


@lowering("aten.ldexp.Tensor")
def ldexp(ctx: Lowering, x: Tensor, y: Tensor) -> Tensor:
    dtype = ctx.out.dtype
    return pointwise(ctx, lambda a, b: mul(a, through(op("pow", 2.0, b), dtype)), x, y)


def _times_log(log: str) -> Any:
    def lower(ctx: Lowering, x: Operand, y: Operand) -> Tensor:
        def function(a: Value, b: Value) -> Value:
            product = where(compare("eq", a, 0), 0.0, mul(a, through(ir.op(log, b), ctx_dtype)))
            return where(ir.op("isnan", b), math.nan, product)

        ctx_dtype = ctx.out.dtype
        return pointwise(ctx, function, x, y)

    return lower


lowering("aten.xlogy.Tensor", "aten.xlogy.Scalar_Self", "aten.xlogy.Scalar_Other")(_times_log("log"))
lowering("aten.special_xlog1py.default", "aten.special_xlog1py.self_scalar",
         "aten.special_xlog1py.other_scalar")(_times_log("log1p"))


@elementwise("aten.logaddexp.default")
def logaddexp(a: Value, b: Value) -> Value:
    larger = op("max", a, b)
    sum_ = add(larger, ir.op("log1p", ir.op("exp", neg(ir.op("abs", sub(a, b))))))
    return where(both(ir.op("isinf", a), compare("eq", a, b)), a, sum_)


@elementwise("aten.logaddexp2.default")
def logaddexp2(a: Value, b: Value) -> Value:
    rest = ir.op("log1p", ir.op("exp2", neg(ir.op("abs", sub(a, b)))))
    sum_ = add(op("max", a, b), mul(rest, 1 / math.log(2)))
    return where(both(ir.op("isinf", a), compare("eq", a, b)), a, sum_)


@elementwise("aten.heaviside.default")
def heaviside(a: Value, b: Value) -> Value:
    positive = compare("gt", a, 0 if a.dtype is not torch.bool else False)
    return where(compare("eq", a, 0), b, ir.cast(positive, a.dtype))


# ---------------------------------------------------------------------------------------------------------------------
# bits


for _name in ("and", "or", "xor"):
    elementwise(*(f"aten.bitwise_{_name}.{_kind}" for _kind in ("Tensor", "Scalar", "Scalar_Tensor")))(scalar_op(_name))


elementwise("aten.bitwise_not.default")(scalar_op("not"))


def _shift(name: str) -> Any:
    def lower(ctx: Lowering, x: Operand, y: Operand) -> Tensor:
        if ctx.out.dtype.is_floating_point or ctx.out.dtype is torch.bool:
            return ctx.unsupported("shifts of floats")
        signed = ctx.out.dtype.is_signed
        bits = 8 * ctx.out.dtype.itemsize

        def shift(a: Value, b: Value) -> Value:
            # In eager a shift by too much, or by less than 0, gives what is left when all bits are gone.
            largest = bits - 1 if signed and name == "shr" else bits
            outside = compare("ge", b, largest)
            if signed:
                outside = ir.op("or", outside, compare("lt", b, 0))
            inside = where(outside, 0, b)
            shifted = op(name, a, inside)
            gone: Any = op("shr", a, bits - 1) if name == "shr" and signed else 0
            return where(outside, gone, shifted)

        return pointwise(ctx, shift, x, y)

    return lower


for _operator, _name in (("bitwise_left_shift", "shl"), ("bitwise_right_shift", "shr"), ("__lshift__", "shl"),
                         ("__rshift__", "shr")):  # fmt: skip
    lowering(
        f"aten.{_operator}.Tensor", f"aten.{_operator}.Scalar", f"aten.{_operator}.Tensor_Scalar",
        f"aten.{_operator}.Scalar_Tensor",
    )(_shift(_name))  # fmt: skip

