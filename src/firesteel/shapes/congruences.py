"""Divisibility: what is known of an integer expression modulo something.

`Congruence(m, r)` says that a value is `r` plus a multiple of `m`; a modulus of 0 says that the value is `r`, a modulus
of 1 says nothing. From congruences of symbols (`s0 % 8 == 0`) those of expressions follow operation by operation.

    >>> from firesteel.shapes.expr import symbol
    >>> s0, s1 = symbol("s0"), symbol("s1")
    >>> known = Congruences()
    >>> _ = known.learn(s0, Congruence(8, 4))
    >>> known.of(3 * s0 * s1), known.of(s0 // 4), known.of(2 * s0 + 16 * s1 + 1)
    (Congruence(modulus=12, residue=0), Congruence(modulus=2, residue=1), Congruence(modulus=16, residue=9))
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from firesteel.shapes import polynomials
from firesteel.shapes.expr import Call, Const, Expr, Product, Sum
from firesteel.shapes.ranges import INF, Interval


class Congruence(NamedTuple):
    """The value is `residue` plus a multiple of `modulus`."""

    modulus: int
    residue: int

    @property
    def divisor(self) -> int:
        """The largest number that divides every such value; 0 when the value is 0."""
        return math.gcd(self.modulus, self.residue)

    def allows(self, value: int) -> bool:
        """Whether the value may be this."""
        return (value - self.residue) % self.modulus == 0 if self.modulus else value == self.residue

    def __add__(self, other: object) -> Congruence:
        assert isinstance(other, Congruence)
        return _reduced(math.gcd(self.modulus, other.modulus), self.residue + other.residue)

    def __mul__(self, other: object) -> Congruence:
        assert isinstance(other, Congruence)
        (m, r), (n, s) = self, other
        # (m*a + r) * (n*b + s)
        return _reduced(math.gcd(m * n, m * s, n * r), r * s)

    def join(self, other: Congruence) -> Congruence:
        """What is true of values of either kind."""
        return _reduced(math.gcd(self.modulus, other.modulus, self.residue - other.residue), self.residue)

    def meet(self, other: Congruence) -> Congruence | None:
        """What is true of values of both kinds; None when there are none."""
        (m, r), (n, s) = self, other
        if m == 1:
            return other
        if n == 1:
            return self
        if not m or not n:
            exact, wider = (self, other) if not m else (other, self)
            return exact if wider.allows(exact.residue) else None
        common = math.gcd(m, n)
        if (s - r) % common:
            return None
        # r + m*k = s modulo n
        k = (s - r) // common * pow(m // common, -1, n // common)
        return _reduced(m // common * n, r + m * k)

    def narrow(self, interval: Interval) -> Interval:
        """The interval without ends that are not allowed."""
        lower, upper = interval.lower, interval.upper
        if self.modulus > 1:
            if lower != -INF:
                lower = int(lower) + (self.residue - int(lower)) % self.modulus
            if upper != INF:
                upper = int(upper) - (int(upper) - self.residue) % self.modulus
        return Interval(lower, upper, interval.nan)


def _reduced(modulus: int, residue: int) -> Congruence:
    return Congruence(modulus, residue % modulus if modulus else residue)


NOTHING = Congruence(1, 0)


class Congruences:
    """Congruences of primitive polynomials (no constant, coprime coefficients), and what follows from them."""

    def __init__(self) -> None:
        self.known: dict[Expr, Congruence] = {}
        self._memo: dict[Expr, Congruence] = {}

    def copy(self) -> Congruences:
        """An independent copy."""
        new = Congruences()
        new.known = dict(self.known)
        return new

    def learn(self, expr: Expr, congruence: Congruence) -> Expr | None:
        """State a congruence; gives the primitive polynomial it is about when that is news.

        Raises ValueError when it cannot be true together with what is known.
        """
        part, k, constant = polynomials.primitive(expr)
        # k*part = residue - constant modulo d
        d, r = congruence.modulus, congruence.residue - constant
        common = math.gcd(k, d)
        if r % common:
            raise ValueError(f"{expr} cannot be {congruence.residue} modulo {d}")
        modulus = d // common
        if modulus <= 1:
            return None
        new = _reduced(modulus, r // common * pow(k // common, -1, modulus))
        old = self.known.get(part, NOTHING)
        both = old.meet(new)
        if both is None:
            raise ValueError(f"{part} cannot be {new.residue} modulo {modulus} and {old.residue} modulo {old.modulus}")
        if both == old:
            return None
        self.known[part] = both
        self._memo.clear()
        return part

    def substitute(self, one: Mapping[Expr, Expr]) -> list[Expr]:
        """Apply a replacement to everything known; gives the polynomials about which something is news."""
        changed = []
        for part, congruence in list(self.known.items()):
            new = part.substitute(one)
            if new is not part:
                del self.known[part]
                if isinstance(new, Const):
                    if not congruence.allows(int(new.value)):
                        raise ValueError(f"{part} cannot be {new}")
                elif (news := self.learn(new, congruence)) is not None:
                    changed.append(news)
        self._memo.clear()
        return changed

    def of(self, expr: Expr) -> Congruence:
        """The strongest congruence found for an expression of integers."""
        congruence = self._memo.get(expr)
        if congruence is None:
            congruence = self._compute(expr)
            known = self.known.get(expr)
            if known is not None:
                congruence = congruence.meet(known) or congruence  # no value is possible: anything is right
            self._memo[expr] = congruence
        return congruence

    def _compute(self, expr: Expr) -> Congruence:
        match expr:
            case Const():
                return Congruence(0, int(expr.value))
            case Sum():
                result = Congruence(0, expr.const)
                for monomial, coefficient in expr.terms:
                    inner = self.of(monomial)
                    result = result + Congruence(abs(coefficient) * inner.modulus, coefficient * inner.residue)
                if self.known:
                    part, factor, constant = polynomials.primitive(expr)
                    known = self.known.get(part)
                    if known is not None:
                        whole = _reduced(abs(factor) * known.modulus, factor * known.residue + constant)
                        result = result.meet(whole) or result
                return result
            case Product():
                result = Congruence(0, 1)
                for base, exponent in expr.factors:
                    inner = self.of(base)
                    for _ in range(exponent):
                        result = result * inner
                return result
            case Call() if expr.kind == "int":
                return self._call(expr)
        return NOTHING

    def _call(self, call: Call) -> Congruence:
        operands = call.operands
        match call.op:
            case "floordiv" if isinstance(operands[1], Const) and operands[1].value:
                m, r = self.of(operands[0])
                d = int(operands[1].value)
                return _reduced(m // d, r // d) if m % d == 0 else NOTHING
            case "mod" if isinstance(operands[1], Const) and operands[1].value:
                m, r = self.of(operands[0])
                d = int(operands[1].value)
                return Congruence(0, r % d) if m % d == 0 else _reduced(math.gcd(m, d), r)
            case "mod":
                # x % y is x minus a multiple of y
                step = self.of(operands[1]).divisor
                return self.of(operands[0]) + Congruence(step, 0)
            case "min" | "max":
                result = self.of(operands[0])
                for operand in operands[1:]:
                    result = result.join(self.of(operand))
                return result
            case "ifelse":
                return self.of(operands[1]).join(self.of(operands[2]))
            case "abs":
                m, r = self.of(operands[0])
                return _reduced(m, r).join(_reduced(m, -r))
            case "mul":
                return self.of(operands[0]) * self.of(operands[1])
        return NOTHING
