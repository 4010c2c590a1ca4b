"""Which loop becomes vectors, of how many lanes, and how much work a loop is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

import torch

from ...shapes import Const, Expr, Symbol, as_expr
from ..ir import Assign, Axis, Loop, Place, Reduce, Scan, Statement, Store, Value
from ..operations import HEAVY
from .indices import split

LIGHT = 12
"""Bodies of no more nodes than this are unrolled."""

TINY = 8
"""Loops of no more iterations than this are not worth vectors of their own."""


def statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """All statements inside, outer ones first."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from statements(statement.body)


def values(statement: Statement) -> tuple[Value, ...]:
    """The values that a statement computes itself."""
    if isinstance(statement, Loop):
        return ()
    if isinstance(statement, (Store, Scan)):
        return (statement.value, *statement.args)
    return (statement.value,)


def nodes(body: Sequence[Statement]) -> Collection[Value]:
    """All nodes of all values, each once."""
    distinct: dict[Value, None] = {}
    for statement in statements(body):
        for value in values(statement):
            distinct.update(dict.fromkeys(value.walk()))
    return distinct.keys()


def own_axes(statement: Statement) -> tuple[Axis, ...]:
    """The loops that a statement brings along."""
    if isinstance(statement, Reduce):
        return statement.axes
    return (statement.axis,) if isinstance(statement, (Scan, Loop)) else ()


def _depends(value: Value, axis: Symbol, tainted: set[str]) -> bool:
    symbols, locals_ = _mentioned(value)
    return axis in symbols or not locals_.isdisjoint(tainted)


@lru_cache(maxsize=1 << 12)
def _mentioned(value: Value) -> tuple[frozenset[Symbol], frozenset[str]]:
    """The symbols in the indices of a value, and the locals."""
    symbols: set[Symbol] = set()
    locals_: set[str] = set()
    for node in value.walk():
        if node.op == "index":
            symbols |= node.data.free_symbols
        elif node.op == "load":
            symbols |= node.data.index.free_symbols
        elif node.op == "local":
            locals_.add(node.data)
    return frozenset(symbols), frozenset(locals_)


def accesses(body: Sequence[Statement]) -> Iterator[tuple[Place, tuple[Value, ...], bool]]:
    """The places that statements read and write, with the values behind their symbols; True for those written."""
    for node in nodes(body):
        if node.op == "load":
            yield node.data, node.args, False
    for statement in statements(body):
        if isinstance(statement, (Store, Scan)):
            yield statement.place, statement.args, True


def contiguous(body: Sequence[Statement], axis: Symbol, inside: Sequence[Axis] = ()) -> tuple[int, int]:
    """How many accesses go along an axis element by element, and how many jump.

    With loops ``inside``, accesses that stay where they are in these do not count: they are done once, before them.
    """
    good = bad = 0
    inner = {each.symbol for each in inside}
    tainted: set[str] = set()
    for statement in statements(body):
        if isinstance(statement, (Assign, Reduce)) and _depends(statement.value, axis, tainted):
            tainted.add(statement.name)
    for place, args, written in accesses(body):
        if inner and not place.indirect and inner.isdisjoint(place.index.free_symbols):
            continue
        moving = [symbol for symbol, value in zip(place.indirect, args, strict=False) if _depends(value, axis, tainted)]
        parts = split(place.index, axis, moving)
        if parts is None:
            bad += 1
        elif isinstance(parts[0], Const):
            if parts[0].value in (1, -1):
                good += 2 if written else 1
            elif parts[0].value:
                bad += 1
        else:
            bad += 1
    return good, bad


def innermost(loop: Loop) -> bool:
    return not any(own_axes(statement) for statement in statements(loop.body))


