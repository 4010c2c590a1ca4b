"""The operations of the loop IR as instructions. All operands have one dtype and as many lanes as the result."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from . import math_functions
from .conversions import HALVES, cast
from .operands import Operand, Unsupported
from .scopes import Emitter

Rule = Callable[[Emitter, list[Operand]], Operand]

FLOAT: dict[str, Rule] = {}
INTEGER: dict[str, Rule] = {}

CHOICES = frozenset({"max", "min", "fmax", "fmin"})
"""Operations that give one of their operands as it is."""

ARITHMETIC = CHOICES | {"add", "sub", "mul", "div", "neg", "abs", "sqrt", "rsqrt", "reciprocal", "fma", "floor", "ceil",
                        "trunc", "round", "exp", "log", "tanh", "erf", "sigmoid"}
"""Operations whose NaNs are those of their operands or the machine's own, which ends in zeros."""


def emit(e: Emitter, op: str, dtype: torch.dtype, args: list[Operand]) -> Operand:
    """One operation."""
    if op == "where":
        if dtype is torch.bfloat16 and any(arg.single is not None for arg in args[1:]):
            then, otherwise = [cast(e, arg, torch.float32) for arg in args[1:]]
            return cast(e, emit(e, op, torch.float32, [args[0], then, otherwise]), dtype)
        return _one_of(e.select(*args), args[1:])
    kind = args[0].dtype
    if kind in HALVES:
        single = [cast(e, arg, torch.float32) for arg in args]
        return cast(e, emit(e, op, torch.bool if dtype is torch.bool else torch.float32, single), dtype)
    rule = (FLOAT if kind.is_floating_point else INTEGER).get(op)
    if rule is not None:
        result = _one_of(rule(e, args), args) if op in CHOICES else rule(e, args)
    elif kind.is_floating_point:
        result = math_functions.emit(e, op, args)
    else:
        raise Unsupported(f"{op} of {kind}")
    if op in ARITHMETIC:
        result.short_nan = kind is torch.float32 and all(arg.short_nan or _is_number(arg) for arg in args)
    return result


def _is_number(operand: Operand) -> bool:
    """Whether a float32 is a constant other than NaN."""
    return operand.is_constant and "0x7FF8" not in operand.text and "0xFFF8" not in operand.text


def _one_of(result: Operand, args: list[Operand]) -> Operand:
    """A result that is one of the operands, which need not be rounded again if none of them need be."""
    if result.dtype is torch.float32:
        result.rounded = all(arg.rounded or _is_bfloat(arg) for arg in args)
        result.short_nan = all(arg.short_nan or _is_number(arg) for arg in args)
    return result


def _is_bfloat(operand: Operand) -> bool:
    """Whether a float32 is known to be a bfloat16: zero or a power of two, of those that are constants."""
    if not operand.is_constant:
        return False
    text = operand.text.removeprefix("splat (float ").removesuffix(")")
    exponent = int(text[2:5], 16) & 0x7FF if text.startswith("0x") and text.endswith("0" * 13) else -1
    return exponent == 0 or 1023 - 126 <= exponent <= 1023 + 127


