"""Transposed access in square tiles: vectors are read along one axis, turned in registers and used along the other.

    for i: for j: out[n*i + j] = f(x[m*j + i])

Read along j, every element of x is in a cache line of its own. So for each tile of as many rows as there are lanes, x
is read along i, the tile is transposed, and the rows of the tile find their vectors of x ready: in registers where the
body is short, in a small buffer otherwise. Tiles are done block by block, each longer along x than along out: going
along the lines that are read is what the machine foresees.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ...shapes import Const, Expr, Symbol
from ..ir import Loop, Place, Store, Value
from . import vectorising
from .indices import split
from .operands import Operand, memory_type
from .statements import StatementEmitter

ROWS = 256
"""Rows of a block: their pieces of x are neighbours in memory."""

LONG = 1024
"""Rows of a block whose results go past the cache. These take nothing from the cache by being far apart, so that lines
that are read one after the other are all that counts."""

UNIT = 64
"""Rows that are not split between threads, where those of one thread follow each other."""

COLUMNS = 64
"""Columns of a block."""

WIDEST = 16
"""Rows and columns of a tile at most: so many vectors there are registers for."""

LIGHT = 8
"""Bodies of no more nodes than this are written once for each row of a tile."""


def applies(loop: Loop, written: frozenset[str]) -> bool:
    """Whether a nest of two loops asks for tiles and has loads that gain from them."""
    if not loop.tile or len(loop.body) != 1:
        return False
    inner = loop.body[0]
    return isinstance(inner, Loop) and vectorising.innermost(inner) and any(_transposed(loop, inner, written))


def _transposed(loop: Loop, inner: Loop, written: frozenset[str]) -> Iterator[Value]:
    """Loads that are contiguous along the outer loop and strided along the inner one."""
    for node in vectorising.nodes(inner.body):
        if node.op != "load" or node.args or node.data.buffer in written or node.dtype is torch.bool:
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
    tiles = _Tiles(e, loop)
    past_cache = tiles.can_stream(start) if e.large is not None else None
    if past_cache is None:
        tiles.emit(start, end)
        return
    with e.guard(past_cache):
        e.stream = True
        tiles.emit(start, end)
        e.stream = False
        e.fence()
    with e.guard(e.binary("xor", past_cache, Operand("true", past_cache.dtype, 1))):
        tiles.emit(start, end)


class _Tiles:
    """A nest of two loops, the outer one's variable along what is read."""

    def __init__(self, e: StatementEmitter, loop: Loop) -> None:
        inner = loop.body[0]
        assert isinstance(inner, Loop)
        self.e, self.loop, self.inner = e, loop, inner
        self.rows, self.columns = loop.axis.symbol, inner.axis.symbol
        self.width = min(vectorising.lanes_for(inner.body, e.target.vector_bytes), WIDEST)
        self.buffers: dict[Value, str] = {}
        self.loads = list(_transposed(loop, inner, e.written))
        nodes = sum(node.op not in ("const", "local", "number", "index") for node in vectorising.nodes(inner.body))
        self.in_registers = len(self.loads) == 1 and nodes <= LIGHT

    def can_stream(self, start: Operand) -> Operand | None:
        """Whether all whole tiles can be stored past the cache: such stores must be aligned."""
        e, step = self.e, self.e.target.vector_bytes
        condition = e.large
        assert condition is not None
        for statement in self.inner.body:
            if not isinstance(statement, Store) or statement.mode != "set" or statement.args:
                return None
            index, dtype = statement.place.index, e.dtypes[statement.place.buffer]
            outer = split(index, self.rows)
            if outer is None or self.width * dtype.itemsize % step:
                return None
            inner = split(outer[1], self.columns)
            if inner is None or not isinstance(inner[0], Const) or inner[0].value != 1:
                return None
            stride = e.binary("mul", e.index(outer[0]), e.integer(dtype.itemsize))
            first = e.raw(f"ptrtoint ptr {e.address(statement.place.buffer, inner[1])} to i64")
            both = e.binary("or", Operand(first, start.dtype, 1, e.place), stride)
            low = e.binary("and", both, e.integer(step - 1))
            condition = e.binary("and", condition, e.compare("eq", low, e.integer(0)))
        return condition

    def emit(self, start: Operand, end: Operand) -> None:
        """Block by block."""
        e, width = self.e, self.width
        columns = e.size(self.inner.axis.size)
        rows = LONG if e.stream else ROWS
        zero, block_rows, block_columns = e.integer(0), e.integer(rows), e.integer(COLUMNS)
        exact = columns.is_constant and int(columns.text) % width == 0 and _multiple(self.loop.axis.size, width)
        with e.loop(start, end, rows) as block, e.loop(zero, columns, COLUMNS) as strip:
            limit = e.intrinsic("smin", e.binary("add nsw", block, block_rows), end)
            side = e.intrinsic("smin", e.binary("add nsw", strip, block_columns), columns)
            with e.loop(strip, side, width, True) as left, e.loop(block, limit, width, True) as top:
                self._tile(top, limit, left, side, exact)
        e.symbols.pop(self.rows, None)

    def _tile(self, top: Operand, limit: Operand, left: Operand, side: Operand, exact: bool) -> None:
        """One tile; without masks where it is whole, as all are if `exact`."""
        e = self.e
        if exact:
            self._whole_tile(top, left)
            return
        below = e.binary("add nsw", top, e.integer(self.width))
        beyond = e.binary("add nsw", left, e.integer(self.width))
        fits = e.binary("and", e.compare("sle", below, limit), e.compare("sle", beyond, side))
        with e.guard(fits):
            self._whole_tile(top, left)
        with e.guard(e.binary("xor", fits, Operand("true", fits.dtype, 1))):
            streamed, e.stream = e.stream, False
            bottom = e.intrinsic("smin", below, limit)
            self._fill(top, left, side, e.remaining(top, limit, self.width))
            self._buffered(top, bottom, left, e.remaining(left, side, self.width))
            e.stream = streamed

    def _whole_tile(self, top: Operand, left: Operand) -> None:
        e = self.e
        if not self.in_registers:
            self._fill(top, left, None, None)
            self._buffered(top, e.binary("add nsw", top, e.integer(self.width)), left, None)
            return
        (load,) = self.loads
        for row, vector in enumerate(transposed(e, self._vectors(load, top, left, None, None))):
            at = e.binary("add nsw", top, e.integer(row))
            e.push(e.block)
            e.bind(self.rows, Operand(at.text, at.dtype, 1, e.place))
            e.ready[load] = vector
            self._along_columns(left, None)
            e.pop(e.block)
        del e.ready[load]

    def _along_columns(self, left: Operand, mask: Operand | None) -> None:
        """A vector's worth of one row."""
        e = self.e
        before = e.axis, e.lanes, e.mask
        e.axis, e.lanes, e.mask = self.columns, self.width, mask
        e.copy(self.columns, left, 0, lambda copy: e.run(self.inner.body))
        e.axis, e.lanes, e.mask = before

    def _buffered(self, top: Operand, bottom: Operand, left: Operand, mask: Operand | None) -> None:
        """The rows of a tile, whose transposed loads lie in buffers."""
        e = self.e
        with e.loop(top, bottom, 1, True) as row:
            e.bind(self.rows, row)
            offset = e.binary("mul", e.binary("sub", row, top), e.integer(self.width))
            for load in self.loads:
                e.ready[load] = e.raw(f"getelementptr {memory_type(load.dtype)}, ptr {self._buffer(load)}, "
                                      f"i64 {offset.text}")
            self._along_columns(left, mask)
        for load in self.loads:
            del e.ready[load]

    def _buffer(self, load: Value) -> str:
        if load not in self.buffers:
            kind = f"[{self.width * self.width} x {memory_type(load.dtype)}]"
            self.buffers[load] = self.e.function.alloca(kind, align=64)
        return self.buffers[load]

    def _fill(self, top: Operand, left: Operand, side: Operand | None, mask: Operand | None) -> None:
        """Leave the tiles of all transposed loads in their buffers."""
        e, width = self.e, self.width
        for load in self.loads:
            for row, vector in enumerate(transposed(e, self._vectors(load, top, left, side, mask))):
                kind, text = e.to_memory(vector)
                at = e.raw(f"getelementptr {memory_type(load.dtype)}, ptr {self._buffer(load)}, i64 {row * width}")
                e.line(f"store {kind} {text}, ptr {at}, align {width * load.dtype.itemsize}")

    def _vectors(self, load: Value, top: Operand, left: Operand, side: Operand | None,
                 mask: Operand | None) -> list[Operand]:
        """The columns of a tile, read along the outer axis."""
        e = self.e
        before = e.axis, e.lanes, e.mask
        e.axis, e.lanes, e.mask = self.rows, self.width, mask
        vectors = []
        for column in range(self.width):
            at = e.binary("add nsw", left, e.integer(column))
            if side is not None:
                # Beyond the last column that one is read again: what comes of it is not used.
                at = e.intrinsic("smin", at, e.binary("sub", side, e.integer(1)))
            e.push(e.block)
            e.bind(self.rows, Operand(top.text, top.dtype, 1, e.place))
            e.bind(self.columns, Operand(at.text, at.dtype, 1, e.place))
            vectors.append(e.load(load, []))
            e.pop(e.block)
        e.axis, e.lanes, e.mask = before
        e.symbols.pop(self.rows)
        e.symbols.pop(self.columns)
        return [Operand(vector.text, vector.dtype, vector.lanes, e.place) for vector in vectors]


