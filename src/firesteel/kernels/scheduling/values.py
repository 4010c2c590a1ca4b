"""Rewriting of values: other axes, other buffers, loads replaced by what they load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache

from ... import shapes
from ...shapes import Expr, Symbol
from ..ir import Place, Value
from .indices import AxisPool, substitute

Replace = Callable[[Value], "Value | None"]


@cache
def indirect_symbol(number: int) -> Symbol:
    """The symbol for the value behind the n-th indirect index of a load."""
    return shapes.symbol(f"t{number}")


def rewrite(
    value: Value,
    axes: Mapping[Symbol, Expr],
    memo: dict[Value, Value],
    pool: AxisPool | None = None,
    replace: Replace | None = None,
) -> Value:
    """The value with axes substituted; ``replace`` sees every new load and number and may give something else."""
    known = memo.get(value)
    if known is not None:
        return known
    args = value.args and tuple([rewrite(arg, axes, memo, pool, replace) for arg in value.args])
    data = value.data
    if value.op == "load":
        data = _place(data, axes, pool)
    elif value.op == "index":
        data = _simplified(substitute(data, axes), pool)
    result = value
    if data is not value.data or args != value.args:  # equal values are the same object
        result = Value(value.op, value.dtype, args, data)
    if replace is not None and value.op in ("load", "number"):
        result = replace(result) or result
    memo[value] = result
    return result


def _simplified(expr: Expr, pool: AxisPool | None) -> Expr:
    return expr if pool is None else pool.simplify(expr)


def _place(place: Place, axes: Mapping[Symbol, Expr], pool: AxisPool | None) -> Place:
    index = _simplified(substitute(place.index, axes), pool)
    return place if index is place.index else Place(place.buffer, index, place.indirect, place.masked)


def rename_place(place: Place, buffer: str) -> Place:
    """The same place in a buffer of another name, with the names of its indirect symbols by position."""
    wanted = tuple(map(indirect_symbol, range(len(place.indirect))))
    if place.buffer == buffer and place.indirect == wanted:
        return place
    index = place.index
    if place.indirect != wanted:
        index = index.substitute(dict(zip(place.indirect, wanted, strict=True)))
    return Place(buffer, index, wanted, place.masked)


@lru_cache(maxsize=1 << 12)
def loads(value: Value) -> tuple[Value, ...]:
    """All loads in a value, each once."""
    return tuple([node for node in value.walk() if node.op == "load"])


@lru_cache(maxsize=1 << 12)
def expressions(value: Value) -> tuple[Expr, ...]:
    """All index expressions in a value, each once."""
    exprs: dict[Expr, None] = {}
    for node in value.walk():
        if node.op == "load":
            exprs.setdefault(node.data.index)
        elif node.op == "index":
            exprs.setdefault(node.data)
    return tuple(exprs)
