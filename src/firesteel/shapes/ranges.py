"""Interval arithmetic: bounds on the value of an expression from bounds on its parts.

An `Interval` has inclusive ends; an unbounded end is an infinite float, a bounded end of an integer interval is an int.
Intervals of floats rely on IEEE operations being monotone; `nan` says that the value may also be no number at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from firesteel.shapes.expr import Call, Const, Expr, Product, Scalar, Sum
from firesteel.shapes.polynomials import primitive

from ..records import dataclass

INF = math.inf


@dataclass(frozen=True, slots=True)
class Interval:
    """All values from `lower` to `upper`.

    >>> Interval(2, 5) + Interval(-INF, 1)
    Interval(lower=-inf, upper=6, nan=False)
    """

    lower: Scalar = -INF
    upper: Scalar = INF
    nan: bool = False

    @property
    def is_single(self) -> bool:
        """Only one value is possible."""
        return self.lower == self.upper and not self.nan and abs(self.lower) != INF

    @property
    def is_empty(self) -> bool:
        return self.lower > self.upper

    @property
    def is_finite(self) -> bool:
        return self.lower != -INF and self.upper != INF

    def __contains__(self, value: Scalar) -> bool:
        return self.lower <= value <= self.upper or (self.nan and value != value)

    def __and__(self, other: Interval) -> Interval:
        return Interval(max(self.lower, other.lower), min(self.upper, other.upper), self.nan and other.nan)

    def __or__(self, other: Interval) -> Interval:
        return Interval(min(self.lower, other.lower), max(self.upper, other.upper), self.nan or other.nan)

    def __neg__(self) -> Interval:
        return Interval(-self.upper, -self.lower, self.nan)

    def __add__(self, other: Interval) -> Interval:
        return Interval(
            _add_ends(self.lower, other.lower, -INF), _add_ends(self.upper, other.upper, INF), self.nan or other.nan
        )

    def shift(self, amount: int) -> Interval:
        """The interval of `x + amount`."""
        return Interval(_add_ends(self.lower, amount, -INF), _add_ends(self.upper, amount, INF), self.nan)

    def scale(self, factor: int) -> Interval:
        """The interval of `factor * x`."""
        ends = _mul_ends(self.lower, factor), _mul_ends(self.upper, factor)
        return Interval(min(ends), max(ends), self.nan)

    def __mul__(self, other: Interval) -> Interval:
        return _corners(self, other, _mul_ends)

    def power(self, exponent: int) -> Interval:
        """The interval of `x ** exponent` for an integer x and a positive exponent."""
        ends = _pow_end(self.lower, exponent), _pow_end(self.upper, exponent)
        if exponent % 2 == 0 and self.lower < 0 < self.upper:
            return Interval(0, max(ends))
        return Interval(min(ends), max(ends))


ANY = Interval()
ANY_FLOAT = Interval(nan=True)
BOOL = Interval(0, 1)


def point(value: Scalar) -> Interval:
    """The interval of one value."""
    return Interval(value, value) if value == value else Interval(INF, -INF, nan=True)


def _add_ends(a: Scalar, b: Scalar, unknown: float) -> Scalar:
    if a in (INF, -INF) or b in (INF, -INF):
        # Opposite infinities leave this end open; an int beyond the floats' range must not meet an infinity.
        infinite = [end for end in (a, b) if end in (INF, -INF)]
        return infinite[0] if all(end == infinite[0] for end in infinite) else unknown
    return a + b


def _mul_ends(a: Scalar, b: Scalar) -> Scalar:
    if a == 0 or b == 0:
        return 0
    if a in (INF, -INF) or b in (INF, -INF):
        return INF if (a > 0) == (b > 0) else -INF
    return a * b


def _pow_end(a: Scalar, exponent: int) -> Scalar:
    if a in (INF, -INF):
        return INF if a > 0 or exponent % 2 == 0 else -INF
    return a**exponent


def _corners(a: Interval, b: Interval, function: Callable[[Scalar, Scalar], Scalar]) -> Interval:
    values = [function(x, y) for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
    return Interval(min(values), max(values))


def _floordiv_ends(a: Scalar, b: Scalar) -> Scalar:
    """The limit of a // b for b not 0."""
    if a in (INF, -INF):
        if b in (INF, -INF):
            return 0 if (a > 0) == (b > 0) else -1  # anything of that sign; the other corners reach the far end
        return INF if (a > 0) == (b > 0) else -INF
    if b in (INF, -INF):
        return 0 if a == 0 or (a > 0) == (b > 0) else -1
    return a // b


