"""The table of operations that a `Call` node may carry: how each is computed and how it is rebuilt.

Adding an operation means one row here, a constructor in `arithmetic` or `relations`, and, where something better than
"unbounded" can be said, a rule in `ranges`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from firesteel.shapes import arithmetic, relations
from firesteel.shapes.expr import Call, Expr, Scalar

from ..records import dataclass


@dataclass(frozen=True, slots=True)
class Operation:
    """`compute` works on Python values, `build` on expressions (and normalises)."""

    compute: Callable[..., Scalar]
    build: Callable[..., Expr]


def _if_else(condition: Scalar, then: Scalar, otherwise: Scalar) -> Scalar:
    return then if condition else otherwise


def _all(*values: Scalar) -> bool:
    return all(values)


def _any(*values: Scalar) -> bool:
    return any(values)


OPERATIONS: dict[str, Operation] = {
    # integers
    "floordiv": Operation(operator.floordiv, arithmetic.floordiv),
    "mod": Operation(operator.mod, arithmetic.mod),
    "min": Operation(min, arithmetic.minimum),
    "max": Operation(max, arithmetic.maximum),
    "pow": Operation(operator.pow, arithmetic.pow_by_natural),
    "mul": Operation(operator.mul, arithmetic.mul),
    "abs": Operation(abs, arithmetic.absolute),
    "lshift": Operation(operator.lshift, arithmetic.lshift),
    "rshift": Operation(operator.rshift, arithmetic.rshift),
    "bitand": Operation(operator.and_, arithmetic.bitand),
    "bitor": Operation(operator.or_, arithmetic.bitor),
    "bitxor": Operation(operator.xor, arithmetic.bitxor),
    # floats, and mixtures of ints and floats: computed in the order written, never reassociated
    "fadd": Operation(operator.add, arithmetic.add),
    "fsub": Operation(operator.sub, arithmetic.sub),
    "fmul": Operation(operator.mul, arithmetic.mul),
    "fneg": Operation(operator.neg, arithmetic.neg),
    "fabs": Operation(abs, arithmetic.absolute),
    "ffloordiv": Operation(operator.floordiv, arithmetic.floordiv),
    "fmod": Operation(operator.mod, arithmetic.mod),
    "fpow": Operation(operator.pow, arithmetic.power),
    "fmin": Operation(min, arithmetic.minimum),
    "fmax": Operation(max, arithmetic.maximum),
    "truediv": Operation(operator.truediv, arithmetic.truediv),
    # conversions
    "float": Operation(float, arithmetic.to_float),
    "floor": Operation(math.floor, arithmetic.floor),
    "ceil": Operation(math.ceil, arithmetic.ceil),
    "trunc": Operation(math.trunc, arithmetic.trunc),
    "round": Operation(round, arithmetic.round_),
    "ifelse": Operation(_if_else, relations.if_else),
    # comparisons; those of integers are against zero
    "eq0": Operation(lambda value: value == 0, relations.eq_zero),
    "ne0": Operation(lambda value: value != 0, relations.ne_zero),
    "ge0": Operation(lambda value: value >= 0, relations.ge_zero),
    "eq": Operation(operator.eq, relations.eq),
    "ne": Operation(operator.ne, relations.ne),
    "lt": Operation(operator.lt, relations.lt),
    "le": Operation(operator.le, relations.le),
    "is_integer": Operation(lambda value: float(value).is_integer(), arithmetic.is_integer),
    # logic
    "not": Operation(operator.not_, relations.not_),
    "and": Operation(_all, relations.and_),
    "or": Operation(_any, relations.or_),
}


def _math_operation(name: str) -> Operation:
    function = getattr(math, name)

    def build(operand: Expr) -> Expr:
        return arithmetic.math_call(name, operand)

    return Operation(function, build)


MATH_FUNCTIONS = frozenset(
    ["sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "exp", "log", "log2", "erf"]
)
OPERATIONS.update({name: _math_operation(name) for name in MATH_FUNCTIONS})


def compute(op: str, values: list[Scalar]) -> Scalar:
    """The operation on Python values."""
    return OPERATIONS[op].compute(*values)


def build(op: str, operands: tuple[Expr, ...]) -> Expr:
    """The operation on expressions, normalised."""
    return OPERATIONS[op].build(*operands)


def evaluate(call: Call, value_of: Callable[[Expr], Scalar]) -> Scalar:
    """The value of an operation; logic and choices look only at the operands that Python would look at."""
    op, operands = call.op, call.operands
    if op in ("and", "or"):
        return _junction(operands, value_of, absorbing=op == "or")
    if op == "ifelse":
        return value_of(operands[1] if value_of(operands[0]) else operands[2])
    return OPERATIONS[op].compute(*[value_of(operand) for operand in operands])


def _junction(operands: tuple[Expr, ...], value_of: Callable[[Expr], Scalar], absorbing: bool) -> bool:
    # The operands lost the order they were written in, so one may raise that Python would not have come to.
    failed: ArithmeticError | ValueError | None = None
    for operand in operands:
        try:
            if bool(value_of(operand)) is absorbing:
                return absorbing
        except (ArithmeticError, ValueError) as error:
            failed = error
    if failed is not None:
        raise failed
    return not absorbing
