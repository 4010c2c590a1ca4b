"""Operations of the loop IR as LLVM instructions: what the table of operations (`kernels.operations`) refers to.

All operands of a rule have one dtype, which is no short float, and as many lanes as the result.
"""

from __future__ import annotations

import math

import torch

from .constant_division import floored, has_reciprocal, splat_number
from .conversions import cast
from .math_functions import Rule, lane_by_lane
from .operands import Operand
from .scopes import Emitter


def is_number(operand: Operand) -> bool:
    """Whether a float32 is a constant other than NaN."""
    return operand.is_constant and "0x7FF8" not in operand.text and "0xFFF8" not in operand.text


def instruction(name: str) -> Rule:
    """An instruction of two operands."""
    return lambda e, args: e.binary(name, args[0], args[1])


def comparison(predicate: str) -> Rule:
    """An instruction that compares."""
    return lambda e, args: e.compare(predicate, *args)


def intrinsic(name: str) -> Rule:
    """One of LLVM's intrinsic functions."""
    return lambda e, args: e.intrinsic(name, *args)


# floats


def negation(e: Emitter, args: list[Operand]) -> Operand:
    return e.instruction(f"fneg {args[0].typed}", args[0].dtype, args[0].lanes)


def rsqrt(e: Emitter, args: list[Operand]) -> Operand:
    return e.binary("fdiv", e.constant(1.0, args[0].dtype, args[0].lanes), e.intrinsic("sqrt", args[0]))


def reciprocal(e: Emitter, args: list[Operand]) -> Operand:
    return e.binary("fdiv", e.constant(1.0, args[0].dtype, args[0].lanes), args[0])


def sign(e: Emitter, args: list[Operand]) -> Operand:
    x = args[0]
    zero, one = e.constant(0.0, x.dtype, x.lanes), e.constant(1.0, x.dtype, x.lanes)
    positive = e.select(e.compare("ogt", x, zero), one, zero)
    # torch's sign of NaN is 0
    return e.select(e.compare("olt", x, zero), e.constant(-1.0, x.dtype, x.lanes), positive)


def extreme(predicate: str) -> Rule:
    """The larger or smaller of two; NaN where either is."""

    def rule(e: Emitter, args: list[Operand]) -> Operand:
        a, b = args
        if is_number(b):
            # One instruction: a where it is NaN, and a where both are zeros, as in eager's clamp
            return e.select(e.compare(predicate, b, a), b, a)
        chosen = e.select(e.compare(predicate, a, b), a, b)
        # b is chosen where a is not greater, and where either is NaN: then a may be the NaN
        return e.select(e.compare("uno", a, a), a, chosen)

    return rule


def extreme_number(predicate: str) -> Rule:
    """The larger or smaller of two, and of a number and NaN the number; of two zeros the first."""

    def rule(e: Emitter, args: list[Operand]) -> Operand:
        a, b = args
        chosen = e.select(e.compare(predicate, a, b), a, b)
        return e.select(e.compare("uno", b, b), a, chosen)

    return rule


def isnan(e: Emitter, args: list[Operand]) -> Operand:
    return e.compare("uno", args[0], args[0])


def isinf(e: Emitter, args: list[Operand]) -> Operand:
    x = args[0]
    return e.compare("oeq", e.intrinsic("fabs", x), e.constant(math.inf, x.dtype, x.lanes))


def signbit(e: Emitter, args: list[Operand]) -> Operand:
    x = args[0]
    bits = torch.int32 if x.dtype is torch.float32 else torch.int64
    return e.compare("slt", e.convert("bitcast", x, bits), e.constant(0, bits, x.lanes))


fmod = lane_by_lane("fmod")


def remainder(e: Emitter, args: list[Operand]) -> Operand:
    """fmod, moved by the divisor where the signs differ."""
    a, b = args
    rest = fmod(e, args)
    zero = e.constant(0.0, a.dtype, a.lanes)
    differ = e.binary("xor", e.compare("olt", rest, zero), e.compare("olt", b, zero))
    move = e.binary("and", e.compare("une", rest, zero), differ)
    return e.select(move, e.binary("fadd", rest, b), rest)


def div_trunc(e: Emitter, args: list[Operand]) -> Operand:
    return e.intrinsic("trunc", e.binary("fdiv", args[0], args[1]))


def div_floor(e: Emitter, args: list[Operand]) -> Operand:
    """Python's floor division: from the exact remainder, so that a quotient just below an integer stays below."""
    a, b = args
    lanes, dtype = a.lanes, a.dtype
    zero = e.constant(0.0, dtype, lanes)
    rest = fmod(e, args)
    quotient = e.binary("fdiv", e.binary("fsub", a, rest), b)
    differ = e.binary("xor", e.compare("olt", rest, zero), e.compare("olt", b, zero))
    lower = e.binary("and", e.compare("une", rest, zero), differ)
    quotient = e.select(lower, e.binary("fsub", quotient, e.constant(1.0, dtype, lanes)), quotient)
    down = e.intrinsic("floor", quotient)
    up = e.compare("ogt", e.binary("fsub", quotient, down), e.constant(0.5, dtype, lanes))
    whole = e.select(up, e.binary("fadd", down, e.constant(1.0, dtype, lanes)), down)
    plain = e.binary("fdiv", a, b)
    # a zero has the sign of the quotient
    whole = e.select(e.compare("oeq", quotient, zero), e.intrinsic("copysign", zero, plain), whole)
    return e.select(e.compare("oeq", b, zero), plain, whole)