def _without_zero(b: Interval) -> list[Interval]:
    halves = [Interval(b.lower, min(b.upper, -1)), Interval(max(b.lower, 1), b.upper)]
    return [half for half in halves if not half.is_empty]


def floordiv(a: Interval, b: Interval) -> Interval:
    """Bounds on `a // b` for integers; a divisor of zero has no value, so it is left out."""
    result: Interval | None = None
    for half in _without_zero(b):
        part = _corners(a, half, _floordiv_ends)
        result = part if result is None else result | part
    return ANY if result is None else result


def mod(a: Interval, b: Interval) -> Interval:
    """Bounds on `a % b` for integers."""
    result: Interval | None = None
    for half in _without_zero(b):
        if half.lower > 0:
            if a.lower >= 0 and a.upper < half.lower:
                part = a
            elif half.is_single and a.is_finite and a.lower // half.lower == a.upper // half.lower:
                part = Interval(a.lower % half.lower, a.upper % half.lower)
            else:
                part = Interval(0, min(_add_ends(half.upper, -1, INF), a.upper if a.lower >= 0 else INF))
        else:
            part = Interval(max(_add_ends(half.lower, 1, -INF), a.lower if a.upper <= 0 else -INF), 0)
        result = part if result is None else result | part
    return ANY if result is None else result


