"""Expressions of values: operations by name, with Python numbers as constants of the other operand's dtype."""

from __future__ import annotations

import math
import operator

import torch

from .. import ir
from ..ir import Value

Operand = Value | bool | int | float


def lift(x: Operand, dtype: torch.dtype) -> Value:
    """Numbers as constants."""
    return x if isinstance(x, Value) else ir.const(x, dtype)


def op(name: str, *operands: Operand) -> Value:
    """An operation of operands of one dtype, or what it is equal to in every bit."""
    dtype = next(x.dtype for x in operands if isinstance(x, Value))
    values = [lift(x, dtype) for x in operands]
    if len(values) == 2 and (values[0].op == "const" or values[1].op == "const"):
        return _with_constant(name, *values) or ir.op(name, *values)
    return ir.op(name, *values)


def _with_constant(name: str, a: Value, b: Value) -> Value | None:
    """Operations that do nothing. On floats x + 0.0 is not one of them: it turns -0.0 into 0.0."""
    x, y = (v.data if v.op == "const" else None for v in (a, b))
    whole = not a.dtype.is_floating_point
    match name:
        case "add" if whole and (x == 0 or y == 0):  # x + 0 -> x
            return b if x == 0 else a
        case "sub" if y == 0 and (whole or not _is_negative_zero(y)):  # x - 0 -> x
            return a
        case "mul" if x == 1 or y == 1:  # x * 1 -> x
            return b if x == 1 else a
        case "div" if y == 1 and not whole:  # x / 1 -> x
            return a
        case "and" if a.dtype is torch.bool:  # x & True -> x, x & False -> False
            known, other = (x, b) if x is not None else (y, a)
            return other if known else ir.const(False, torch.bool)
        case "or" if a.dtype is torch.bool:  # x | False -> x, x | True -> True
            known, other = (x, b) if x is not None else (y, a)
            return ir.const(True, torch.bool) if known else other
        case "or" | "xor" | "shl" | "shr" if whole and y == 0:  # x | 0 -> x
            return a
    return None


def _is_negative_zero(x: float | None) -> bool:
    return x is not None and math.copysign(1.0, x) < 0


def add(a: Operand, b: Operand) -> Value:
    return op("add", a, b)


def sub(a: Operand, b: Operand) -> Value:
    return op("sub", a, b)


def mul(a: Operand, b: Operand) -> Value:
    return op("mul", a, b)


def div(a: Operand, b: Operand) -> Value:
    return op("div", a, b)


def neg(a: Value) -> Value:
    return ir.op("neg", a)


def exp(a: Value) -> Value:
    return ir.op("exp", a)


def where(condition: Value, then: Operand, otherwise: Operand) -> Value:
    """One of two values; at least one of them is no number."""
    if condition.op == "const":
        chosen, other = (then, otherwise) if condition.data else (otherwise, then)
        return lift(chosen, other.dtype if isinstance(other, Value) else chosen.dtype)  # type: ignore[union-attr]
    dtype = next(x.dtype for x in (then, otherwise) if isinstance(x, Value))
    return ir.op("where", condition, lift(then, dtype), lift(otherwise, dtype))


_COMPARISONS = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
                "ge": operator.ge}


def compare(name: str, a: Operand, b: Operand) -> Value:
    """``eq``, ``ne``, ``lt``, ``le``, ``gt`` or ``ge``; False is less than True."""
    dtype = next(x.dtype for x in (a, b) if isinstance(x, Value))
    x, y = lift(a, dtype), lift(b, dtype)
    if x.op == y.op == "const":
        return ir.const(_COMPARISONS[name](x.data, y.data), torch.bool)
    if dtype is not torch.bool:
        return ir.op(name, x, y)
    match name:
        case "ne":
            return ir.op("xor", x, y)
        case "eq":
            return ir.op("not", ir.op("xor", x, y))
        case "lt":
            return ir.op("and", ir.op("not", x), y)
        case "gt":
            return ir.op("and", x, ir.op("not", y))
        case "le":
            return ir.op("or", ir.op("not", x), y)
    return ir.op("or", x, ir.op("not", y))


def both(a: Value, b: Value) -> Value:
    """Logical and, of bools."""
    return op("and", a, b)


def either(a: Value, b: Value) -> Value:
    """Logical or, of bools."""
    return op("or", a, b)


def invert(a: Value) -> Value:
    """Logical not, of a bool."""
    return ir.const(not a.data, torch.bool) if a.op == "const" else ir.op("not", a)


# Every value of the first is one of the second.
_WIDER: dict[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.bfloat16: (torch.float32, torch.float64),
    torch.float16: (torch.float32, torch.float64),
    torch.float32: (torch.float64,),
    torch.bool: (
        torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
        torch.float64,
    ),
    torch.uint8: (torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64),
    torch.int8: (torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64),
    torch.int16: (torch.int32, torch.int64, torch.float32, torch.float64),
    torch.int32: (torch.int64, torch.float64),
}  # fmt: skip


def cast(x: Value, dtype: torch.dtype) -> Value:
    """A conversion; one that undoes an exact widening gives back what there was."""
    if x.op == "cast" and x.args[0].dtype is dtype and x.dtype in _WIDER.get(dtype, ()):
        return x.args[0]
    return ir.cast(x, dtype)


def through(x: Value, dtype: torch.dtype) -> Value:
    """A value rounded to a dtype and widened again, where eager goes through it in the middle of a formula."""
    return cast(cast(x, dtype), x.dtype)


def opmath(dtype: torch.dtype) -> torch.dtype:
    """The dtype that eager computes in: float32 for the two short floats, otherwise the dtype itself."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype
