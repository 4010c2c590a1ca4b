"""Proofs that a polynomial is never negative, from known inequalities and from what operations mean.

Four methods, cheapest first:

1. interval arithmetic;
2. positivity: with every indeterminate written as its lower bound plus something not negative, all coefficients are
   positive (`s0*s1 - s0 >= 0` when both are at least 1);
3. subtracting multiples of known inequalities, a few deep (`s0 >= s2` from `s0 >= s1` and `s1 >= s2`), where floor
   division, modulo, min and max bring the inequalities that define them;
4. cases: `min(a, b)` is one of the two, so what holds for both holds for it.

The search has a budget: it is incomplete on purpose, and small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from firesteel.shapes import polynomials
from firesteel.shapes.arithmetic import floordiv, mod, mul
from firesteel.shapes.expr import ONE, ZERO, Call, Const, Expr, Product, Sum, make_call, make_product
from firesteel.shapes.ranges import INF, Interval

if TYPE_CHECKING:
    from firesteel.shapes.facts import Facts

_DEPTH = 2
_MAX_STEPS = 40
_MAX_POSITIVITY_TERMS = 12


def proves_nonnegative(polynomial: Expr, facts: Facts, depth: int = _DEPTH) -> bool:
    """Whether `polynomial >= 0` follows from the facts, wherever the polynomial has a value."""
    if _Search(facts, polynomial).is_nonnegative(polynomial, depth):
        return True
    expanded = expand_remainders(polynomial, facts)
    if polynomials.term_count(expanded) >= polynomials.term_count(polynomial):
        return False  # nothing cancelled
    return _Search(facts, expanded).is_nonnegative(expanded, _DEPTH)


class _Search:
    def __init__(self, facts: Facts, goal: Expr) -> None:
        self.facts = facts
        self.inequalities = facts.usable(goal)
        self.interval = facts.ranges.interval
        self.steps = _MAX_STEPS

    def is_nonnegative(self, polynomial: Expr, depth: int) -> bool:
        if self.interval(polynomial).lower >= 0:
            return True
        if isinstance(polynomial, Const):
            return False
        if positive_after_shift(polynomial, self.facts):
            return True
        if depth == 0:
            return False
        return self._by_subtraction(polynomial, depth) or self._by_cases(polynomial, depth)

    def _by_subtraction(self, polynomial: Expr, depth: int) -> bool:
        terms = polynomials.parts(polynomial)[1]
        coefficients = dict(terms)
        for known in self._related(terms):
            for monomial, k in polynomials.parts(known)[1]:
                c = coefficients.get(monomial, 0)
                if c * k <= 0:
                    continue
                self.steps -= 1
                if self.steps < 0:
                    return False
                # m*p - n*known, with m and n positive, no longer has this monomial; if it is > -m, then p > -1.
                divisor = math.gcd(c, k)
                m, n = abs(k) // divisor, abs(c) // divisor
                rest = polynomials.add(polynomials.scale(polynomial, m), polynomials.scale(known, -n))
                if self.is_nonnegative(polynomials.add_const(rest, m - 1), depth - 1):
                    return True
        return False

    def _by_cases(self, polynomial: Expr, depth: int) -> bool:
        for monomial, coefficient in polynomials.parts(polynomial)[1]:
            for atom in polynomials.bases(monomial):
                if not isinstance(atom, Call) or not (cases := _values(atom)):
                    continue
                if atom is monomial and atom.op == ("max" if coefficient > 0 else "min"):
                    continue  # any one of the operands would do, and subtraction has tried them
                self.steps -= 1
                return self.steps >= 0 and all(
                    self.is_nonnegative(polynomial.substitute({atom: case}), depth - 1) for case in cases
                )
        return False

    def _related(self, terms: polynomials.Terms) -> Iterator[Expr]:
        """Polynomials known to be >= 0 that may help with these terms."""
        for monomial, coefficient in terms:
            for atom, _ in polynomials.factors_of(monomial):
                if isinstance(atom, Call):
                    others = _without(monomial, atom)
                    if others is ONE or self.interval(others).lower >= 0:
                        for known in self._defining(atom, positive=coefficient > 0):
                            yield known if others is ONE else mul(known, others)
        monomials = {monomial for monomial, _ in terms}
        for known in self.inequalities:
            if any([monomial in monomials for monomial, _ in polynomials.parts(known)[1]]):
                yield known
        for monomial, _ in terms:
            if isinstance(monomial, Product):
                yield from self._scaled(monomial)

    def _scaled(self, monomial: Product) -> Iterator[Expr]:
        """Known inequalities about a factor of the monomial, times its other factors."""
        for atom, _ in monomial.factors:
            others = _without(monomial, atom)
            for known in self.inequalities:
                if any([part is atom for part, _ in polynomials.parts(known)[1]]) and self.interval(others).lower >= 0:
                    yield mul(known, others)

    def _defining(self, atom: Call, positive: bool) -> Iterator[Expr]:
        """Inequalities that hold for an operation because of what it is."""
        operands = atom.operands
        if atom.op in ("min", "max"):
            sign = 1 if atom.op == "max" else -1
            if (sign > 0) == positive:
                for operand in operands:
                    yield polynomials.scale(polynomials.add(atom, polynomials.scale(operand, -1)), sign)
        elif atom.op == "floordiv" and self._is_divisor(operands[1]):
            # x == d*q + x % d, and the remainder has bounds
            x, d = operands
            remainder = self.facts.replace(mod(x, d))
            difference = polynomials.add(x, polynomials.scale(mul(d, atom), -1))
            if isinstance(d, Const) or remainder is ZERO:
                yield from bound_polynomials(difference, self.interval(remainder))
            else:
                yield difference
                yield polynomials.add_const(polynomials.add(d, polynomials.scale(difference, -1)), -1)
        elif atom.op == "mod" and self._is_divisor(operands[1]):
            x, d = operands
            if self.interval(x).lower >= 0:
                yield polynomials.add(x, polynomials.scale(atom, -1))
            if not isinstance(d, Const):
                yield polynomials.add_const(polynomials.add(d, polynomials.scale(atom, -1)), -1)

    def _is_divisor(self, expr: Expr) -> bool:
        # Where it is 0 there is no value to speak of.
        return expr is not ZERO and self.interval(expr).lower >= 0


def _atoms(polynomial: Expr) -> Iterator[Expr]:
    for monomial, _ in polynomials.parts(polynomial)[1]:
        for atom, _ in polynomials.factors_of(monomial):
            yield atom


def _without(monomial: Expr, atom: Expr) -> Expr:
    """The monomial divided once by an atom of it."""
    factors = polynomials.factors_of(monomial)
    return make_product(
        tuple([(base, exp - (base is atom)) for base, exp in factors if base is not atom or exp > 1])
    )


def _values(atom: Call) -> tuple[Expr, ...]:
    """Expressions of which one is always the value of the operation."""
    if atom.op in ("min", "max"):
        return atom.operands
    if atom.op == "ifelse" and atom.kind == "int":
        return atom.operands[1:]
    return (atom.operands[0], polynomials.scale(atom.operands[0], -1)) if atom.op == "abs" else ()


def positive_after_shift(polynomial: Expr, facts: Facts) -> bool:
    """Whether all coefficients are positive once every indeterminate is written as its lower bound plus a rest."""
    if not isinstance(polynomial, Sum) or len(polynomial.terms) > _MAX_POSITIVITY_TERMS:
        return False
    if not any([isinstance(monomial, Product) for monomial, _ in polynomial.terms]):
        return False  # interval arithmetic is exact enough for linear polynomials
    lowers: dict[Expr, int] = {}
    for base in _atoms(polynomial):
        lower = facts.ranges.interval(base).lower
        if lower == -INF:
            return False
        lowers[base] = int(lower)
    corner = polynomial.const
    for monomial, coefficient in polynomial.terms:
        for base, exponent in polynomials.factors_of(monomial):
            coefficient *= lowers[base] ** exponent
        corner += coefficient
    if corner < 0:
        return False
    # Coefficients by monomials of the differences `base - lower`, as plain tuples: they never leave this function.
    total: dict[tuple[int, ...], int] = {}
    for monomial, coefficient in polynomial.terms:
        product: dict[tuple[int, ...], int] = {(): coefficient}
        for base, exponent in polynomials.factors_of(monomial):
            for _ in range(exponent):
                longer = {tuple(sorted((*key, base.serial))): value for key, value in product.items()}
                for key, value in product.items():
                    longer[key] = longer.get(key, 0) + value * lowers[base]
                product = longer
        for key, value in product.items():
            total[key] = total.get(key, 0) + value
    return all([value >= 0 for key, value in total.items() if key])


def bound_polynomials(expr: Expr, interval: Interval) -> Iterator[Expr]:
    """Polynomials that are >= 0 because the expression lies in the interval."""
    if interval.lower != -INF:
        yield polynomials.add_const(expr, -int(interval.lower))
    if interval.upper != INF:
        yield polynomials.add_const(polynomials.scale(expr, -1), int(interval.upper))


def expand_remainders(polynomial: Expr, facts: Facts) -> Expr:
    """`x % d` written as `x - d*(x//d)`, and `max(a, b)` as `a + b - min(a, b)`, so that opposite terms cancel."""
    replacements: dict[Expr, Expr] = {}
    for atom in _atoms(polynomial):
        if not isinstance(atom, Call):
            continue
        a, b = atom.operands[0], atom.operands[-1]
        if atom.op == "mod" and 0 not in facts.ranges.interval(b):
            replacements[atom] = polynomials.add(a, polynomials.scale(mul(b, floordiv(a, b)), -1))
        elif atom.op == "max" and len(atom.operands) == 2:
            smaller = make_call("min", atom.operands, "int")
            replacements[atom] = polynomials.add(polynomials.add(a, b), polynomials.scale(smaller, -1))
    return polynomial.substitute(replacements)