def _float_operation(a: Interval, b: Interval, function: Callable[[float, float], float]) -> Interval:
    """Corners of a float operation that is monotone in both operands; open ends may produce NaN."""
    if a.nan or b.nan or not a.is_finite or not b.is_finite:
        return ANY_FLOAT
    try:
        values = [function(x, y) for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
    except (OverflowError, ZeroDivisionError):
        return ANY_FLOAT
    return Interval(min(values), max(values))


def _truediv(a: Interval, b: Interval, integers: bool) -> Interval:
    if b.lower > 0 or b.upper < 0:
        if integers and a.lower >= 0 and b.lower > 0:
            # The common case, a size divided by a size, has no NaN even when there is no upper end.
            try:
                lower = 0.0 if b.upper == INF else a.lower / b.upper
                upper = INF if a.upper == INF else a.upper / b.lower
            except OverflowError:
                return Interval(0.0, INF)
            return Interval(lower, upper)
        return _float_operation(a, b, lambda x, y: x / y)
    return ANY if integers else ANY_FLOAT


def _to_float(a: Interval) -> Interval:
    try:
        return Interval(float(a.lower), float(a.upper))
    except OverflowError:
        return ANY


def _rounded(a: Interval, function: Callable[[float], int]) -> Interval:
    # Rounding an infinity or NaN raises, so those have no value to bound.
    lower = -INF if a.lower == -INF else INF if a.lower == INF else function(a.lower)
    upper = INF if a.upper == INF else -INF if a.upper == -INF else function(a.upper)
    return Interval(lower, upper)


class RangeAnalysis:
    """Computes bounds of expressions, given bounds of some of them (symbols or any sub-expressions).

    >>> from firesteel.shapes.expr import symbol
    >>> s0 = symbol("s0")
    >>> RangeAnalysis({s0: Interval(2, 9)}).interval((s0 * s0 + 1) // 2)
    Interval(lower=2, upper=41, nan=False)
    """

    def __init__(self, known: Mapping[Expr, Interval]) -> None:
        self.known = known
        self._memo: dict[Expr, Interval] = {}

    def forget(self) -> None:
        """Drop remembered results, after `known` changed."""
        self._memo.clear()

    def knows(self, expr: Expr) -> bool:
        """Whether the result for this expression is remembered."""
        return expr in self._memo

    def interval(self, expr: Expr) -> Interval:
        """Bounds on the expression."""
        interval = self._memo.get(expr)
        if interval is None:
            interval = self._compute(expr)
            known = self.known.get(expr)
            if known is not None:
                interval = interval & known
            self._memo[expr] = interval
        return interval

    def _compute(self, expr: Expr) -> Interval:
        match expr:
            case Const():
                return point(expr.value)
            case Sum():
                return self._sum(expr)
            case Product():
                result = point(1)
                for base, exponent in expr.factors:
                    result = result * self.interval(base).power(exponent)
                return result
            case Call():
                return self._call(expr)
            case _:
                return {"int": ANY, "float": ANY_FLOAT, "bool": BOOL}[expr.kind]

    def _sum(self, expr: Sum) -> Interval:
        result = point(expr.const)
        for monomial, coefficient in expr.terms:
            result = result + self.interval(monomial).scale(coefficient)
        if len(expr.terms) > 1:
            # Facts such as `s0 - s1 >= 0` are bounds on the part without constant.
            part, factor, constant = primitive(expr)
            known = self.known.get(part)
            if known is not None:
                result = result & known.scale(factor).shift(constant)
        return result

    def _call(self, expr: Call) -> Interval:
        ranges = [self.interval(operand) for operand in expr.operands]
        integers = all([operand.kind == "int" for operand in expr.operands])
        match expr.op:
            case "floordiv":
                return floordiv(*ranges)
            case "mod":
                return mod(*ranges)
            case "min":
                return Interval(min([r.lower for r in ranges]), min([r.upper for r in ranges]))
            case "max":
                return Interval(max([r.lower for r in ranges]), max([r.upper for r in ranges]))
            case "mul":
                return ranges[0] * ranges[1]
            case "pow":
                return self._power(*ranges)
            case "abs":
                a = ranges[0]
                return a if a.lower >= 0 else -a if a.upper <= 0 else Interval(0, max(-a.lower, a.upper))
            case "bitand" if ranges[0].lower >= 0 or ranges[1].lower >= 0:
                return Interval(0, min([r.upper for r in ranges if r.lower >= 0]))
            case "bitor" | "bitxor" if ranges[0].lower >= 0 and ranges[1].lower >= 0:
                return Interval(0, INF)
            case "lshift" | "rshift" if ranges[0].lower >= 0:
                return Interval(0, INF if expr.op == "lshift" else ranges[0].upper)
            case "ifelse":
                return ranges[1] | ranges[2]
            case "fadd":
                return _float_operation(ranges[0], ranges[1], lambda x, y: float(x) + float(y))
            case "fsub":
                return _float_operation(ranges[0], ranges[1], lambda x, y: float(x) - float(y))
            case "fmul":
                return _float_operation(ranges[0], ranges[1], lambda x, y: float(x) * float(y))
            case "fneg":
                return -ranges[0]
            case "truediv":
                return _truediv(ranges[0], ranges[1], integers)
            case "float":
                return _to_float(ranges[0])
            case "floor":
                return _rounded(ranges[0], math.floor)
            case "ceil":
                return _rounded(ranges[0], math.ceil)
            case "trunc":
                return _rounded(ranges[0], math.trunc)
            case "round" if expr.kind == "int":
                return _rounded(ranges[0], round)
            case "sqrt" if ranges[0].lower >= 0 and not ranges[0].nan:
                return _rounded_sqrt(ranges[0])
        return {"int": ANY, "float": ANY_FLOAT, "bool": BOOL}[expr.kind]

    def _power(self, base: Interval, exponent: Interval) -> Interval:
        if base.lower < 0:
            if exponent.is_single:
                return base.power(int(exponent.lower)) if exponent.lower > 0 else point(1)
            return ANY
        if base.lower >= 1:
            return Interval(1, INF) if base.upper > 1 else point(1)
        return Interval(0, INF)


def _rounded_sqrt(a: Interval) -> Interval:
    try:
        return Interval(math.sqrt(a.lower), INF if a.upper == INF else math.sqrt(a.upper))
    except OverflowError:
        return Interval(0.0, INF)
