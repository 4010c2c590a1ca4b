"""Index expressions as code: hoisted by what they depend on, and taken apart along the vectorised axis."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch

from ...functional.graph import Unsupported
from ...shapes import Call, Const, Expr, Product, Sum, Symbol, as_expr, polynomials
from ...shapes.expr import ZERO
from ...shapes.relations import sides
from ..signs import may_be_negative
from .constant_division import floored, has_reciprocal, splat_number
from .operands import Operand
from .scopes import Emitter

COMPARISONS = {"eq0": "eq", "ne0": "ne", "ge0": "sge"}
BINARY = {"bitand": "and", "bitor": "or", "bitxor": "xor", "lshift": "shl", "rshift": "ashr"}


def largest_constant(expr: Expr) -> int:
    """The largest absolute value of a number in an expression, without those that a smaller one limits.

    >>> from ...shapes import minimum, symbol
    >>> i = symbol("i")
    >>> largest_constant((3 * i + 2) % 7), largest_constant(minimum(i, 2**63 - 1) + 2)
    (7, 2)
    """
    if isinstance(expr, Const):
        return abs(int(expr.value))
    parts = [largest_constant(part) for part in expr.args]
    if isinstance(expr, Call) and expr.op == "min":
        return min(parts)
    own = [abs(expr.const), *[abs(factor) for _, factor in expr.terms]] if isinstance(expr, Sum) else []
    return max([0, *own, *parts])


def split(index: Expr, axis: Symbol, varying: Collection[Symbol] = ()) -> tuple[Expr, Expr] | None:
    """``(c, rest)`` with ``index == c*axis + rest``, both the same in all lanes; None if there are none.

    `varying` are other symbols that differ between lanes.

    >>> from ...shapes import symbol
    >>> i, s = symbol("i"), symbol("s")
    >>> split(s * i + 3, i), split(i * i, i)
    ((s, 3), None)
    """
    symbols = index.free_symbols
    if varying and not symbols.isdisjoint(varying):
        return None
    coefficient: Expr = ZERO
    if axis not in symbols:
        return coefficient, index
    constant, terms = polynomials.parts(index)
    rest: dict[Expr, int] = {}
    for monomial, factor in terms:
        if axis not in monomial.free_symbols:
            rest[monomial] = factor
        elif monomial is axis:
            coefficient = coefficient + factor
        elif isinstance(monomial, Product):
            other = as_expr(factor)
            for base, exponent in monomial.factors:
                if base is axis and exponent == 1:
                    continue
                if axis in base.free_symbols:
                    return None
                other = other * base**exponent
            coefficient = coefficient + other
        else:
            return None
    return coefficient, polynomials.from_terms(constant, rest)


class IndexEmitter(Emitter):
    """Computes index expressions."""

    def index(self, expr: Expr, indirect: Mapping[Symbol, Operand] | None = None) -> Operand:
        """The value of an expression, in every lane if it differs between lanes."""
        if isinstance(expr, Const):
            return Operand(str(int(expr.value)), torch.int64, 1)
        if isinstance(expr, Symbol):
            return self._symbol(expr, indirect)
        uses_indirect = indirect is not None and any(symbol in expr.free_symbols for symbol in indirect)
        if uses_indirect:
            return self._compute_index(expr, indirect)
        level = self.level(expr.free_symbols)
        operand = self.scopes[level].found.get(expr)
        if operand is None:
            with self.at(level):
                operand = self._compute_index(expr, None)
            self.scopes[level].found[expr] = operand
        return operand

    def level(self, names: Collection[object]) -> int:
        """The innermost scope that one of these is bound in."""
        levels = self.levels
        return max([levels.get(name, 0) for name in names], default=0)

    def _symbol(self, symbol: Symbol, indirect: Mapping[Symbol, Operand] | None) -> Operand:
        if indirect is not None and symbol in indirect:
            return indirect[symbol]
        try:
            operand = self.symbols[symbol]
        except KeyError:
            raise Unsupported(f"the symbol {symbol} is neither a parameter nor a loop of the kernel") from None
        if symbol is not self.axis or self.lanes == 1:
            return operand
        level = self.levels[symbol]
        key = ("lanes of", symbol)
        known = self.scopes[level].found.get(key)
        if known is None:
            with self.at(level):
                known = self.binary("add", self.splat(operand, self.lanes), self.iota(self.lanes))
            self.scopes[level].found[key] = known
        return known

    def _compute_index(self, expr: Expr, indirect: Mapping[Symbol, Operand] | None) -> Operand:
        if isinstance(expr, Sum):
            return self._sum(expr, indirect)
        if isinstance(expr, Product):
            result: Operand | None = None
            for base, exponent in expr.factors:
                factor = self.index(base, indirect)
                for _ in range(exponent):
                    result = factor if result is None else self.arithmetic("mul", result, factor)
            assert result is not None
            return result
        assert isinstance(expr, Call)
        if expr.op in COMPARISONS:
            left, right = [self.index(side, indirect) for side in sides(expr.operands[0])]
            return self.compare(COMPARISONS[expr.op], *self.same_lanes(left, right))
        operands = [self.index(operand, indirect) for operand in expr.operands]
        match expr.op:
            case "floordiv" | "mod":
                return self.floor_division(expr.op, operands[0], operands[1],
                                           all(map(self.nonnegative, expr.operands)), self._fits_double(expr))
            case "min" | "max":
                result = operands[0]
                for other in operands[1:]:
                    result, other = self.same_lanes(result, other)
                    result = self.intrinsic("smin" if expr.op == "min" else "smax", result, other)
                return result
            case "mul":
                return self.arithmetic("mul", *operands)
            case "abs":
                value = operands[0]
                zero = self.constant(0, torch.int64, value.lanes)
                return self.select(self.compare("slt", value, zero), self.binary("sub", zero, value), value)
            case "ifelse":
                condition, then, otherwise = operands
                lanes = max(operand.lanes for operand in operands)
                condition = self.splat(self.truth(condition), lanes)
                return self.select(condition, self.splat(then, lanes), self.splat(otherwise, lanes))
            case "not":
                value = self.truth(operands[0])
                return self.binary("xor", value, self.constant(True, torch.bool, value.lanes))
            case "and" | "or":
                result = self.truth(operands[0])
                for other in operands[1:]:
                    result, other = self.same_lanes(result, self.truth(other))
                    result = self.binary(expr.op, result, other)
                return result
            case op if op in BINARY:
                return self.arithmetic(BINARY[op], *operands)
        raise Unsupported(f"{expr.op} in an index: {expr}")

    def truth(self, value: Operand) -> Operand:
        if value.dtype is torch.bool:
            return value
        return self.compare("ne", value, self.constant(0, value.dtype, value.lanes))

    def _sum(self, expr: Sum, indirect: Mapping[Symbol, Operand] | None) -> Operand:
        """The terms that change least come first, so that their sum is computed where they are."""
        order = sorted(expr.terms, key=lambda term: self.level(term[0].free_symbols))
        result: Operand | None = None
        if expr.const:
            result = Operand(str(expr.const), torch.int64, 1)
        for monomial, coefficient in order:
            value = self.index(monomial, indirect)
            scope = self.place if indirect is not None else min(
                self.place, max(value.scope, result.scope if result is not None else 0))
            with self.at(scope):
                if coefficient != 1:
                    value = self.arithmetic("mul", value, self.integer(coefficient))
                result = value if result is None else self.arithmetic("add", result, value)
        assert result is not None
        return result

    def same_lanes(self, left: Operand, right: Operand) -> tuple[Operand, Operand]:
        lanes = max(left.lanes, right.lanes)
        return self.splat(left, lanes), self.splat(right, lanes)

    def arithmetic(self, instruction: str, left: Operand, right: Operand) -> Operand:
        left, right = self.same_lanes(left, right)
        return self.binary(instruction, left, right)

    def nonnegative(self, expr: Expr) -> bool:
        """Whether an expression is known not to be negative: loop variables and most parameters are not."""
        return not may_be_negative(expr, lambda symbol: symbol in self.symbols and symbol not in self.signed)

    def _fits_double(self, expr: Expr) -> bool:
        """Whether an expression consists of loop variables and sizes, which memory keeps far below 2**52.

        An integer that the program was given may be anything.
        """
        return (all(symbol in self.symbols and symbol not in self.signed for symbol in expr.free_symbols)
                and largest_constant(expr) < 2**48)

    def floor_division(self, op: str, left: Operand, right: Operand, positive: bool, small: bool) -> Operand:
        """Quotient or remainder rounded down, as Python's. `positive`: neither operand is negative; `small`: they are
        below 2**52."""
        if not right.is_constant and right.lanes == 1:
            # A size that is 0 divides nothing that is used, but the division may stand in front of the empty loop.
            with self.at(right.scope):
                none = self.compare("eq", right, self.constant(0, right.dtype))
                right = self.select(none, self.constant(1, right.dtype), right)
        left, right = self.same_lanes(left, right)
        if positive:
            if left.lanes > 1 and left.dtype is torch.int64 and small:
                return self._vector_division(op, left, right)
            return self.binary("udiv" if op == "floordiv" else "urem", left, right)
        zero = self.constant(0, left.dtype, left.lanes)
        rest = self.binary("srem", left, right)
        # The remainder must have the divisor's sign.
        wrong = self.binary("and", self.compare("ne", rest, zero),
                            self.compare("slt", self.binary("xor", rest, right), zero))
        if op == "mod":
            return self.binary("add", rest, self.select(wrong, right, zero))
        quotient = self.binary("sdiv", left, right)
        return self.binary("add", quotient, self.convert("sext", wrong, left.dtype))

    def _vector_division(self, op: str, left: Operand, right: Operand) -> Operand:
        """Division of vectors, for which CPUs have no instruction: by a multiplication, or in double precision.

        Below 2**52 it is exact: a quotient that is no integer is further from the next one than rounding can move it.
        Adding 2**52 to a double leaves an integer in its lower bits.
        """
        lanes = left.lanes
        divisor = splat_number(right)
        if divisor is not None and divisor & (divisor - 1) == 0:
            if op == "mod":
                return self.binary("and", left, self.constant(divisor - 1, torch.int64, lanes))
            return self.binary("lshr", left, self.constant(divisor.bit_length() - 1, torch.int64, lanes))
        if divisor is not None and has_reciprocal(divisor):
            quotient = floored(self, left, divisor, nonnegative=True)
            return quotient if op == "floordiv" else self.binary("sub", left, self.binary("mul", quotient, right))
        bits, shift = 0x4330000000000000, self.constant(2.0**52, torch.float64, lanes)

        def double(value: Operand) -> Operand:
            raised = self.binary("or", value, self.constant(bits, torch.int64, lanes))
            return self.binary("fsub", self.convert("bitcast", raised, torch.float64), shift)

        exact = self.intrinsic("floor", self.binary("fdiv", double(left), double(right)))
        raised = self.convert("bitcast", self.binary("fadd", exact, shift), torch.int64)
        quotient = self.binary("xor", raised, self.constant(bits, torch.int64, lanes))
        if op == "floordiv":
            return quotient
        return self.binary("sub", left, self.binary("mul", quotient, right))
