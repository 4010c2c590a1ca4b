"""Accumulation of rows, several of them in one go: a row of accumulators is read and written once for all of them.

    for r < 32:                         for r < 32 in steps of 4:
        for i: acc[i] += x[n*r + i]         for i: acc[i] = acc[i] + x[n*r + i] + ... + x[n*(r + 3) + i]

Numbers are added up in the same order.
"""

from __future__ import annotations

from ...shapes import Expr, Symbol
from .. import ir
from ..ir import Loop, Place, Store, Value
from . import vectorising
from .statements import StatementEmitter

ROWS = 4
LIGHT = 8
"""Rows of no more nodes than this are taken together."""


def applies(loop: Loop) -> bool:
    """Whether a loop does nothing but combine rows into one."""
    if len(loop.body) != 1:
        return False
    inner, row = loop.body[0], loop.axis.symbol
    if not isinstance(inner, Loop) or len(inner.body) != 1 or row in inner.axis.size.free_symbols:
        return False
    store = inner.body[0]
    if not isinstance(store, Store) or store.mode == "set" or store.args or not vectorising.vectorise_here(inner):
        return False
    if row in store.place.index.free_symbols:
        return False
    count = 0
    for node in store.value.walk():
        if node.op == "load" and (node.args or node.data.buffer == store.place.buffer):
            return False
        count += node.op not in ("const", "local", "number", "index")
    return count <= LIGHT


def emit_rows(e: StatementEmitter, loop: Loop) -> None:
    """The loop, with as many rows at once as there are, and the rest one by one."""
    inner, row = loop.body[0], loop.axis.symbol
    assert isinstance(inner, Loop)
    store = inner.body[0]
    assert isinstance(store, Store)
    total = ir.load(store.place.buffer, store.place.index, store.value.dtype)
    for distance in range(ROWS):
        total = ir.op(store.mode, total, _moved(store.value, row, distance, {}))
    together = Loop(inner.axis, [Store(store.place, total)])
    zero, end = e.integer(0), e.size(loop.axis.size)
    whole = e.whole(zero, end, ROWS)
    for start, stop, step, body in ((zero, whole, ROWS, together), (whole, end, 1, inner)):
        if start.is_constant and stop.is_constant and int(start.text) >= int(stop.text):
            continue
        with e.loop(start, stop, step, start.is_constant and stop.is_constant) as variable:
            e.bind(row, variable)
            e.emit_loop(body)
        e.symbols.pop(row, None)


def _moved(value: Value, axis: Symbol, by: int, known: dict[Value, Value]) -> Value:
    """A value of a later iteration."""
    if not by:
        return value
    moved = known.get(value)
    if moved is None:
        args = tuple([_moved(arg, axis, by, known) for arg in value.args])
        data = value.data
        if value.op == "load":
            data = Place(data.buffer, _later(data.index, axis, by))
        elif value.op == "index":
            data = _later(data, axis, by)
        moved = known[value] = Value(value.op, value.dtype, args, data)
    return moved


def _later(expr: Expr, axis: Symbol, by: int) -> Expr:
    return expr.substitute({axis: axis + by})
