"""Index expressions as seen by loops: strides along axes, axes split into digits, coordinates within a layout.

    >>> from firesteel import shapes
    >>> i, j, n = map(shapes.symbol, ("i", "j", "n"))
    >>> linear(n * i + j + 3, frozenset({i, j})).stride(i)
    n
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from ... import shapes
from ...records import dataclass
from ...shapes import Const, Expr, Facts, Symbol, polynomials
from ...shapes.expr import ONE, ZERO

DEFAULT_SIZE = 256
"""What a size that is not known counts as in estimates."""


@dataclass(frozen=True)
class Linear:
    """An index as the sum of ``stride * axis`` and a rest; an axis that enters in another way is in the rest."""

    strides: dict[Symbol, Expr]
    rest: Expr

    def stride(self, axis: Symbol) -> Expr | None:
        """How far a step along the axis goes; None when that depends on where it starts."""
        stride = self.strides.get(axis, ZERO)
        return None if axis in self.rest.free_symbols else stride


@lru_cache(maxsize=1 << 14)
def linear(expr: Expr, axes: frozenset[Symbol]) -> Linear:
    """Take an index apart."""
    constant, terms = polynomials.parts(expr)
    strides: dict[Symbol, Expr] = {}
    rest: dict[Expr, int] = {}
    for monomial, coefficient in terms:
        inside = monomial.free_symbols & axes
        axis = next(iter(inside)) if len(inside) == 1 else None
        others = _without(monomial, axis) if axis is not None else None
        if axis is None or others is None:
            rest[monomial] = coefficient
        else:
            strides[axis] = strides.get(axis, ZERO) + polynomials.scale(others, coefficient)
    return Linear(strides, polynomials.from_terms(constant, rest))


def _without(monomial: Expr, axis: Symbol) -> Expr | None:
    """``monomial / axis`` if the axis is a plain factor of it."""
    whole, rest = polynomials.split_divisible(monomial, axis)
    return whole if rest is ZERO and axis not in whole.free_symbols else None


@lru_cache(maxsize=1 << 14)
def _substituted(expr: Expr, replacements: tuple[tuple[Symbol, Expr], ...]) -> Expr:
    return expr.substitute(dict(replacements))


def substitute(expr: Expr, replacements: Mapping[Symbol, Expr]) -> Expr:
    """`Expr.substitute` that remembers: equal layers of a model ask the same again."""
    used = [(axis, new) for axis, new in replacements.items() if axis in expr.free_symbols]
    return _substituted(expr, tuple(used)) if used else expr


def estimate(expr: Expr) -> int:
    """A number for an expression, with a guess for every unknown."""
    if isinstance(expr, Const):
        return int(expr.value)
    # The size of a block may depend on a loop variable; the first block is a whole one.
    values = {symbol: 0 if symbol.name.startswith("g") else DEFAULT_SIZE for symbol in expr.free_symbols}
    try:
        return int(expr.evaluate(values))
    except ArithmeticError:  # a guess that a number of the program is not
        return DEFAULT_SIZE


def product(sizes: Iterable[Expr]) -> Expr:
    """The product of sizes."""
    return _product(tuple(sizes))


@lru_cache(maxsize=1 << 14)
def _product(sizes: tuple[Expr, ...]) -> Expr:
    total: Expr = ONE
    for size in sizes:
        total = total * size
    return total


class AxisPool:
    """Loop variables by number and size: the same for groups that look the same, with ranges that are known."""

    def __init__(self, facts: Facts, size_facts: Facts) -> None:
        self.facts = facts
        self.size_facts = size_facts
        self.sizes: dict[Symbol, Expr] = {}
        self._symbols: dict[tuple[int, Expr], Symbol] = {}
        self._taken: dict[int, int] = {}
        self._simple: dict[Expr, Expr] = {}
        self._below: dict[tuple[Expr, Expr], bool] = {}

    def axis(self, number: int, size: Expr) -> Symbol:
        """The loop variable of that number and size."""
        symbol = self._symbols.get((number, size))
        if symbol is None:
            same = self._taken.get(number, 0)
            self._taken[number] = same + 1
            symbol = shapes.symbol(f"g{number}" + (f"_{same}" if same else ""))
            self._symbols[number, size] = symbol
            self.sizes[symbol] = size
            self.facts.add_index(symbol, size)
        return symbol

    def simplify(self, expr: Expr) -> Expr:
        """An index expression with divisions resolved where the ranges of axes allow."""
        if not has_call(expr):
            return expr
        simple = self._simple.get(expr)
        if simple is None:
            inside = not self.sizes.keys().isdisjoint(expr.free_symbols)
            simple = self._simple[expr] = shapes.simplify_under_ranges(expr, self.facts if inside else self.size_facts)
        return simple

    def is_below(self, expr: Expr, bound: Expr) -> bool:
        """Whether ``0 <= expr < bound`` is known."""
        known = self._below.get((expr, bound))
        if known is None:
            known = self._below[expr, bound] = self._is_below(expr, bound)
        return known

    def _is_below(self, expr: Expr, bound: Expr) -> bool:
        if isinstance(expr, Symbol) and self.sizes.get(expr) is bound:
            return True
        if isinstance(expr, Const) and isinstance(bound, Const):
            return 0 <= int(expr) < int(bound)
        return self.facts.decide(expr >= 0) is True and self.facts.decide(expr < bound) is True

    def same(self, a: Expr, b: Expr) -> bool:
        """Whether two sizes are known to be equal."""
        if a is b:
            return True
        if a.is_constant and b.is_constant:
            return False
        return self.size_facts.decide(shapes.eq(a, b)) is True


@lru_cache(maxsize=1 << 14)
def has_call(expr: Expr) -> bool:
    """Whether there is anything in an expression but sums and products of symbols."""
    if isinstance(expr, shapes.Call):
        return True
    return any(map(has_call, expr.args))


def digits(expr: Expr, axes: Sequence[Symbol], sizes: Mapping[Symbol, Expr]) -> list[Symbol] | None:
    """The axes of an expression that counts through them like digits, most significant first; None if it does not.

    ``M*j0 + j1`` with ``j1 < M`` has the digits j0 and j1.
    """
    parts = linear(expr, frozenset(axes))
    if parts.rest is not ZERO or not parts.strides:
        return None
    symbols: list[Symbol] = []
    wanted: Expr = ONE
    while len(symbols) < len(parts.strides):
        axis = next((axis for axis, stride in parts.strides.items() if stride is wanted and axis not in symbols), None)
        if axis is None:
            return None
        symbols.append(axis)
        wanted = wanted * sizes[axis]
    return symbols[::-1]


@lru_cache(maxsize=1 << 12)
def coordinates(store: Expr, kept: tuple[Symbol, ...], load: Expr) -> dict[Symbol, Expr] | None:
    """The point of ``kept`` at which ``store`` writes the element that ``load`` reads; None when it is not clear.

    The strides of ``store`` must be those of a layout without overlaps. A coordinate may still be beyond its axis.
    """
    axes = frozenset(kept)
    written = linear(store, axes)
    if written.rest.free_symbols & axes or written.strides.keys() != axes:
        return None
    order = sorted(kept, key=lambda axis: -estimate(written.strides[axis]))
    difference = load - written.rest
    constant, terms = polynomials.parts(difference)
    places: dict[Symbol, Expr] = {axis: ZERO for axis in kept}
    rest = [polynomials.scale(monomial, coefficient) for monomial, coefficient in terms]
    if constant:
        rest.append(shapes.const(constant))
    for term in rest:
        for axis in order:
            stride = written.strides[axis]
            if isinstance(stride, Const):
                whole = _divide_const(term, int(stride))
            else:
                whole, left = polynomials.split_divisible(term, stride)
                whole = whole if left is ZERO else None
            if whole is not None:
                places[axis] = places[axis] + whole
                break
        else:
            return None
    return places


def _divide_const(term: Expr, number: int) -> Expr | None:
    constant, terms = polynomials.parts(term)
    if number == 0 or constant % number or any(coefficient % number for _, coefficient in terms):
        return None
    return polynomials.divide_const(term, number)
