"""From conditions on sizes and integers to rows of the native checker.

A condition is a shape expression. Its integer part (polynomials, floor division, remainder, min, max, choices,
comparisons and logic) becomes rows over numbers; floats, powers, shifts and bits stay Python. Rows are computed without
looking at the others' results, so ``y == 0 or x % y == 0`` refuses where y is 0, and Python decides.
"""

from __future__ import annotations

from collections.abc import Callable

from ..native.program import Op, Program
from . import Call, Const, Expr, Product, Sum, Symbol

LARGEST_POWER = 8
WIDE = range(-(1 << 63), 1 << 63)
BINARY = {"floordiv": Op.FLOORDIV, "mod": Op.MOD, "mul": Op.MULTIPLY, "min": Op.MIN, "max": Op.MAX}
CHECKS = {"eq0": Op.EQUAL, "ne0": Op.DIFFERENT, "ge0": Op.AT_LEAST}


class OnlyInPython(Exception):
    """Something that the checker has no rows for."""


class Expressions:
    """Adds expressions to a program, each subexpression once. `read` gives the register of a symbol's number."""

    def __init__(self, program: Program, read: Callable[[Symbol], int]) -> None:
        self.program = program
        self.read = read
        self.known: dict[Expr, int] = {}

    def check(self, condition: Expr) -> None:
        """Add the check that a condition holds."""
        if isinstance(condition, Call) and condition.op == "and":
            for part in condition.operands:
                self.check(part)
        elif isinstance(condition, Call) and condition.op in CHECKS:
            # p + c >= 0 -> p >= -c
            constant, rest = self.without_constant(condition.operands[0])
            self.program.check(CHECKS[condition.op], rest, b=constant)
        else:
            self.program.check(Op.DIFFERENT, self.number(condition))

    def without_constant(self, expr: Expr) -> tuple[int, int]:
        """For ``p + c`` the number -c and the register of p."""
        if not isinstance(expr, Sum):
            return 0, self.number(expr)
        return wide(-expr.const), self.terms(expr, 0)

    def number(self, expr: Expr) -> int:
        """The register of an expression's value; the truth of a condition is 0 or 1."""
        known = self.known.get(expr)
        if known is None:
            known = self.known[expr] = self._number(expr)
        return known

    def _number(self, expr: Expr) -> int:
        if expr.kind == "float":
            raise OnlyInPython
        match expr:
            case Symbol():
                return self.read(expr)
            case Const():
                return self.program.load(Op.CONSTANT, a=wide(int(expr.value)))
            case Sum():
                return self.terms(expr, expr.const)
            case Product():
                if any(exponent > LARGEST_POWER for _, exponent in expr.factors):
                    raise OnlyInPython
                return self.chain(Op.MULTIPLY, [self.number(base) for base, exponent in expr.factors
                                                for _ in range(exponent)])
            case Call():
                return self.call(expr)
        raise OnlyInPython

    def terms(self, expr: Sum, constant: int) -> int:
        """The terms of a polynomial plus a constant."""
        (first, coefficient), *others = expr.terms
        result = self.number(first)
        if coefficient != 1 or constant:
            result = self.program.load(Op.SCALE, result, wide(coefficient), wide(constant))
        for term, coefficient in others:
            result = self.program.load(Op.ADD_SCALED, self.number(term), wide(coefficient), index=result)
        return result

    def chain(self, op: Op, registers: list[int]) -> int:
        """An associative operation on several numbers."""
        result = registers[0]
        for register in registers[1:]:
            result = self.program.load(op, result, index=register)
        return result

    def call(self, expr: Call) -> int:
        op, operands, load = expr.op, expr.operands, self.program.load
        if op in BINARY:
            return self.chain(BINARY[op], [self.number(operand) for operand in operands])
        if op in CHECKS:
            constant, rest = self.without_constant(operands[0])
            value = load(Op.IS_AT_LEAST if op == "ge0" else Op.IS_EQUAL, rest, b=constant)
            return self.negated(value) if op == "ne0" else value
        if op in ("eq", "ne") and all(operand.kind == "bool" for operand in operands):
            left, right = (self.number(operand) for operand in operands)
            value = load(Op.IS_EQUAL, load(Op.ADD_SCALED, left, -1, index=right))
            return self.negated(value) if op == "ne" else value
        if op == "abs":
            value = self.number(operands[0])
            return load(Op.MAX, value, index=load(Op.SCALE, value, -1))
        if op == "not":
            return self.negated(self.number(operands[0]))
        if op in ("and", "or"):
            return self.chain(Op.MIN if op == "and" else Op.MAX, [self.number(operand) for operand in operands])
        if op == "ifelse":
            test, then, otherwise = (self.number(operand) for operand in operands)
            return load(Op.CHOOSE, test, b=otherwise, index=then)
        raise OnlyInPython

    def negated(self, truth: int) -> int:
        return self.program.load(Op.IS_EQUAL, truth)


def wide(value: int) -> int:
    """A constant that a row can hold."""
    if value not in WIDE:
        raise OnlyInPython
    return value
