"""Conditions on sizes with small ranges, decided by trying all values.

What the decision procedure of `firesteel.shapes` cannot prove may still be true of every size that was declared. Where
the ranges are finite and small, trying all of them is exact.

    >>> s0, s1 = shapes.symbol("s0"), shapes.symbol("s1")
    >>> condition = shapes.ne(s0 * s0 - 7 * s1, 3)
    >>> holds_everywhere(condition, {s0: shapes.Interval(2, 9), s1: shapes.Interval(2, 4)})
    True
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .. import shapes
from ..shapes import Expr, Interval, Symbol

MOST = 200_000
"""More combinations than this are not tried."""


def values_of(symbols: Sequence[Symbol], ranges: Mapping[Symbol, Interval]) -> Iterator[tuple[int, ...]] | None:
    """All values of some symbols; None when they are too many."""
    count = 1
    for symbol in symbols:
        interval = ranges.get(symbol)
        if interval is None or not interval.is_finite:
            return None
        count *= int(interval.upper) - int(interval.lower) + 1
        if count > MOST:
            return None
    return itertools.product(*[range(int(ranges[symbol].lower), int(ranges[symbol].upper) + 1) for symbol in symbols])


def holds_everywhere(condition: Expr, ranges: Mapping[Symbol, Interval]) -> bool:
    """Whether a condition is true of all values in the ranges; False also when they are too many to try."""
    symbols = sorted(condition.free_symbols, key=lambda symbol: symbol.name)
    if any(symbol.kind != "int" for symbol in symbols):
        return False
    values = values_of(symbols, ranges)
    if values is None:
        return False
    check = compiled(condition, symbols)
    try:
        return all(check(*one) for one in values)
    except ArithmeticError:
        return False


def compiled(expr: Expr, symbols: Sequence[Symbol]) -> Callable[..., Any]:
    """A Python function of the values of the symbols."""
    import math

    names = {symbol: f"v{i}" for i, symbol in enumerate(symbols)}
    text = f"lambda {', '.join(names.values())}: {shapes.print_python(expr, names)}"
    result: Callable[..., Any] = eval(text, {"math": math})
    return result