def _rule(table: dict[str, Rule], *names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for name in names:
            table[name] = rule
        return rule

    return register


def _plain(instruction: str) -> Rule:
    return lambda e, args: e.binary(instruction, args[0], args[1])


def _compare(predicate: str) -> Rule:
    return lambda e, args: e.compare(predicate, *args)


def _intrinsic(name: str) -> Rule:
    return lambda e, args: e.intrinsic(name, *args)


# floats

FLOAT.update({name: _plain(f"f{name}") for name in ("add", "sub", "mul", "div")})
FLOAT.update({name: _compare(predicate) for name, predicate in
              [("eq", "oeq"), ("ne", "une"), ("lt", "olt"), ("le", "ole"), ("gt", "ogt"), ("ge", "oge")]})
FLOAT.update({name: _intrinsic(intrinsic) for name, intrinsic in
              [("abs", "fabs"), ("floor", "floor"), ("ceil", "ceil"), ("trunc", "trunc"), ("round", "rint"),
               ("copysign", "copysign"), ("fma", "fma"), ("sqrt", "sqrt")]})


@_rule(FLOAT, "neg")
def _negate(e: Emitter, args: list[Operand]) -> Operand:
    return e.instruction(f"fneg {args[0].typed}", args[0].dtype, args[0].lanes)


@_rule(FLOAT, "rsqrt")
def _rsqrt(e: Emitter, args: list[Operand]) -> Operand:
    return e.binary("fdiv", e.constant(1.0, args[0].dtype, args[0].lanes), e.intrinsic("sqrt", args[0]))


@_rule(FLOAT, "reciprocal")
def _reciprocal(e: Emitter, args: list[Operand]) -> Operand:
    return e.binary("fdiv", e.constant(1.0, args[0].dtype, args[0].lanes), args[0])


@_rule(FLOAT, "sign")
def _sign(e: Emitter, args: list[Operand]) -> Operand:
    x = args[0]
    zero, one = e.constant(0.0, x.dtype, x.lanes), e.constant(1.0, x.dtype, x.lanes)
    positive = e.select(e.compare("ogt", x, zero), one, zero)
    # torch's sign of NaN is 0
    return e.select(e.compare("olt", x, zero), e.constant(-1.0, x.dtype, x.lanes), positive)


def _extreme(predicate: str) -> Rule:
    def rule(e: Emitter, args: list[Operand]) -> Operand:
        a, b = args
        if _is_number(b):
            # One instruction: a where it is NaN, and a where both are zeros, as in eager's clamp
            return e.select(e.compare(predicate, b, a), b, a)
        chosen = e.select(e.compare(predicate, a, b), a, b)
        # b is chosen where a is not greater, and where either is NaN: then a may be the NaN
        return e.select(e.compare("uno", a, a), a, chosen)

    return rule


FLOAT["max"], FLOAT["min"] = _extreme("ogt"), _extreme("olt")


def _extreme_number(predicate: str) -> Rule:
    def rule(e: Emitter, args: list[Operand]) -> Operand:
        a, b = args
        chosen = e.select(e.compare(predicate, a, b), a, b)
        return e.select(e.compare("uno", b, b), a, chosen)

    return rule


# of two zeros the first
FLOAT["fmax"], FLOAT["fmin"] = _extreme_number("oge"), _extreme_number("ole")


@_rule(FLOAT, "isnan")
def _isnan(e: Emitter, args: list[Operand]) -> Operand:
    return e.compare("uno", args[0], args[0])


@_rule(FLOAT, "isinf")
def _isinf(e: Emitter, args: list[Operand]) -> Operand:
    x = args[0]
    return e.compare("oeq", e.intrinsic("fabs", x), e.constant(math.inf, x.dtype, x.lanes))


@_rule(FLOAT, "signbit")
def _signbit(e: Emitter, args: list[Operand]) -> Operand:
    x = args[0]
    bits = torch.int32 if x.dtype is torch.float32 else torch.int64
    return e.compare("slt", e.convert("bitcast", x, bits), e.constant(0, bits, x.lanes))


@_rule(FLOAT, "mod_trunc", "fmod")
def _fmod(e: Emitter, args: list[Operand]) -> Operand:
    return math_functions.lane_by_lane(e, "fmod", args)


@_rule(FLOAT, "remainder")
def _remainder(e: Emitter, args: list[Operand]) -> Operand:
    """fmod, moved by the divisor where the signs differ."""
    a, b = args
    rest = _fmod(e, args)
    zero = e.constant(0.0, a.dtype, a.lanes)
    differ = e.binary("xor", e.compare("olt", rest, zero), e.compare("olt", b, zero))
    move = e.binary("and", e.compare("une", rest, zero), differ)
    return e.select(move, e.binary("fadd", rest, b), rest)


@_rule(FLOAT, "div_trunc")
def _div_trunc(e: Emitter, args: list[Operand]) -> Operand:
    return e.intrinsic("trunc", e.binary("fdiv", args[0], args[1]))


@_rule(FLOAT, "div_floor")
def _div_floor(e: Emitter, args: list[Operand]) -> Operand:
    """Python's floor division: from the exact remainder, so that a quotient just below an integer stays below."""
    a, b = args
    lanes, dtype = a.lanes, a.dtype
    zero = e.constant(0.0, dtype, lanes)
    rest = _fmod(e, args)
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


@_rule(FLOAT, "nextafter")
def _nextafter(e: Emitter, args: list[Operand]) -> Operand:
    return math_functions.lane_by_lane(e, "nextafter", args)


# integers and bool

INTEGER.update({name: _plain(name) for name in ("add", "sub", "mul", "and", "or", "xor")})


def _signed(signed: str, unsigned: str) -> Rule:
    def rule(e: Emitter, args: list[Operand]) -> Operand:
        is_signed = args[0].dtype.is_signed and args[0].dtype is not torch.bool
        return e.compare(signed if is_signed else unsigned, *args)

    return rule


INTEGER.update({"eq": _compare("eq"), "ne": _compare("ne")})
INTEGER.update({name: _signed(f"s{name}", f"u{name}") for name in ("lt", "le", "gt", "ge")})


def _integer_extreme(name: str) -> Rule:
    def rule(e: Emitter, args: list[Operand]) -> Operand:
        dtype = args[0].dtype
        if dtype is torch.bool:
            return e.binary("or" if name == "max" else "and", args[0], args[1])
        return e.intrinsic(f"{'s' if dtype.is_signed else 'u'}{name}", *args)

    return rule


INTEGER.update({"max": _integer_extreme("max"), "min": _integer_extreme("min"),
                "fmax": _integer_extreme("max"), "fmin": _integer_extreme("min")})


@_rule(INTEGER, "not")
def _not(e: Emitter, args: list[Operand]) -> Operand:
    x = args[0]
    return e.binary("xor", x, e.constant(True if x.dtype is torch.bool else -1, x.dtype, x.lanes))


@_rule(INTEGER, "neg")
def _negate_integer(e: Emitter, args: list[Operand]) -> Operand:
    return e.binary("sub", e.constant(0, args[0].dtype, args[0].lanes), args[0])


@_rule(INTEGER, "abs")
def _abs(e: Emitter, args: list[Operand]) -> Operand:
    x = args[0]
    if not x.dtype.is_signed or x.dtype is torch.bool:
        return x
    return e.select(e.compare("slt", x, e.constant(0, x.dtype, x.lanes)), _negate_integer(e, args), x)


@_rule(INTEGER, "sign")
def _integer_sign(e: Emitter, args: list[Operand]) -> Operand:
    x = args[0]
    if x.dtype is torch.bool:
        return x
    zero = e.constant(0, x.dtype, x.lanes)
    positive = cast(e, e.compare("sgt" if x.dtype.is_signed else "ugt", x, zero), x.dtype)
    if not x.dtype.is_signed:
        return positive
    return e.select(e.compare("slt", x, zero), e.constant(-1, x.dtype, x.lanes), positive)


@_rule(INTEGER, "floor", "ceil", "trunc", "round")
def _same(e: Emitter, args: list[Operand]) -> Operand:
    return args[0]


@_rule(INTEGER, "isnan", "isinf")
def _never(e: Emitter, args: list[Operand]) -> Operand:
    return e.constant(False, torch.bool, args[0].lanes)


@_rule(INTEGER, "signbit")
def _negative(e: Emitter, args: list[Operand]) -> Operand:
    x = args[0]
    if not x.dtype.is_signed or x.dtype is torch.bool:
        return e.constant(False, torch.bool, x.lanes)
    return e.compare("slt", x, e.constant(0, x.dtype, x.lanes))


def _shift(instruction: str) -> Rule:
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


INTEGER["shl"], INTEGER["shr"] = _shift("shl"), _shift("ashr")


def _division(kind: str) -> Rule:
    def rule(e: Emitter, args: list[Operand]) -> Operand:
        a, b = args
        signed = a.dtype.is_signed
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


INTEGER.update({kind: _division(kind) for kind in ("div_floor", "div_trunc", "mod_trunc", "remainder")})
INTEGER["fmod"] = _division("mod_trunc")


@_rule(INTEGER, "pow")
def _integer_power(e: Emitter, args: list[Operand]) -> Operand:
    """By squaring, in a loop of its own; negative exponents give what torch gives: 0, or ±1 for ±1."""
    return math_functions.integer_power(e, *args)
