"""What is known to be true, and the decision procedure on top of it.

`Facts` keeps truths in several forms: replacements (from equalities), bounds on polynomials without constant (from
inequalities), congruences (from remainders), and a set of all conditions as they are. `Facts.decide` answers True or
False only when the answer follows. Cheapest first, it looks whether the condition or its negation is known, at
intervals and congruences, and then for a proof (see `proofs`).
"""

from __future__ import annotations

import math

from firesteel.shapes import operations, polynomials, relations
from firesteel.shapes.arithmetic import mod, mul
from firesteel.shapes.congruences import Congruence, Congruences
from firesteel.shapes.expr import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    Call,
    Const,
    Expr,
    Sum,
    Symbol,
    as_expr,
    const,
    rebuild,
)
from firesteel.shapes.proofs import bound_polynomials, proves_nonnegative
from firesteel.shapes.ranges import ANY, Interval, RangeAnalysis, point

_MAX_ALTERNATIVES = 3


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
        """Grows whenever something that was asked about may have another answer."""
        self.bounds: dict[Expr, Interval] = {}
        self.replacements: dict[Expr, Expr] = {}
        self.congruences = Congruences()
        self.ranges = RangeAnalysis(self.bounds)
        self._age: dict[Expr, int] = {}
        """The order in which symbols were introduced here; that of all environments in a process tells nothing."""
        self.levels: dict[Symbol, int] = {}
        """How late symbols are known, see `ShapeEnv.new_symbol`: equalities replace none by one of a higher level."""
        self.inequalities: list[Expr] = []
        """Polynomials of at least two terms known to be >= 0."""
        self.indices: set[Symbol] = set()
        """Symbols of `add_index`."""
        self._true: set[Expr] = set()
        self._decided: dict[Expr, bool] = {}
        self._unknown: set[Expr] = set()
        self._replaced: dict[Expr, Expr] = {}

    def copy(self) -> Facts:
        """An independent copy, to try something on."""
        new = Facts()
        new.bounds.update(self.bounds)
        new.replacements = dict(self.replacements)
        new.congruences = self.congruences.copy()
        new._age = dict(self._age)
        new.levels = self.levels
        new.inequalities = list(self.inequalities)
        new.indices = set(self.indices)
        new._true = set(self._true)
        new._replaced = dict(self.replacements)
        return new

    def text(self) -> str:
        """All that was stated, as lines that are the same wherever the same is known.

        >>> from firesteel.shapes.expr import symbol
        >>> facts = Facts()
        >>> facts.add(symbol("s0") >= 2)
        >>> print(facts.text())
        s0 from 2 to inf
        s0 >= 2
        """
        bounds = sorted(f"{expr} from {known.lower} to {known.upper}{' or nan' if known.nan else ''}"
                        for expr, known in self.bounds.items())
        replaced = sorted(f"{expr} is {value}" for expr, value in self.replacements.items())
        return "\n".join([*bounds, *replaced, *sorted(map(str, self._true))])

    def interval(self, expr: Expr) -> Interval:
        """Bounds on an expression."""
        return self.ranges.interval(self.replace(expr))

    def congruence(self, expr: Expr) -> Congruence:
        """What is known of an integer expression modulo something."""
        return self.congruences.of(self.replace(expr))

    def divisor(self, expr: Expr) -> int:
        """The largest number known to divide an integer expression; 0 when the expression is 0.

        >>> from firesteel.shapes.expr import symbol
        >>> s0, s1, facts = symbol("s0"), symbol("s1"), Facts()
        >>> facts.add(relations.eq(s0 % 4, 0))
        >>> facts.divisor(6 * s0 * s1), facts.divisor(s0 + 2), facts.divisor(s1)
        (24, 2, 1)
        """
        return self.congruence(expr).divisor

    def known_multiple(self, expr: Expr, of: int) -> bool:
        """Whether the expression is known to be a multiple of a number."""
        return self.divisor(expr) % of == 0

    def replace(self, expr: Expr) -> Expr:
        """The expression with known equalities applied, and min, max, // and % resolved where ranges do."""
        replaced = self._replaced.get(expr)
        if replaced is None:
            replaced = rebuild(expr, self._rewrite, self._replaced)
            if replaced is not expr:
                # A rebuilt operation may itself be one that has a replacement.
                replaced = self._replaced[expr] = rebuild(replaced, self._rewrite, self._replaced)
        return replaced

    def set_bounds(self, expr: Expr, interval: Interval) -> None:
        """State an interval for a symbol; only for symbols that no fact mentions yet."""
        self.bounds[expr] = interval
        self._age.setdefault(expr, len(self._age))
        if expr in self._replaced or self.ranges.knows(expr):  # it was asked about before
            self._changed()

    # Adding

    def add_index(self, symbol: Symbol, size: Expr) -> None:
        """Take `0 <= symbol < size` as true of expressions with the symbol.

        Nothing follows for others: where the size is 0 there is no such index.

        >>> from firesteel.shapes.expr import symbol
        >>> i, s0, s1, facts = symbol("i"), symbol("s0"), symbol("s1"), Facts()
        >>> facts.add_index(i, s0 - s1)
        >>> facts.decide(i + s1 < s0), facts.decide(s1 < s0)
        (True, None)
        """
        self.indices.add(symbol)
        upper = self.interval(size).upper
        self.set_bounds(symbol, Interval(0, max(upper - 1, 0)))
        if not size.is_constant and upper > 0:  # there is no such index where the size is known to be 0
            self.add(symbol < size)

    def usable(self, goal: Expr) -> list[Expr]:
        """The inequalities that a proof about an expression may use."""
        if not self.indices:
            return self.inequalities
        others = self.indices - goal.free_symbols
        return [known for known in self.inequalities if others.isdisjoint(known.free_symbols)]

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
        self.ranges.forget()
        # What followed from less follows from more, so decisions stay; only what was unknown may change.
        self._unknown.clear()
        self._replaced = dict(self.replacements)

    def _add_inequality(self, polynomial: Expr) -> None:
        part, factor, constant = polynomials.primitive(polynomial)
        # Coefficients are coprime, so the factor is 1 or -1: part >= -constant, or part <= constant.
        self._tighten(part, Interval(lower=-constant) if factor > 0 else Interval(upper=constant))
        if polynomials.term_count(part) > 1:
            self.inequalities.append(polynomial)

    def _add_disequality(self, polynomial: Expr) -> None:
        # x != c moves an end of x's interval that is exactly c.
        part, factor, constant = polynomials.primitive(polynomial)
        excluded = -constant // factor
        self.ranges.forget()
        known = self.ranges.interval(part)
        if known.lower == excluded:
            self._tighten(part, Interval(lower=excluded + 1))
        if known.upper == excluded:
            self._tighten(part, Interval(upper=excluded - 1))

    def _tighten(self, part: Expr, interval: Interval) -> None:
        known = self.bounds.get(part, ANY) & interval
        congruence = self.congruences.known.get(part)
        if congruence is not None:
            known = congruence.narrow(known)
        if known.is_empty:
            raise ContradictionError(f"{part} would have to lie between {known.lower} and {known.upper}")
        self.bounds[part] = known
        if known.is_single and isinstance(part, Symbol | Call) and part not in self.replacements:
            value = int(known.lower)
            if isinstance(part, Call) and part.op == "mod" and isinstance(part.operands[1], Const):
                # The divisor is not 0, or the condition would have had no value.
                self._learn(part.operands[0], Congruence(int(part.operands[1].value), value))
            self._replace_by(part, const(value))

    def _learn(self, expr: Expr, congruence: Congruence) -> None:
        try:
            news = self.congruences.learn(expr, congruence)
        except ValueError as error:
            raise ContradictionError(str(error)) from None
        if news is not None and news in self.bounds:
            self._tighten(news, ANY)

    def _add_equality(self, polynomial: Expr, prefer: frozenset[Symbol]) -> None:
        part, factor, constant = polynomials.primitive(polynomial)
        self._tighten(part, point(-constant // factor))
        if not isinstance(part, Sum):
            return
        self.inequalities += [polynomial, polynomials.scale(polynomial, -1)]
        target = self._replaceable(polynomial, prefer)
        if target is not None:
            _, terms = polynomials.parts(polynomial)
            coefficient = dict(terms)[target]
            rest = polynomials.add(polynomial, polynomials.scale(target, -coefficient))
            self._replace_by(target, polynomials.scale(rest, -coefficient))
        else:
            self._learn_from_coefficients(polynomial)

    def _learn_from_coefficients(self, polynomial: Expr) -> None:
        """`4*s0 == 3*s1` makes s1 a multiple of 4 and s0 one of 3."""
        constant, terms = polynomials.parts(polynomial)
        for monomial, coefficient in terms:
            others = math.gcd(*[c for other, c in terms if other is not monomial])
            if others > 1:
                self._learn(polynomials.scale(monomial, coefficient), Congruence(others, -constant % others))

    def _replaceable(self, polynomial: Expr, prefer: frozenset[Symbol]) -> Symbol | None:
        """A symbol that the equation can be solved for: it stands alone, with coefficient 1 or -1."""
        constant, terms = polynomials.parts(polynomial)
        candidates = []
        for monomial, coefficient in terms:
            if isinstance(monomial, Symbol) and abs(coefficient) == 1:
                level = self.levels.get(monomial, 0)
                others = {free for other, _ in terms if other is not monomial for free in other.free_symbols}
                if monomial not in others and all([self.levels.get(free, 0) <= level for free in others]):
                    # Among those preferred, `s0 = s1 + 2` rather than `s1 = s0 - 2`.
                    signs = [-coefficient * factor for other, factor in terms if other is not monomial]
                    plain = monomial in prefer and min(*signs, -coefficient * constant, 0) == 0
                    candidates.append((monomial in prefer, plain, *self._rank(monomial), monomial))
        # Newer symbols give way to older ones.
        return max(candidates)[-1] if candidates else None

    def _rank(self, symbol: Symbol) -> tuple[int, bool, int, int]:
        """Symbols with greater ranks give way: numbered ones in the order of their names, all after named ones."""
        number = symbol.name.lstrip("abcdefghijklmnopqrstuvwxyz")
        age = self._age.get(symbol)
        return int(number) if number.isdecimal() else -1, age is None, age or 0, symbol.serial

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
        self.inequalities = [
            new
            for new in dict.fromkeys([polynomial.substitute(one) for polynomial in self.inequalities])
            if not isinstance(new, Const)
        ]
        try:
            changed = self.congruences.substitute(one)
        except ValueError as error:
            raise ContradictionError(str(error)) from None
        for part in changed:
            if part in self.bounds:
                self._tighten(part, ANY)

    def _rewrite(self, node: Expr) -> Expr | None:
        if isinstance(node, Call):
            op = node.op
            if op in ("eq0", "ne0", "ge0"):
                return self._cancel_factor(node)
            if op in ("mod", "floordiv"):
                return self._divide(node)
            if op in ("min", "max"):
                return self._resolve_extremum(node)
        elif isinstance(node, Sum) and self.congruences.known:
            return self._multiply_back(node)
        return None

    def _divide(self, node: Call) -> Expr | None:
        dividend, divisor = node.operands
        if self._is_below(dividend, divisor):
            return dividend if node.op == "mod" else ZERO
        if node.op == "mod" and self.congruences.known and isinstance(divisor, Const) and divisor.value:
            d = int(divisor.value)
            modulus, residue = self.congruences.of(dividend)
            return const(residue % d) if modulus % d == 0 else self._reduce_modulo(dividend, d)
        return None

    def _multiply_back(self, node: Sum) -> Expr | None:
        """`8*(s0//8)` is s0 when that is a multiple of 8."""
        for monomial, coefficient in node.terms:
            for atom, _ in polynomials.factors_of(monomial):
                if isinstance(atom, Call) and atom.op == "floordiv" and isinstance(atom.operands[1], Const):
                    x, d = atom.operands[0], int(atom.operands[1].value)
                    modulus, residue = self.congruences.of(x)
                    if not d or coefficient % d or modulus % d:
                        continue
                    others, _ = polynomials.split_divisible(monomial, atom)
                    exact = mul(polynomials.scale(others, coefficient // d), polynomials.add_const(x, -(residue % d)))
                    rest = polynomials.add(node, polynomials.scale(monomial, -coefficient))
                    return self.replace(polynomials.add(rest, exact))
        return None

    def _cancel_factor(self, condition: Call) -> Expr | None:
        """`s0*s1 == s0*s2` is `s1 == s2` when s0 is positive, and likewise for order."""
        constant, terms = polynomials.parts(condition.operands[0])
        if len(terms) < 2 or (constant and (condition.op != "ge0" or constant != -1)):
            return None
        common = polynomials.common_factor([monomial for monomial, _ in terms])
        for base in [base for base, _ in polynomials.factors_of(common)]:
            if self.ranges.interval(base).lower < 1:
                return None
        if common is ONE:
            return None
        rest, _ = polynomials.split_divisible(polynomials.add_const(condition.operands[0], -constant), common)
        # A constant of -1 says that the rest is positive.
        return operations.build(condition.op, (polynomials.add_const(rest, constant),))

    def _is_below(self, dividend: Expr, divisor: Expr) -> bool:
        """Whether 0 <= dividend < divisor, so that the division leaves everything."""
        if self.ranges.interval(dividend).lower < 0:
            return False
        gap = polynomials.add_const(polynomials.add(divisor, polynomials.scale(dividend, -1)), -1)
        return self.ranges.interval(gap).lower >= 0 or proves_nonnegative(gap, self, depth=1)

    def _resolve_extremum(self, call: Call) -> Expr | None:
        """`max(1, s0)` is s0 when that is at least 1."""
        kept = list(call.operands)
        for winner in call.operands:
            for other in call.operands:
                if winner is not other and winner in kept and other in kept:
                    difference = polynomials.add(winner, polynomials.scale(other, -1))
                    interval = self.ranges.interval(difference)
                    if interval.lower >= 0 if call.op == "max" else interval.upper <= 0:
                        kept.remove(other)
        return operations.build(call.op, tuple(kept)) if len(kept) < len(call.operands) else None

    def _reduce_modulo(self, y: Expr, e: int) -> Expr | None:
        """`y % e` where known congruences of sums let a multiple of them go."""
        start = y
        for x, (d, r) in self.congruences.known.items():
            x_terms = polynomials.parts(x)[1]
            if len(x_terms) < 2:
                continue
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
        known = self._decided.get(condition)
        if known is not None or condition in self._unknown:
            return known
        result = self._decide(condition, expected)
        if result is None:
            self._unknown.add(condition)
        else:
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
                answer = _all([self.decide(operand) for operand in operands])
                if answer is None and expected is not True:
                    return _not(self._by_exclusion(tuple([relations.not_(operand) for operand in operands])))
                return answer
            case "or":
                answer = _not(_all([_not(self.decide(operand)) for operand in operands]))
                return self._by_exclusion(operands) if answer is None and expected is not False else answer
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

    def _by_exclusion(self, operands: tuple[Expr, ...]) -> bool | None:
        """True when the last of the conditions holds wherever the others do not."""
        if len(operands) > _MAX_ALTERNATIVES:
            return None
        others = self.copy()
        try:
            for operand in operands[:-1]:
                others.add(relations.not_(operand))
            return others.decide(operands[-1], expected=True) or None
        except ContradictionError:
            return True

    def _decide_ge(self, polynomial: Expr, expected: bool | None) -> bool | None:
        interval = self.ranges.interval(polynomial)
        if interval.lower >= 0:
            return True
        if interval.upper < 0:
            return False
        if expected is not False and proves_nonnegative(polynomial, self):
            return True
        if expected is not True:
            if proves_nonnegative(polynomials.add_const(polynomials.scale(polynomial, -1), -1), self):
                return False
        return None

    def _decide_eq(self, polynomial: Expr, expected: bool | None) -> bool | None:
        interval = self.ranges.interval(polynomial)
        if 0 not in interval or not self.congruences.of(polynomial).allows(0):
            return False
        if interval.is_single:
            return True
        negated = polynomials.scale(polynomial, -1)
        if expected is not False and proves_nonnegative(polynomial, self) and proves_nonnegative(negated, self):
            return True
        if expected is not True:
            if proves_nonnegative(polynomials.add_const(polynomial, -1), self):
                return False
            if proves_nonnegative(polynomials.add_const(negated, -1), self):
                return False
        return None


def _bound_conditions(expr: Expr, interval: Interval) -> list[Expr]:
    return [relations.ge_zero(polynomial) for polynomial in bound_polynomials(as_expr(expr), interval)]


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
