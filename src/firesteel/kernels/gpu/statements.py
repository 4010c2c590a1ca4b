"""Questions about the statements of a kernel that printing it for a GPU asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...shapes import Call, Const, Expr, Symbol
from .. import ir
from ..ir import Axis, Kernel, Loop, Place, Statement, Store, Value
from ..scheduling.costs import LONG_ROW
from ..scheduling.machines import GPU


def rows_of(body: Sequence[Statement]) -> tuple[list[Axis], Sequence[Statement]]:
    """The parallel loops around everything, and what is in them."""
    axes: list[Axis] = []
    while len(body) == 1 and isinstance(loop := body[0], Loop) and loop.parallel:
        axes.append(loop.axis)
        body = loop.body
    return axes, body


def flat_nest(body: Sequence[Statement]) -> tuple[list[Axis], Sequence[Statement], bool] | None:
    """The loops of a kernel that does nothing but store at every point, what it does there, and whether in tiles."""
    axes: list[Axis] = []
    tiled = False
    if _has_long_rows(body):
        return None
    while len(body) == 1 and isinstance(loop := body[0], Loop):
        if loop.axis.size.free_symbols & {axis.symbol for axis in axes}:
            return None
        axes.append(loop.axis)
        tiled = tiled or bool(loop.tile)
        body = loop.body
    if axes and len(body) > 1 and (together := _merged(axes, body)) is not None:
        axes, body = together
    plain = all(isinstance(s, ir.Assign | Store) for s in body)
    return (axes, body, tiled) if axes and plain else None


def _has_long_rows(body: Sequence[Statement]) -> bool:
    """Whether scheduling has left the points of each row to one program."""
    axes, inside = rows_of(body)
    rows, length = 1, inside[0].axis.size if len(inside) == 1 and isinstance(inside[0], Loop) else None
    for axis in axes:
        rows *= int(axis.size) if isinstance(axis.size, Const) else 0
    return rows >= GPU.enough_rows and isinstance(length, Const) and int(length) > LONG_ROW


def _merged(axes: list[Axis], body: Sequence[Statement]) -> tuple[list[Axis], list[Statement]] | None:
    """Loops over the same points one after the other, as in a concatenation of equal parts, made one."""
    if not all(isinstance(loop, Loop) for loop in body):
        return None
    nests = [nest_of(loop) for loop in body if isinstance(loop, Loop)]
    inner = nests[0][0]
    if any(nest[0] != inner for nest in nests) or any(axis.size.free_symbols & {outer.symbol for outer in axes}
                                                      for axis in inner):
        return None
    statements = [statement for _, part in nests for statement in part]
    if not all(isinstance(s, Store) and s.mode == "set" for s in statements):
        return None
    writes = {place.buffer for place in stored(statements)}
    # Nothing is read that was written, and nothing is written twice in an order that would matter.
    if any(place.buffer in writes for place in loaded(statements)) or any(s.args for s in statements
                                                                          if isinstance(s, Store)):
        return None
    return [*axes, *inner], statements


def nest_of(loop: Loop) -> tuple[list[Axis], Sequence[Statement]]:
    """Loops that have nothing between them."""
    axes, body = [loop.axis], loop.body
    while len(body) == 1 and isinstance(inner := body[0], Loop):
        axes.append(inner.axis)
        body = inner.body
    return axes, body


def values_of(body: Sequence[Statement]) -> Iterator[Value]:
    """All values."""
    for statement in body:
        if isinstance(statement, Loop):
            yield from values_of(statement.body)
        else:
            yield statement.value
            yield from getattr(statement, "args", ())


def loaded(body: Sequence[Statement]) -> Iterator[Place]:
    """All places that are read."""
    for value in values_of(body):
        yield from (node.data for node in value.walk() if node.op == "load")


def stored(body: Sequence[Statement]) -> Iterator[Place]:
    """All places that are written."""
    for statement in body:
        if isinstance(statement, Loop):
            yield from stored(statement.body)
        elif isinstance(statement, Store | ir.Scan):
            yield statement.place


def inner_spaces(body: Sequence[Statement]) -> Iterator[tuple[Axis, ...]]:
    """The axes of each loop and reduction inside the rows."""
    for statement in rows_of(body)[1]:
        if isinstance(statement, Loop | ir.Reduce | ir.Scan):
            yield axes_of(statement)


def axes_of(statement: Statement) -> tuple[Axis, ...]:
    """What a loop, a reduction or a scan inside of a row runs over; nothing for other statements."""
    if isinstance(statement, Loop):
        return tuple(nest_of(statement)[0])
    if isinstance(statement, ir.Reduce):
        return statement.axes
    return (statement.axis,) if isinstance(statement, ir.Scan) else ()


def longest(size: Expr, rows: frozenset[Symbol]) -> Expr | None:
    """The size of an axis that depends on the row, at its largest: that of parts of which the last may be cut short.

    None where that cannot be told.
    """
    if size.free_symbols.isdisjoint(rows):
        return size
    same = [part for part in size.args if part.free_symbols.isdisjoint(rows)]
    return same[0] if same and isinstance(size, Call) and size.op == "min" else None


def bound_of(size: Expr) -> int | None:
    """How long a loop is at most, as far as its text says."""
    if isinstance(size, Const):
        return int(size.value)
    if isinstance(size, Call) and size.op == "min":
        known = [bound for bound in map(bound_of, size.operands) if bound is not None]
        return min(known, default=None)
    factors = getattr(size, "factors", None)
    if factors is not None:
        total = 1
        for base, exponent in factors:
            bound = bound_of(base)
            if bound is None:
                return None
            total *= bound**exponent
        return total
    terms = getattr(size, "terms", None)
    if terms is not None and size.const == 0 and len(terms) == 1:  # type: ignore[attr-defined]
        bound = bound_of(terms[0][0])
        return None if bound is None else bound * int(terms[0][1])
    return None


def is_wide(kernel: Kernel) -> bool:
    """Whether indices need 64 bits, or are not known not to."""
    limit = 1 << 30
    for buffer in kernel.buffers:
        last = 0
        for size, stride in zip(buffer.shape, buffer.strides, strict=True):
            if not isinstance(size, Const) or not isinstance(stride, Const):
                return True
            last += max(int(size) - 1, 0) * int(stride)
        if last >= limit:
            return True
    if not set(kernel.sizes).isdisjoint(_in_indices(kernel.body)):
        return True
    return _points(kernel.body) >= limit


def counted_axes(statement: Statement) -> tuple[Axis, ...]:
    """The axes along which the points of a statement are counted. A matrix product counts rows and columns apart."""
    if isinstance(statement, Loop | ir.Scan):
        return (statement.axis,)
    return statement.axes if isinstance(statement, ir.Reduce) and statement.kind != "dot" else ()


def _in_indices(body: Sequence[Statement]) -> set[Symbol]:
    """The symbols in the sizes of loops and in indices."""
    symbols: set[Symbol] = set()
    for statement in body:
        axes = (statement.axis,) if isinstance(statement, Loop | ir.Scan) else getattr(statement, "axes", ())
        for axis in axes:
            symbols |= axis.size.free_symbols
        if isinstance(statement, Loop):
            symbols |= _in_indices(statement.body)
    return symbols.union(*[place.index.free_symbols for place in (*loaded(body), *stored(body))])


def _points(body: Sequence[Statement]) -> int:
    most = 1
    for statement in body:
        axes = counted_axes(statement)
        inside = _points(statement.body) if isinstance(statement, Loop) else 1
        for axis in axes:
            inside *= max(bound_of(axis.size) or 1 << 40, 1)
        most = max(most, inside)
    return most


def renamed(value: Value, symbols: dict[Symbol, Expr]) -> Value:
    """A value with other loop variables."""
    copies: dict[Value, Value] = {}
    for node in value.walk():
        data = node.data
        if node.op == "load":
            data = Place(data.buffer, data.index.substitute(symbols), data.indirect, data.masked)
        elif node.op == "index":
            data = data.substitute(symbols)
        copies[node] = Value(node.op, node.dtype, tuple(copies[arg] for arg in node.args), data)
    return copies[value]
