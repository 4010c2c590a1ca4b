"""What is known to be true, and the decision procedure on top of it.

`Facts` keeps truths in three forms: replacements (from equalities), bounds on polynomials without constant (from
inequalities), and a set of all conditions as they are. `Facts.decide` answers True or False only when the answer
follows; it is incomplete on purpose and small. Four methods are tried, cheapest first:

1. the condition, or its negation, is known;
2. interval arithmetic;
3. positivity: with every indeterminate written as its lower bound plus something not negative, all coefficients are
   positive (`s0*s1 - s0 >= 0` when both are at least 1);
4. subtracting multiples of known inequalities, two deep (`s0 >= s2` from `s0 >= s1` and `s1 >= s2`), where floor
   division, modulo, min and max bring the inequalities that define them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from firesteel.shapes import operations, polynomials, relations
from firesteel.shapes.arithmetic import mod
from firesteel.shapes.expr import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    Call,
    Const,
    Expr,
    Product,
    Sum,
    Symbol,
    as_expr,
    const,
    make_call,
    rebuild,
)
from firesteel.shapes.ranges import ANY, INF, Interval, RangeAnalysis, point

_DEPTH = 2
_MAX_STEPS = 60
_MAX_POSITIVITY_TERMS = 12


class ContradictionError(ValueError):
    """Something was stated that cannot be true together with what is known."""


class Facts:
    """A set of conditions taken as true.

    >>> from firesteel.shapes.expr import symbol
    >>> s0, s1 = symbol("s0"), symbol("s1")
    >>> facts = Facts()
    >>> facts.add(s0 >= s1 + 1)
    >>> facts.decide(s0 > s1), facts.decide(s1 > s0), facts.decide(s0 > 5)
    (True, False, None)
    """

    def __init__(self) -> None:
        self.version = 0
        self.bounds: dict[Expr, Interval] = {}
        self.replacements: dict[Expr, Expr] = {}
        self._ranges = RangeAnalysis(self.bounds)
        self._true: set[Expr] = set()
        self._inequalities: list[Expr] = []  # polynomials known to be >= 0, with at least two terms
        self._congruences: list[tuple[Expr, int, int]] = []  # x % d == r
        self._decided: dict[Expr, bool | None] = {}
        self._replaced: dict[Expr, Expr] = {}

    def interval(self, expr: Expr) -> Interval:
        """Bounds on an expression."""
        return self._ranges.interval(self.replace(expr))

    def replace(self, expr: Expr) -> Expr:
        """The expression with known equalities applied, and min, max, // and % resolved where ranges do."""
        found = self._replaced.get(expr)
        if found is None:
            found = rebuild(expr, self._rewrite, self._replaced)
            if found is not expr:
                # A rebuilt operation may itself be one that has a replacement.
                found = self._replaced[expr] = rebuild(found, self._rewrite, self._replaced)
        return found

    def set_bounds(self, expr: Expr, interval: Interval) -> None:
        """State an interval for a symbol; only for symbols that no fact mentions yet."""
        self.bounds[expr] = interval
        self._changed()

    # Adding

    def add(self, condition: Expr, prefer: frozenset[Symbol] = frozenset()) -> None:
        """Take a condition as true. Symbols in `prefer` are the first to be replaced when it is an equality."""
        condition = self.replace(condition)
        if condition is TRUE:
            return
        if condition is FALSE:
            raise ContradictionError("a condition that is false was stated as true")
        self._true.add(condition)
        assert isinstance(condition, Call | Symbol)
        if isinstance(condition, Call):
            if condition.op == "and":
                for part in condition.operands:
                    self.add(part, prefer)
            elif condition.op == "eq0":
                self._add_equality(condition.operands[0], prefer)
            elif condition.op == "ge0":
                self._add_inequality(condition.operands[0])
            elif condition.op == "ne0":
                self._add_disequality(condition.operands[0])
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._ranges.forget()
        self._decided.clear()
        self._replaced = dict(self.replacements)

    def _add_inequality(self, polynomial: Expr) -> None:
        part, factor, constant = polynomials.primitive(polynomial)
        # Coefficients are coprime, so the factor is 1 or -1: part >= -constant, or part <= constant.
        self._tighten(part, Interval(lower=-constant) if factor > 0 else Interval(upper=constant))
        if polynomials.term_count(part) > 1:
            self._inequalities.append(polynomial)

    def _add_disequality(self, polynomial: Expr) -> None:
        # x != c moves an end of x's interval that is exactly c.
        part, factor, constant = polynomials.primitive(polynomial)
        excluded = -constant // factor
        self._ranges.forget()
        known = self._ranges.interval(part)
        if known.lower == excluded:
            self._tighten(part, Interval(lower=excluded + 1))
        if known.upper == excluded:
            self._tighten(part, Interval(upper=excluded - 1))

    def _tighten(self, part: Expr, interval: Interval) -> None:
        known = self.bounds.get(part, ANY) & interval
        if known.is_empty:
            raise ContradictionError(f"{part} would have to lie between {known.lower} and {known.upper}")
        self.bounds[part] = known
        if known.is_single and isinstance(part, Symbol | Call) and part not in self.replacements:
            self._replace_by(part, const(int(known.lower)))

    def _add_equality(self, polynomial: Expr, prefer: frozenset[Symbol]) -> None:
        part, factor, constant = polynomials.primitive(polynomial)
        value = -constant // factor
        if isinstance(part, Call) and part.op == "mod" and isinstance(part.operands[1], Const):
            self._congruences.append((part.operands[0], int(part.operands[1].value), value))
        self._tighten(part, point(value))
        if not isinstance(part, Sum):
            return
        self._inequalities += [polynomial, polynomials.scale(polynomial, -1)]
        target = self._replaceable(polynomial, prefer)
        if target is not None:
            _, terms = polynomials.parts(polynomial)
            coefficient = dict(terms)[target]
            rest = polynomials.add(polynomial, polynomials.scale(target, -coefficient))
            self._replace_by(target, polynomials.scale(rest, -coefficient))

    @staticmethod
    def _replaceable(polynomial: Expr, prefer: frozenset[Symbol]) -> Symbol | None:
        """A symbol that the equation can be solved for: it stands alone, with coefficient 1 or -1."""
        terms = polynomials.parts(polynomial)[1]
        candidates = []
        for monomial, coefficient in terms:
            if isinstance(monomial, Symbol) and abs(coefficient) == 1:
                others = [other for other, _ in terms if other is not monomial]
                if not any(monomial in other.free_symbols for other in others):
                    candidates.append(monomial)
        # Newer symbols give way to older ones.
        return max(candidates, key=lambda symbol: (symbol in prefer, symbol.serial), default=None)

    def _replace_by(self, target: Expr, value: Expr) -> None:
        known = self.bounds.get(target)
        one = {target: value}
        self.replacements = {old: new.substitute(one) for old, new in self.replacements.items()}
        self.replacements[target] = value
        self._changed()
        # What was known about the target is now known about its value, and known facts take their new form.
        if known is not None and not isinstance(value, Const):
            for condition in _bound_conditions(value, known):
                if condition is FALSE:
                    raise ContradictionError(f"{target} cannot be {value}")
                if isinstance(condition, Call):
                    self._add_inequality(condition.operands[0])
        if isinstance(value, Const) and known is not None and value.value not in known:
            raise ContradictionError(f"{target} cannot be {value}")
        self._restate(one)

    def _restate(self, one: dict[Expr, Expr]) -> None:
        for condition in list(self._true):
            new = condition.substitute(one)
            if new is FALSE:
                raise ContradictionError("known facts exclude each other")
            if new is not condition and new is not TRUE and new not in self._true:
                self.add(new)
        for part, interval in list(self.bounds.items()):
            new = part.substitute(one)
            if new is not part and not isinstance(new, Const):
                for condition in _bound_conditions(new, interval):
                    if isinstance(condition, Call):
                        self._add_inequality(condition.operands[0])
        self._inequalities = [
            new
            for new in dict.fromkeys([polynomial.substitute(one) for polynomial in self._inequalities])
            if not isinstance(new, Const)
        ]
        self._congruences = [
            (new, d, r) for x, d, r in self._congruences if not isinstance(new := x.substitute(one), Const)
        ]

    def _rewrite(self, node: Expr) -> Expr | None:
        if isinstance(node, Call):
            if node.op in ("min", "max"):
                return self._resolve_extremum(node)
            if node.op in ("mod", "floordiv"):
                dividend, divisor = node.operands
                if self._is_below(dividend, divisor):
                    return dividend if node.op == "mod" else ZERO
                if node.op == "mod" and self._congruences and isinstance(divisor, Const):
                    return self._reduce_modulo(node)
            if node.op in ("eq0", "ne0", "ge0"):
                return self._cancel_factor(node)
        return None

    def _cancel_factor(self, condition: Call) -> Expr | None:
        """`s0*s1 == s0*s2` is `s1 == s2` when s0 is positive, and likewise for order."""
        constant, terms = polynomials.parts(condition.operands[0])
        if len(terms) < 2 or (constant and (condition.op != "ge0" or constant != -1)):
            return None
        common = polynomials.common_factor([monomial for monomial, _ in terms])
        for base in [base for base, _ in polynomials.factors_of(common)]:
            if self._ranges.interval(base).lower < 1:
                return None
        if common is ONE:
            return None
        rest, _ = polynomials.split_divisible(polynomials.add_const(condition.operands[0], -constant), common)
        # A constant of -1 says that the rest is positive.
        return operations.build(condition.op, (polynomials.add_const(rest, constant),))

    def _is_below(self, dividend: Expr, divisor: Expr) -> bool:
        """Whether 0 <= dividend < divisor, so that the division leaves everything."""
        if self._ranges.interval(dividend).lower < 0:
            return False
        gap = polynomials.add_const(polynomials.add(divisor, polynomials.scale(dividend, -1)), -1)
        return self._ranges.interval(gap).lower >= 0 or self._is_positive_after_shift(gap)

    def _resolve_extremum(self, call: Call) -> Expr | None:
        """`max(1, s0)` is s0 when that is at least 1."""
        kept = list(call.operands)
        for winner in call.operands:
            for other in call.operands:
                if winner is not other and winner in kept and other in kept:
                    difference = polynomials.add(winner, polynomials.scale(other, -1))
                    interval = self._ranges.interval(difference)
                    if interval.lower >= 0 if call.op == "max" else interval.upper <= 0:
                        kept.remove(other)
        return operations.build(call.op, tuple(kept)) if len(kept) < len(call.operands) else None

    def _reduce_modulo(self, call: Call) -> Expr | None:
        """`y % e` where known congruences `x % d == r` let a multiple of x go."""
        assert isinstance(call.operands[1], Const)
        y, e = call.operands[0], int(call.operands[1].value)
        start = y
        for x, d, r in self._congruences:
            x_terms = polynomials.parts(x)[1]
            coefficient = dict(polynomials.parts(y)[1]).get(x_terms[0][0], 0)
            if coefficient % x_terms[0][1] == 0 and (multiple := coefficient // x_terms[0][1]) * d % e == 0:
                y = polynomials.add(y, polynomials.scale(polynomials.add_const(x, -r), -multiple))
        return mod(y, e) if y is not start else None

    # Deciding

    def decide(self, condition: Expr, expected: bool | None = None) -> bool | None:
        """True or False when that follows from what is known, otherwise None.

        A caller who knows one case of which everything stated is true, and the condition's value in it, passes that
        value as `expected`: the opposite answer is then not searched for.
        """
        condition = self.replace(condition)
        if isinstance(condition, Const):
            return bool(condition.value)
        if condition in self._decided:
            return self._decided[condition]
        result = self._decide(condition, expected)
        self._decided[condition] = result
        return result

    def _decide(self, condition: Expr, expected: bool | None) -> bool | None:
        if condition in self._true:
            return True
        if relations.not_(condition) in self._true:
            return False
        if not isinstance(condition, Call):
            return None
        op, operands = condition.op, condition.operands
        match op:
            case "and":
                return _all([self.decide(operand) for operand in operands])
            case "or":
                return _not(_all([_not(self.decide(operand)) for operand in operands]))
            case "not":
                return _not(self.decide(operands[0], _not(expected)))
            case "ge0":
                return self._decide_ge(operands[0], expected)
            case "eq0":
                return self._decide_eq(operands[0], expected)
            case "ne0":
                return _not(self._decide_eq(operands[0], _not(expected)))
            case "eq" | "ne" | "lt" | "le" if operands[0].kind != "bool" and operands[1].kind != "bool":
                return _compare(op, self.interval(operands[0]), self.interval(operands[1]))
        return None

    def _decide_ge(self, polynomial: Expr, expected: bool | None) -> bool | None:
        interval = self._ranges.interval(polynomial)
        if interval.lower >= 0:
            return True
        if interval.upper < 0:
            return False
        if expected is not False and self._proves(polynomial):
            return True
        if expected is not True and self._proves(polynomials.add_const(polynomials.scale(polynomial, -1), -1)):
            return False
        return None

    def _decide_eq(self, polynomial: Expr, expected: bool | None) -> bool | None:
        interval = self._ranges.interval(polynomial)
        if 0 not in interval:
            return False
        if interval.is_single:
            return True
        negated = polynomials.scale(polynomial, -1)
        if expected is not False and self._proves(polynomial) and self._proves(negated):
            return True
        if expected is not True and (
            self._proves(polynomials.add_const(polynomial, -1)) or self._proves(polynomials.add_const(negated, -1))
        ):
            return False
        return None

    def _proves(self, polynomial: Expr) -> bool:
        budget = [_MAX_STEPS]
        return self._is_nonnegative(polynomial, _DEPTH, budget)

    def _is_nonnegative(self, polynomial: Expr, depth: int, budget: list[int]) -> bool:
        if self._ranges.interval(polynomial).lower >= 0:
            return True
        if isinstance(polynomial, Const):
            return False
        if self._is_positive_after_shift(polynomial):
            return True
        if depth == 0:
            return False
        terms = polynomials.parts(polynomial)[1]
        coefficients = dict(terms)
        for known in self._related(terms):
            for monomial, k in polynomials.parts(known)[1]:
                c = coefficients.get(monomial, 0)
                if c * k <= 0:
                    continue
                budget[0] -= 1
                if budget[0] < 0:
                    return False
                # m*p - n*known, with m and n positive, no longer has this monomial; if it is >= 0, so is p.
                divisor = math.gcd(c, k)
                rest = polynomials.add(
                    polynomials.scale(polynomial, abs(k) // divisor), polynomials.scale(known, -(abs(c) // divisor))
                )
                if self._is_nonnegative(rest, depth - 1, budget):
                    return True
        return False

    def _related(self, terms: polynomials.Terms) -> Iterator[Expr]:
        """Polynomials known to be >= 0 that may help with these terms."""
        for monomial, coefficient in terms:
            for atom, _ in polynomials.factors_of(monomial):
                if isinstance(atom, Call) and atom is monomial:
                    yield from self._defining(atom, positive=coefficient > 0)
        monomials = {monomial for monomial, _ in terms}
        for known in self._inequalities:
            if any(monomial in monomials for monomial, _ in polynomials.parts(known)[1]):
                yield known

    def _defining(self, atom: Call, positive: bool) -> Iterator[Expr]:
        """Inequalities that hold for an operation because of what it is."""
        operands = atom.operands
        if atom.op in ("min", "max"):
            sign = 1 if atom.op == "max" else -1
            if (sign > 0) == positive:
                for operand in operands:
                    yield polynomials.scale(polynomials.add(atom, polynomials.scale(operand, -1)), sign)
        elif atom.op == "floordiv" and isinstance(operands[1], Const):
            # x == d*q + x % d, and the remainder has bounds
            x, d = operands[0], int(operands[1].value)
            remainder = self._ranges.interval(self.replace(mod(x, d)))
            difference = polynomials.add(x, polynomials.scale(atom, -d))
            yield from _bound_polynomials(difference, remainder)
        elif atom.op == "mod" and isinstance(operands[1], Const) and self._ranges.interval(operands[0]).lower >= 0:
            yield polynomials.add(operands[0], polynomials.scale(atom, -1))

    def _is_positive_after_shift(self, polynomial: Expr) -> bool:
        if not isinstance(polynomial, Sum) or len(polynomial.terms) > _MAX_POSITIVITY_TERMS:
            return False
        if not any(isinstance(monomial, Product) for monomial, _ in polynomial.terms):
            return False  # interval arithmetic is exact enough for linear polynomials
        shifted: dict[Expr, Expr] = {}
        for monomial, _ in polynomial.terms:
            for base, _ in polynomials.factors_of(monomial):
                lower = self._ranges.interval(base).lower
                if lower == -INF:
                    return False
                # A fresh indeterminate `base - lower`; it never leaves this function.
                shifted[base] = polynomials.add_const(make_call("above", (base,), "int"), int(lower))
        total: Expr = const(polynomial.const)
        for monomial, coefficient in polynomial.terms:
            product: Expr = const(coefficient)
            for base, exponent in polynomials.factors_of(monomial):
                for _ in range(exponent):
                    product = polynomials.multiply(product, shifted[base])
            total = polynomials.add(total, product)
        constant, terms = polynomials.parts(total)
        return constant >= 0 and all(coefficient > 0 for _, coefficient in terms)


def _bound_polynomials(expr: Expr, interval: Interval) -> Iterator[Expr]:
    if interval.lower != -INF:
        yield polynomials.add_const(expr, -int(interval.lower))
    if interval.upper != INF:
        yield polynomials.add_const(polynomials.scale(expr, -1), int(interval.upper))


def _bound_conditions(expr: Expr, interval: Interval) -> list[Expr]:
    return [relations.ge_zero(polynomial) for polynomial in _bound_polynomials(as_expr(expr), interval)]


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _all(values: list[bool | None]) -> bool | None:
    if any(value is False for value in values):
        return False
    return True if all(value is True for value in values) else None


def _compare(op: str, a: Interval, b: Interval) -> bool | None:
    """A comparison of floats, or of an int and a float, from their intervals; NaN makes all but `!=` false."""
    apart = a.upper < b.lower or b.upper < a.lower
    match op:
        case "eq":
            return False if apart else None
        case "ne":
            return True if apart else None
        case "lt":
            always, never = a.upper < b.lower, a.lower >= b.upper
        case _:
            always, never = a.upper <= b.lower, a.lower > b.upper
    if never:
        return False
    return True if always and not a.nan and not b.nan else None
