"""Python's operators and functions on numbers of the graph.

A rule builds the expression of a result from the expressions of the operands. It first takes the decisions (they leave
guards) on which it depends that Python gives a value of this type at all, and gives None where no expression exists:
the numbers are then made constants and Python computes with them.

Integers of a graph are sizes, arguments, items of tensors and what is computed from them, all of 64 bits: guards and
assertions say that they stay in that range.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from ..shapes import Call, Const, Expr, Symbol, as_expr, relations
from ..shapes import arithmetic as arith
from ..shapes.expr import FALSE, TRUE, Product, Sum
from ..shapes.operations import MATH_FUNCTIONS
from .values.base import Value
from .values.constants import ConstantValue, NumberValue, SliceValue
from .values.mappings import DictValue
from .values.sequences import ListValue, TupleValue

if TYPE_CHECKING:
    from .tracer import Tracer

Rule = Callable[..., "Expr | None"]

LARGEST_FLOAT = sys.float_info.max
# The integers that graphs compute with.
LEAST, LARGEST = -(2**63), 2**63 - 1
# Numbers from tensors that are computed with are taken to be below.
USUAL = 2**31
# Exponents up to this keep every 64-bit integer within the range of a float.
SAFE_EXPONENT = 16
# e**x of larger x may overflow.
SAFE_LOGARITHM = 709


class Raises(Exception):
    """Python raises for these operands, whatever their exact values are."""


def is_number(value: Value) -> bool:
    """A number of the graph, or a constant that can stand beside one."""
    return isinstance(value, NumberValue) or \
        (isinstance(value, ConstantValue) and type(value.value) in {int, float, bool})


def apply(tx: Tracer, function: Any, operands: list[Value]) -> Value:
    """``function(*operands)`` on numbers, at least one of them of the graph."""
    rule = RULES.get(function)
    operands = [operand.realize() for operand in operands]
    if rule is None or not any(isinstance(operand, NumberValue) for operand in operands):
        return fold(tx, function, operands)
    given = operands
    if not (function in LOGIC and all(_kind(operand) is bool for operand in operands)):
        operands = [as_int(tx, operand) if _kind(operand) is bool else operand for operand in operands]
    elif function is operator.xor:
        function = operator.ne
    hints = [hint_of(operand) for operand in operands]
    try:
        expr = rule(tx, *[expr_of(tx, operand) for operand in operands])
        hint = None if expr is None or None in hints else function(*hints)
    except Raises:
        return tx.fold(function, [_example(tx, operand) for operand in given], {})
    except (ArithmeticError, ValueError):
        expr = None
    if expr is None or not _has_64_bits(tx, expr):
        return fold(tx, function, given)
    if isinstance(expr, Const):
        return ConstantValue(expr.value)
    for operand in operands:
        if isinstance(operand, NumberValue) and operand.expr is expr:
            return operand
    if any(_is_wide(operand) for operand in operands):  # the result has 64 bits, but is computed of more
        return fold(tx, function, given)
    return tx.symbols.computed(expr, hint, RECORDED.get(function, function), operands)


def _example(tx: Tracer, value: Value) -> Any:
    """The present value of a number, or one that it may have where it depends on data."""
    hint = hint_of(value)
    if hint is not None:
        return hint
    interval = tx.shape_env.interval(expr_of(tx, value))
    return _kind(value)(min(max(1, interval.lower), interval.upper))


def _has_64_bits(tx: Tracer, expr: Expr) -> bool:
    """Whether a result is an integer that machine code can hold, or a comparison of such; of what is not known the
    graph is for that case.

    Bounds that are infinite are those of sizes, whose products are sizes too, of memory that is there. Sums and
    products may leave the range on the way, as they come back to it; what is divided may not (p // -5 is -p // 5).
    """
    if not all(_has_64_bits(tx, operand) for operand in _operands_of_calls(expr)):
        return False
    if isinstance(expr, Call) and expr.op in ("eq0", "ne0", "ge0"):
        return all(_has_64_bits(tx, side) if not isinstance(side, Const) else LEAST <= side.value <= LARGEST
                   for side in relations.sides(expr.operands[0]))
    if expr.kind != "int" or isinstance(expr, Const):
        return True
    if _is_narrow(tx, expr) or tx.compiler.exports and not tx.shape_env.is_backed(expr):
        return True  # exported programs compute with numbers from tensors as Python does, without further conditions
    for free in expr.free_symbols:  # a number from a tensor is rarely a large one
        if free.kind == "int" and not tx.shape_env.is_backed(free) and not (
                tx.symbols.holds(relations.ge(free, -USUAL)) and tx.symbols.holds(relations.lt(free, USUAL))):
            return False
    if _is_narrow(tx, expr):
        return True
    return tx.symbols.holds(relations.ge(expr, LEAST)) and tx.symbols.holds(relations.le(expr, LARGEST))


def _operands_of_calls(expr: Expr) -> Iterator[Expr]:
    """The integers that the divisions, minima and the like in an expression are computed of."""
    if isinstance(expr, Call) and expr.op not in ("eq0", "ne0", "ge0"):
        for operand in expr.operands:
            if operand.kind == "int" and not isinstance(operand, (Const, Symbol)):
                yield operand
    elif isinstance(expr, (Sum, Product)):
        for part in expr.args:
            yield from _operands_of_calls(part)


def _is_wide(value: Value) -> bool:
    return isinstance(value, ConstantValue) and type(value.value) is int and not LEAST <= value.value <= LARGEST


def _is_narrow(tx: Tracer, expr: Expr) -> bool:
    interval = tx.shape_env.interval(expr)
    ends = interval.lower, interval.upper
    if any(math.isinf(end) for end in ends):
        constants = (expr.const, *(factor for _, factor in expr.terms)) if isinstance(expr, Sum) else ()
        if any(abs(constant) > USUAL for constant in constants) or \
                not all(_is_usual(tx, free) for free in expr.free_symbols):
            return False  # a size times something that is none
    return all(math.isinf(end) or LEAST <= end <= LARGEST for end in ends)


def _is_usual(tx: Tracer, number: Expr) -> bool:
    """Whether it is a size, or nothing that makes too large a number of one."""
    interval = tx.shape_env.interval(number)
    return math.isinf(interval.upper) or -USUAL <= interval.lower <= interval.upper <= USUAL


def fold(tx: Tracer, function: Any, operands: list[Value]) -> Value:
    """Compute with constants, guarded to be what they are now."""
    return tx.fold(function, [tx.constant_of(operand) for operand in operands], {})


def as_int(tx: Tracer, value: Value) -> Value:
    """``int(value)`` of a truth value: Python computes with it as 0 or 1."""
    value = value.realize()
    if isinstance(value, ConstantValue):
        return ConstantValue(int(value.value))
    assert isinstance(value, NumberValue)
    expr = relations.if_else(expr_of(tx, value), 1, 0)
    hint = None if value.hint is None else int(value.hint)
    return tx.symbols.computed(expr, hint, torch.sym_ite, [value, ConstantValue(1), ConstantValue(0)])


def truth_value(tx: Tracer, value: NumberValue, negated: bool = False) -> Value:
    """``bool(value)``, or ``not value``, without a decision."""
    if value.python_type() is not bool:
        return apply(tx, operator.eq if negated else operator.ne, [value, ConstantValue(0)])
    return apply(tx, operator.eq, [value, ConstantValue(False)]) if negated else value


def _kind(value: Value) -> type:
    return value.python_type()


def expr_of(tx: Tracer, value: Value) -> Expr:
    """A number as an expression, with what is known about it."""
    if isinstance(value, NumberValue):
        return tx.shape_env.replace(value.expr)
    return as_expr(value.as_constant())


def hint_of(value: Value) -> Any:
    """The present value of a number; None when it depends on data."""
    return value.hint if isinstance(value, NumberValue) else value.as_constant()


# Rules


def _plain(build: Callable[..., Expr]) -> Rule:
    """A rule without conditions."""
    return lambda tx, *operands: build(*operands)


def _division(build: Callable[..., Expr]) -> Rule:
    def rule(tx: Tracer, a: Expr, b: Expr) -> Expr:
        if not tx.symbols.holds(relations.ne(b, 0)):
            raise Raises
        return build(a, b)

    return rule


def _shift(build: Callable[..., Expr]) -> Rule:
    def rule(tx: Tracer, a: Expr, b: Expr) -> Expr | None:
        if a.kind == "float" or b.kind == "float" or not tx.symbols.holds(relations.ge(b, 0)):
            raise Raises
        return build(a, b)

    return rule


def _bitwise(build: Callable[..., Expr], of_truths: Callable[..., Expr]) -> Rule:
    def rule(tx: Tracer, a: Expr, b: Expr) -> Expr:
        if a.kind == "float" or b.kind == "float":
            raise Raises
        return of_truths(a, b) if a.kind == "bool" else build(a, b)

    return rule


def _power(tx: Tracer, a: Expr, b: Expr) -> Expr | None:
    if a.kind == "int" and b.kind == "int":
        if tx.symbols.holds(relations.ge(b, 0)):
            return arith.pow_by_natural(a, b)
        if not tx.symbols.holds(relations.ne(a, 0)):
            raise Raises
    if not isinstance(b, Const):
        return _exponential(tx, a, b)
    return arith.power(a, b) if _power_is_real(tx, a, float(b.value)) else None


def _power_is_real(tx: Tracer, a: Expr, exponent: float) -> bool:
    """Whether ``a ** exponent`` is a float: neither complex nor an exception."""
    if not abs(exponent) <= LARGEST_FLOAT:
        return False
    if not exponent.is_integer():
        if not tx.symbols.holds(relations.gt(a, 0)):
            return False
    elif exponent < 0 and not tx.symbols.holds(relations.ne(a, 0)):
        return False
    if 0 <= exponent <= 1 or (a.kind == "int" and abs(exponent) <= SAFE_EXPONENT):
        return True
    size = arith.absolute(a)
    bound = 10.0 ** (300 / exponent)
    return tx.symbols.holds(relations.le(size, bound) if exponent > 0 else relations.ge(size, bound))


def _exponential(tx: Tracer, a: Expr, b: Expr) -> Expr | None:
    """A positive float to the power of a number that is not too large, as in ``0.95 ** epoch``."""
    if not isinstance(a, Const) or a.kind != "float" or not 0 < a.value < LARGEST_FLOAT or a.value == 1:
        return None
    bound = 300 / abs(math.log10(a.value))
    small = tx.symbols.holds(relations.le(b, bound)) and tx.symbols.holds(relations.ge(b, -bound))
    return arith.power(a, arith.to_float(b)) if small else None


def _math_power(tx: Tracer, a: Expr, b: Expr) -> Expr | None:
    return _power(tx, arith.to_float(a), arith.to_float(b))


def _absolute(tx: Tracer, a: Expr) -> Expr:
    if a.kind == "int":
        known = tx.shape_env.decide(relations.ge(a, 0))
        if known is not None:
            return a if known else arith.neg(a)
    return arith.absolute(a)


def _extremum(build: Callable[..., Expr], beats: Callable[[Expr, Expr], Expr]) -> Rule:
    def rule(tx: Tracer, a: Expr, b: Expr) -> Expr | None:
        if a.kind != b.kind:
            return None
        if a.kind == "int":
            known = tx.shape_env.decide(beats(b, a))
            if known is not None:
                return b if known else a
            return build(a, b)
        if any(isinstance(number, Const) and number.value != number.value for number in (a, b)):
            return a  # nothing compares with what is no number: Python keeps the first
        return build(a, b)

    return rule


def _rounding(build: Callable[[Expr], Expr]) -> Rule:
    return lambda tx, a: build(a) if _is_finite(tx, a) else None


def _round(tx: Tracer, a: Expr, digits: Expr | None = None) -> Expr | None:
    if a.kind == "int":
        return a if digits is None or (isinstance(digits, Const) and digits.value >= 0) else None
    if digits is not None and not (isinstance(digits, Const) and digits.kind == "int"):
        return None
    return arith.round_(a, digits) if _is_finite(tx, a) else None


def _is_finite(tx: Tracer, a: Expr) -> bool:
    if a.kind == "int" or _largest(a) < LARGEST_FLOAT:
        return True
    return tx.symbols.holds(relations.le(arith.absolute(a), LARGEST_FLOAT))


def _largest(a: Expr) -> float:
    """A bound on the absolute value, with integers of 64 bits."""
    if isinstance(a, Const):
        return abs(float(a.value))
    if a.kind == "int":
        return 2.0**63
    if isinstance(a, Call):
        parts = [_largest(operand) for operand in a.operands]
        if a.op == "truediv" and a.operands[1].kind == "int":
            return parts[0]
        if a.op == "truediv" and isinstance(a.operands[1], Const):
            return parts[0] / parts[1]
        if a.op in ("fadd", "fsub"):
            return parts[0] + parts[1]
        if a.op == "fmul":
            return parts[0] * parts[1]
        if a.op in ("float", "fneg", "fabs"):
            return parts[0]
        if a.op in ("fmin", "fmax"):
            return max(parts)
        if a.op in ("sqrt", "log", "log2"):
            return max(parts[0], 1100.0)
    return math.inf


def _on_condition(build: Callable[[Expr], Expr], *conditions: Callable[[Expr], Expr]) -> Rule:
    def rule(tx: Tracer, a: Expr) -> Expr | None:
        return build(a) if all([tx.symbols.holds(condition(a)) for condition in conditions]) else None

    return rule


def _math_rules() -> dict[Any, Rule]:
    """Functions of the math module, each with the condition under which it does not raise."""
    def at_least(bound: float) -> Callable[[Expr], Expr]:
        return lambda a: relations.ge(a, bound)

    def at_most(bound: float) -> Callable[[Expr], Expr]:
        return lambda a: relations.le(a, bound)

    def positive(a: Expr) -> Expr:
        return relations.gt(a, 0)

    def finite(a: Expr) -> Expr:
        return relations.le(arith.absolute(a), LARGEST_FLOAT) if _largest(a) >= LARGEST_FLOAT else TRUE

    conditions: dict[str, list[Callable[[Expr], Expr]]] = {
        "sqrt": [at_least(0)], "log": [positive], "log2": [positive], "exp": [at_most(SAFE_LOGARITHM)],
        "sinh": [at_least(-SAFE_LOGARITHM), at_most(SAFE_LOGARITHM)],
        "cosh": [at_least(-SAFE_LOGARITHM), at_most(SAFE_LOGARITHM)],
        "asin": [at_least(-1), at_most(1)], "acos": [at_least(-1), at_most(1)],
        "sin": [finite], "cos": [finite], "tan": [finite],
    }

    def build(name: str) -> Callable[[Expr], Expr]:
        return lambda a: arith.math_call(name, a)

    return {getattr(math, name): _on_condition(build(name), *conditions.get(name, [])) for name in MATH_FUNCTIONS}


def _is_nan(a: Expr) -> Expr:
    return FALSE if a.kind == "int" else relations.ne(a, a)


def _is_infinite(a: Expr) -> Expr:
    return FALSE if a.kind == "int" else relations.eq(arith.absolute(a), math.inf)


def _not_infinite(a: Expr) -> Expr:
    return TRUE if a.kind == "int" else relations.le(arith.absolute(a), LARGEST_FLOAT)


RULES: dict[Any, Rule] = {
    operator.add: _plain(arith.add), operator.sub: _plain(arith.sub), operator.mul: _plain(arith.mul),
    operator.truediv: _division(arith.truediv), operator.floordiv: _division(arith.floordiv),
    operator.mod: _division(arith.mod), operator.pow: _power,
    operator.lshift: _shift(arith.lshift), operator.rshift: _shift(arith.rshift),
    operator.and_: _bitwise(arith.bitand, relations.and_), operator.or_: _bitwise(arith.bitor, relations.or_),
    operator.xor: _bitwise(arith.bitxor, relations.ne),
    operator.neg: _plain(arith.neg), operator.pos: _plain(lambda a: a),
    operator.eq: _plain(relations.eq), operator.ne: _plain(relations.ne), operator.lt: _plain(relations.lt),
    operator.le: _plain(relations.le), operator.gt: _plain(relations.gt), operator.ge: _plain(relations.ge),
    abs: _absolute, min: _extremum(arith.minimum, relations.lt), max: _extremum(arith.maximum, relations.gt),
    int: _rounding(arith.trunc), float: _plain(arith.to_float), round: _round,
    math.trunc: _rounding(arith.trunc), math.floor: _rounding(arith.floor), math.ceil: _rounding(arith.ceil),
    math.pow: _math_power, math.fabs: _plain(lambda a: arith.absolute(arith.to_float(a))),
    math.isnan: _plain(_is_nan), math.isinf: _plain(_is_infinite), math.isfinite: _plain(_not_infinite),
    **_math_rules(),
}
# Functions that give a truth value for truth values.
LOGIC = frozenset({operator.and_, operator.or_, operator.xor, operator.eq, operator.ne})
# What the graph calls: Python's own functions would ask a symbolic number for its value.
RECORDED: dict[Any, Any] = {
    min: torch.sym_min, max: torch.sym_max, int: torch.sym_int, float: torch.sym_float, math.sqrt: torch.sym_sqrt,
}


def specialize_within(tx: Tracer, value: Value) -> None:
    """Make constants of the numbers in a value and in the sequences it consists of."""
    value = value.realize()
    if isinstance(value, NumberValue):
        value.specialize(tx)
    elif isinstance(value, (TupleValue, ListValue)):
        for item in value.items or ():
            if item is not value:
                specialize_within(tx, item)
    elif isinstance(value, SliceValue):
        for part in value.parts:
            specialize_within(tx, part)
    elif isinstance(value, DictValue):
        for _, item in value.items.values():
            specialize_within(tx, item)


# Methods of int and float


_UNARY_METHODS: dict[str, Any] = {
    "__neg__": operator.neg, "__pos__": operator.pos, "__abs__": abs, "__int__": int, "__trunc__": int,
    "__float__": float, "__floor__": math.floor, "__ceil__": math.ceil, "conjugate": operator.pos, "__index__": int,
    "__round__": round,
}
_BINARY_METHODS: dict[str, Any] = {
    **{f"__{name.strip('_')}__": getattr(operator, name) for name in
       ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor",
        "eq", "ne", "lt", "le", "gt", "ge")},
}


def call_method(tx: Tracer, number: NumberValue, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A method of a number."""
    args = [arg.realize() for arg in args]
    kind = number.python_type()
    if not kwargs:
        if not args and name in _UNARY_METHODS:
            return apply(tx, _UNARY_METHODS[name], [number])
        if not args and name == "__bool__":
            return truth_value(tx, number)
        if not args and name == "is_integer" and kind is float and _is_finite(tx, expr_of(tx, number)):
            return apply(tx, operator.eq, [apply(tx, math.floor, [number]), number])
        if not args and name == "__invert__":
            return invert(tx, number)
        if len(args) == 1 and is_number(args[0]) and (kind is float or args[0].python_type() is not float):
            if name in _BINARY_METHODS:
                return apply(tx, _BINARY_METHODS[name], [number, args[0]])
            direct = "__" + name[3:]
            if name.startswith("__r") and direct in _BINARY_METHODS:
                return apply(tx, _BINARY_METHODS[direct], [args[0], number])
    return number.specialize(tx).call_method(tx, name, args, kwargs)


def invert(tx: Tracer, number: Value) -> Value:
    """``~number``, which graphs spell as a subtraction."""
    if number.python_type() is float:
        return fold(tx, operator.invert, [number])
    return apply(tx, operator.sub, [ConstantValue(-1), number])


def call(tx: Tracer, function: Any, args: list[Value]) -> Value | None:
    """Call a pure function on numbers; None when there is no number of the graph among them, or no rule."""
    args = [arg.realize() for arg in args]
    if not (callable(function) and getattr(function, "__hash__", None)) or function not in RULES:
        return None
    if not any(isinstance(arg, NumberValue) for arg in args) or not all(is_number(arg) for arg in args):
        return None
    if function is math.log and len(args) > 1:
        return None
    return apply(tx, function, args)