# integers and bool


def integer_order(name: str) -> Rule:
    """``lt``, ``le``, ``gt`` or ``ge``."""

    def rule(e: Emitter, args: list[Operand]) -> Operand:
        is_signed = args[0].dtype.is_signed and args[0].dtype is not torch.bool
        return e.compare(f"{'s' if is_signed else 'u'}{name}", *args)

    return rule


def integer_extreme(name: str) -> Rule:
    """``max`` or ``min``."""

    def rule(e: Emitter, args: list[Operand]) -> Operand:
        dtype = args[0].dtype
        if dtype is torch.bool:
            return e.binary("or" if name == "max" else "and", args[0], args[1])
        return e.intrinsic(f"{'s' if dtype.is_signed else 'u'}{name}", *args)

    return rule


def inversion(e: Emitter, args: list[Operand]) -> Operand:
    x = args[0]
    return e.binary("xor", x, e.constant(True if x.dtype is torch.bool else -1, x.dtype, x.lanes))


def integer_negation(e: Emitter, args: list[Operand]) -> Operand:
    return e.binary("sub", e.constant(0, args[0].dtype, args[0].lanes), args[0])


def integer_abs(e: Emitter, args: list[Operand]) -> Operand:
    x = args[0]
    if not x.dtype.is_signed or x.dtype is torch.bool:
        return x
    return e.select(e.compare("slt", x, e.constant(0, x.dtype, x.lanes)), integer_negation(e, args), x)


def integer_sign(e: Emitter, args: list[Operand]) -> Operand:
    x = args[0]
    if x.dtype is torch.bool:
        return x
    zero = e.constant(0, x.dtype, x.lanes)
    positive = cast(e, e.compare("sgt" if x.dtype.is_signed else "ugt", x, zero), x.dtype)
    if not x.dtype.is_signed:
        return positive
    return e.select(e.compare("slt", x, zero), e.constant(-1, x.dtype, x.lanes), positive)


def same(e: Emitter, args: list[Operand]) -> Operand:
    return args[0]


def never(e: Emitter, args: list[Operand]) -> Operand:
    return e.constant(False, torch.bool, args[0].lanes)


def is_negative(e: Emitter, args: list[Operand]) -> Operand:
    x = args[0]
    if not x.dtype.is_signed or x.dtype is torch.bool:
        return e.constant(False, torch.bool, x.lanes)
    return e.compare("slt", x, e.constant(0, x.dtype, x.lanes))


def shift(instruction: str) -> Rule:
    """Shifts by the width or more give what torch gives: zeros, or the sign."""

    def rule(e: Emitter, args: list[Operand]) -> Operand:
        x, by = args
        bits, lanes, dtype = 8 * x.dtype.itemsize, x.lanes, x.dtype
        named = instruction if instruction == "shl" or dtype.is_signed else "lshr"
        outside = e.compare("uge", by, e.constant(bits, dtype, lanes))
        if named == "ashr":
            return e.binary(named, x, e.select(outside, e.constant(bits - 1, dtype, lanes), by))
        zero = e.constant(0, dtype, lanes)
        return e.select(outside, zero, e.binary(named, x, e.select(outside, zero, by)))

    return rule


def integer_division(kind: str) -> Rule:
    """``div_floor``, ``div_trunc``, ``mod_trunc`` or ``remainder``."""

    def rule(e: Emitter, args: list[Operand]) -> Operand:
        a, b = args
        signed = a.dtype.is_signed
        divisor = splat_number(b)
        if divisor is not None and kind in ("div_floor", "remainder") and has_reciprocal(divisor):
            quotient = floored(e, a, divisor)
            return quotient if kind == "div_floor" else e.binary("sub", a, e.binary("mul", quotient, b))
        if not b.is_constant:
            # Lanes that are not there hold zeros, and a division by zero would end the process.
            none = e.compare("eq", b, e.constant(0, b.dtype, b.lanes))
            b = e.select(none, e.constant(1, b.dtype, b.lanes), b)
        if kind == "div_trunc" or (kind == "div_floor" and not signed):
            return e.binary("sdiv" if signed else "udiv", a, b)
        if kind == "mod_trunc" or not signed:
            return e.binary("srem" if signed else "urem", a, b)
        zero = e.constant(0, a.dtype, a.lanes)
        rest = e.binary("srem", a, b)
        wrong = e.binary("and", e.compare("ne", rest, zero), e.compare("slt", e.binary("xor", rest, b), zero))
        if kind == "remainder":
            return e.binary("add", rest, e.select(wrong, b, zero))
        return e.binary("add", e.binary("sdiv", a, b), e.convert("sext", wrong, a.dtype))

    return rule