def vectorise_here(loop: Loop) -> bool:
    """Whether this loop's consecutive iterations should be lanes, rather than those of a loop inside."""
    if any(_collides(statement, loop.axis.symbol) for statement in statements(loop.body)):
        return False
    if innermost(loop):
        return True
    if _constant(loop.axis.size) == 1:
        return False
    # Lanes go round a loop inside equally often.
    if any(loop.axis.symbol in axis.size.free_symbols
           for statement in statements(loop.body) for axis in own_axes(statement)):
        return False
    # What is done once per iteration counts for nothing beside what is done in the loops inside.
    good = bad = inner_good = inner_bad = 0
    tiny = True
    for statement in statements(loop.body):
        axes = own_axes(statement)
        if not axes:
            continue
        tiny = tiny and _at_most(axes, TINY)
        if isinstance(statement, Loop):
            if not innermost(statement):
                continue
            inside: Sequence[Statement] = statement.body
        else:
            inside = [statement]
        here = contiguous(inside, loop.axis.symbol, axes)
        good, bad = good + here[0], bad + here[1]
        if isinstance(statement, Scan):
            inner_bad += 1  # it has no lanes along its own axis
            continue
        # A reduction may choose among its axes.
        side_by_side = [contiguous(inside, axis.symbol) for axis in axes]
        best = max(side_by_side, key=lambda pair: pair[0] - pair[1])
        inner_good, inner_bad = inner_good + best[0], inner_bad + best[1]
    if tiny:
        return good > 0 or inner_good == 0
    return good > inner_good or (good > 0 and good == inner_good and bad < inner_bad)


def _at_most(axes: Sequence[Axis], limit: int) -> bool:
    """Whether loops are known to have no more iterations than that together."""
    product = 1
    for axis in axes:
        size = _constant(axis.size)
        if size is None:
            return False
        product *= size
    return product <= limit


def _collides(statement: Statement, axis: Symbol) -> bool:
    """Whether different iterations may write the same element in a way that is not plain: they must take turns."""
    if isinstance(statement, Scan):
        return not statement.place.indirect and axis not in statement.place.index.free_symbols
    if not isinstance(statement, Store):
        return False
    if statement.place.indirect:
        return statement.mode != "set" and not _moves_alone(statement, axis)
    if axis not in statement.place.index.free_symbols:
        return True  # such as scratch memory, which every iteration fills for itself
    return statement.mode != "set" and split(statement.place.index, axis) is None


def _moves_alone(statement: Store, axis: Symbol) -> bool:
    """Whether the place goes on by one element with an axis that none of its computed indices depend on."""
    if any(node.op == "local" for arg in statement.args for node in arg.walk()):
        return False
    parts = split(statement.place.index, axis)
    alone = not any(_depends(arg, axis, set()) for arg in statement.args)
    return alone and parts is not None and isinstance(parts[0], Const) and parts[0].value == 1


def _constant(expr: Expr) -> int | None:
    return int(expr.value) if isinstance(expr, Const) else None


def lanes_for(body: Sequence[Statement], vector_bytes: int) -> int:
    """How many lanes: as many as fit the commonest kind of value, two registers of wider ones being no harm."""
    sizes: set[int] = set()
    for node in nodes(body):
        if node.op in ("const", "number", "index"):
            continue
        sizes.add(max(node.dtype.itemsize, 1) if node.dtype is not torch.bool or node.op == "load" else 1)
    for statement in statements(body):
        if isinstance(statement, (Reduce, Scan)):
            sizes.add(statement.dtype.itemsize)
    if not sizes:
        sizes = {8}
    widest = max(sizes)
    if widest == 8 and any(size in (2, 4) for size in sizes):
        widest = 4
    return max(vector_bytes // max(widest, 2), 2)


def registers(body: Sequence[Statement]) -> int:
    """How many registers a vector should fill. Where other loops run inside, they then go along whole cache lines."""
    if not any(own_axes(statement) and not _at_most(own_axes(statement), TINY) for statement in statements(body)):
        return 1
    return 2 if any(node.op in HEAVY for node in nodes(body)) else 4


def weight(body: Sequence[Statement]) -> Expr:
    """About how much work one run of these statements is, in reads of an element."""
    total = as_expr(0)
    for statement in body:
        if isinstance(statement, Loop):
            # The size of a loop inside may depend on this one's variable (blocks): the first iteration speaks for all.
            inside = weight(statement.body).substitute({statement.axis.symbol: as_expr(0)})
            total = total + statement.axis.size * inside
            continue
        amount = 1 if isinstance(statement, (Store, Scan)) else 0
        own = as_expr(max(amount + sum(map(_work, values(statement))), 1))
        for axis in own_axes(statement):
            own = own * axis.size
        total = total + own
    return total


@lru_cache(maxsize=1 << 12)
def _work(value: Value) -> int:
    return sum([1 if node.op == "load" else 8 for node in value.walk() if node.op == "load" or node.op in HEAVY])


def unroll(body: Sequence[Statement]) -> int:
    """How many vectors an iteration takes."""
    operations = [node.op for node in nodes(body)]
    count = sum([op not in ("const", "local", "number", "index") for op in operations])
    heavy = not HEAVY.isdisjoint(operations)
    return 1 if heavy or count > LIGHT else 2
