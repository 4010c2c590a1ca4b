"""Transposed access in square tiles: vectors are read along one axis, turned in registers and used along the other.

    for i: for j: out[n*i + j] = f(x[m*j + i])

Read along j, every element of x is in a cache line of its own. So for each tile of as many rows as there are lanes, x
is read along i, the tile is transposed, and the loop over j finds its vectors ready in a small buffer.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...shapes import Const, Expr, Symbol
from ..ir import Loop, Place, Value
from . import vectorising
from .indices import split
from .statements import StatementEmitter
from .text import Operand, memory_type

ROWS = 64
"""Rows that are gone along together: their pieces of x are neighbours in memory."""


def applies(loop: Loop, written: frozenset[str]) -> bool:
    """Whether a nest of two loops asks for tiles and has loads that gain from them."""
    if not loop.tile or len(loop.body) != 1:
        return False
    inner = loop.body[0]
    return isinstance(inner, Loop) and vectorising.innermost(inner) and any(_transposed(loop, inner, written))


def _transposed(loop: Loop, inner: Loop, written: frozenset[str]) -> Iterator[Value]:
    """Loads that are contiguous along the outer loop and strided along the inner one."""
    for node in vectorising.nodes(inner.body):
        if node.op != "load" or node.args or node.data.buffer in written or node.dtype.itemsize not in (4, 8):
            continue
        place: Place = node.data
        outer = _coefficient(place.index, loop.axis.symbol)
        along = split(place.index, inner.axis.symbol)
        if outer == 1 and along is not None and not (isinstance(along[0], Const) and along[0].value in (0, 1, -1)):
            yield node


def _coefficient(index: Expr, axis: Symbol) -> int | None:
    parts = split(index, axis)
    return int(parts[0].value) if parts is not None and isinstance(parts[0], Const) else None


def emit_tiles(e: StatementEmitter, loop: Loop, start: Operand, end: Operand) -> None:
    """The nest for outer iterations from `start` to `end`."""
    inner = loop.body[0]
    assert isinstance(inner, Loop)
    width = vectorising.lanes_for(inner.body, e.target.vector_bytes)
    loads = list(_transposed(loop, inner, e.written))
    buffers = [e.function.alloca(f"[{width * width} x {memory_type(load.dtype)}]", align=64) for load in loads]
    columns = e.size(inner.axis.size)
    before = e.axis, e.lanes, e.mask
    with e.loop(start, end, ROWS) as block:
        limit = e.intrinsic("smin", e.binary("add nsw", block, e.integer(ROWS)), end)
        with e.loop(e.integer(0), columns, width) as left, e.loop(block, limit, width, True) as top:
            bottom = e.intrinsic("smin", e.binary("add nsw", top, e.integer(width)), limit)
            e.axis, e.lanes, e.mask = loop.axis.symbol, width, e.remaining(top, limit, width)
            last = e.binary("sub", columns, e.integer(1))
            for load, buffer in zip(loads, buffers, strict=True):
                _fill(e, load, buffer, loop.axis.symbol, top, inner.axis.symbol, left, last)
            e.axis, e.lanes, e.mask = before
            with e.loop(top, bottom, 1, True) as row:
                e.bind(loop.axis.symbol, row)
                offset = e.binary("mul", e.binary("sub", row, top), e.integer(width))
                for load, buffer in zip(loads, buffers, strict=True):
                    e.ready[load] = e.raw(f"getelementptr {memory_type(load.dtype)}, ptr {buffer}, i64 {offset.text}")
                e.axis, e.lanes = inner.axis.symbol, width
                e.mask = e.remaining(left, columns, width)
                e.copy(inner.axis.symbol, left, 0, lambda copy: e.run(inner.body))
                e.axis, e.lanes, e.mask = before
    for load in loads:
        e.ready.pop(load, None)
    e.symbols.pop(loop.axis.symbol, None)


def _fill(e: StatementEmitter, load: Value, buffer: str, rows: Symbol, top: Operand, columns: Symbol, left: Operand,
          last: Operand) -> None:
    """Read a tile along the outer axis and leave it transposed in a buffer."""
    width = e.lanes
    block = e.block
    vectors = []
    for column in range(width):
        # Beyond the last column that one is read again: what comes of it is not used.
        at = e.intrinsic("smin", e.binary("add nsw", left, e.integer(column)), last)
        e.push(block)
        e.bind(rows, Operand(top.text, top.dtype, 1, e.place))
        e.bind(columns, Operand(at.text, at.dtype, 1, e.place))
        vectors.append(e.load(load, []))
        e.pop(e.block)
    e.symbols.pop(rows)
    e.symbols.pop(columns)
    element = memory_type(load.dtype)
    for row, vector in enumerate(transposed(e, vectors)):
        at_row = e.raw(f"getelementptr {element}, ptr {buffer}, i64 {row * width}")
        e.line(f"store {vector.typed}, ptr {at_row}, align {width * load.dtype.itemsize}")


def transposed(e: StatementEmitter, rows: list[Operand]) -> list[Operand]:
    """The columns of a square of vectors: blocks off the diagonal change places, at every size of block."""
    width = len(rows)
    size = 1
    while size < width:
        upper = [lane if not lane & size else width + lane - size for lane in range(width)]
        lower = [lane + size if not lane & size else width + lane for lane in range(width)]
        following = list(rows)
        for row in range(width):
            if not row & size:
                following[row] = e.shuffle(rows[row], rows[row + size], upper)
                following[row + size] = e.shuffle(rows[row], rows[row + size], lower)
        rows, size = following, 2 * size
    return rows