def _multiple(size: Expr, of: int) -> bool:
    return isinstance(size, Const) and size.value % of == 0


def transposed(e: StatementEmitter, rows: list[Operand]) -> list[Operand]:
    """The columns of a square of vectors.

    First every square inside the 128-bit parts of the vectors is transposed, by instructions that take turns between
    elements of two vectors, then the squares change places.
    """
    width = len(rows)
    inside = min(16 // max(rows[0].dtype.itemsize, 1), width)
    groups = [_in_parts(e, rows[at:at + inside], inside) for at in range(0, width, inside)]
    turned: list[Operand] = []
    columns = [_parts_moved(e, [group[row] for group in groups], inside) for row in range(inside)]
    for part in range(width // inside):
        turned.extend([column[part] for column in columns])
    return turned


def _in_parts(e: StatementEmitter, rows: list[Operand], size: int) -> list[Operand]:
    """Squares of `size` within the parts of vectors, transposed."""
    lanes, half = rows[0].lanes, size // 2
    low = [part + pick for part in range(0, lanes, size) for at in range(half) for pick in (at, lanes + at)]
    high = [pick + half for pick in low]
    stage = 1
    while stage < size:
        rows = [e.shuffle(rows[row // 2], rows[row // 2 + half], high if row % 2 else low) for row in range(size)]
        stage *= 2
    return rows


def _parts_moved(e: StatementEmitter, vectors: list[Operand], size: int) -> list[Operand]:
    """For vectors of as many parts as there are vectors: one of all first parts, one of all second parts..."""
    lanes = vectors[0].lanes
    even = [part + lane for part in range(0, 2 * lanes, 2 * size) for lane in range(size)]
    odd = [lane + size for lane in even]

    def moved(vectors: list[Operand]) -> list[Operand]:
        """Even and odd parts of pairs: bit by bit the number of a part becomes that of a vector."""
        if len(vectors) == 1:
            return vectors
        pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
        of_even, of_odd = [moved([e.shuffle(a, b, picks) for a, b in pairs]) for picks in (even, odd)]
        return [one for both in zip(of_even, of_odd, strict=True) for one in both]

    return moved(vectors)
