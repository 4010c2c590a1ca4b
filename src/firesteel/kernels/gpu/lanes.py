"""Blocks of lanes: the part of a kernel's text that says where in its loops a program is.

A loop inside a row is one block of lanes when it is short enough, and otherwise a loop over blocks; a last block that
is not full stands behind the loop, so that the others need no mask. Rows that are run through several times, to find
their mean and then to use it, would be read from memory each time. So the last blocks of such a row (`Blocks.held`) are
printed one by one: what they have loaded stays in registers until the next time, which begins with them and goes on
backwards, with what was read last. Where that is much, the second-level cache is told to keep what is read the first
time and to forget what is read or written after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ... import shapes
from ...functional.graph import Unsupported
from ...shapes import Const, Expr, Symbol
from ...shapes.expr import ONE
from ..ir import Axis, Kernel, Place, Value
from ..scheduling.indices import linear, product
from .alignment import find_shift
from .blocks import Blocks
from .statements import bound_of, inner_spaces, loaded, longest, rows_of, stored
from .values import TritonIndexPrinter

CACHE = 1 << 25
"""Kernels that work on less than this leave all of it in the cache, and who runs next may want it there."""
_KEEP, _FORGET = ", eviction_policy='evict_last'", ", eviction_policy='evict_first'"


class LanePrinter:
    """Text of a kernel, and where its lines are: the row, the block of lanes, what is known there."""

    def __init__(self, kernel: Kernel, blocks: Blocks, wide: bool) -> None:
        self.wide = wide
        self.kernel = kernel
        self.blocks = blocks
        self.lines: list[str] = []
        self.depth = 1
        self.used: dict[str, None] = {}
        self.names: dict[Symbol, str] = {}
        self.row_axes: frozenset[Symbol] = frozenset()
        self.row_mask: str | None = None
        self.lane_mask: str | None = None
        """The mask of the lanes alone, inside of a block of them."""
        self.lanes: str | None = None
        """The shape of a block of lanes, inside of one."""
        self.whole = False
        """Whether the block of lanes is the whole loop."""
        self.lane_axes: list[Symbol] = []
        self.known: dict[Value, str] = {}
        self.spaces: dict[tuple[Axis, ...], dict[Value, str]] = {}
        """What is known in blocks of lanes that hold a whole loop: another loop over the same axes goes on with it."""
        self.held: dict[tuple[Axis, ...], list[dict[Value, str]]] = {}
        """What is known in the last blocks of rows that have been run through."""
        self.hints = blocks.held > 0 and _bytes(kernel) > CACHE
        self.hint = ""
        """What the cache is told about accesses to elements of a row."""
        self.shift = find_shift(kernel, blocks)
        along = {buffer.name: buffer.dtype.itemsize for buffer in kernel.buffers}
        inner = {axis.symbol for space in inner_spaces(kernel.body) for axis in space}
        self.widest = max([along[place.buffer] for place in (*loaded(kernel.body), *stored(kernel.body))
                           if place.buffer in along and place.index.free_symbols & inner], default=1)
        """Bytes of the widest elements that lie along a row."""
        self.counter = 0
        self.indices = TritonIndexPrinter(self.names, self.helper, kernel.signed)

    # Text

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def helper(self, name: str) -> str:
        self.used[name] = None
        return name

    def variable(self) -> str:
        self.counter += 1
        return f"t{self.counter - 1}"

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A loop of the program. What is computed inside is not known after it."""
        self.line(head)
        start = len(self.lines)
        before, spaces = dict(self.known), {axes: dict(known) for axes, known in self.spaces.items()}
        self.depth += 1
        yield
        self.depth -= 1
        self.known, self.spaces = before, spaces
        if len(self.lines) == start:
            self.lines.pop()  # all that it did is computed again where it is read

    # Rows

    def _program(self) -> str:
        return "tl.program_id(0).to(tl.int64)" if self.wide else "tl.program_id(0)"

    def _rows_end(self, total: Expr, block: int) -> None:
        if not (isinstance(total, Const) and int(total) % block == 0):
            self.line(f"x_mask = x < {self.indices.print(total)}")
            self.row_mask = "x_mask"

    def _begin_row(self) -> None:
        """Where the blocks of a row begin that is begun before its first element."""
        if self.shift is not None:
            name, row, step = self.shift.axis.name, self.indices.wrap(self.shift.row, 13), self.shift.step
            self.line(f"{name}_from = {row} // {step} * {step}")
            self.line(f"{name}_skip = {self.indices.print(self.shift.row)} - {name}_from")

    def _digits(self, whole: str, axes: Sequence[Axis]) -> None:
        """The loop variables from one long index."""
        rest = whole
        for position in range(len(axes) - 1, -1, -1):
            axis = axes[position]
            name = axis.symbol.name
            size = self.indices.wrap(axis.size, 13)
            if position:
                self.line(f"{name} = {rest} % {size}")
                above = f"{whole}{position}" if position > 1 else axes[0].symbol.name
                self.line(f"{above} = {rest} // {size}")
                rest = above
            elif name != rest:
                self.line(f"{name} = {rest}")

    # Lanes

    def _is_whole(self, axes: Sequence[Axis]) -> bool:
        bound = bound_of(size_of(axes))
        return bound is not None and bound <= self.blocks.whole

    @contextmanager
    def _lanes_of(self, axes: Sequence[Axis]) -> Iterator[str]:
        """Inside, the axes are lanes; gives the shape of a block."""
        size = size_of(axes)
        first = axes[0].symbol.name
        whole = first if len(axes) == 1 else f"{first}_all"
        outside = dict(self.known)
        self.lane_axes = [axis.symbol for axis in axes]
        rows = self.blocks.rows if self._has_rows() else 1
        if self._is_whole(axes):
            block = 1 << (max(bound_of(size) or 1, 1) - 1).bit_length()
            exact = isinstance(size, Const) and int(size) == block
            before = self.spaces.get(tuple(axes))
            own = None if exact else f"{whole}_mask"
            if before is None:
                self._forget(axes)
                self.line(f"{whole} = tl.arange(0, {block})[None, :]")
                self._lane_mask(own, whole, size)
                self._lane_digits(whole, axes)
            else:
                self.known.update(before)
                self.lane_mask = own
            self.lanes, self.whole = f"[{rows}, {block}]", True
            yield self.lanes
            self.spaces = {**self.spaces, tuple(axes): self.known}
        else:
            with self.block(f"for {whole}_start in range(0, {self._longest(axes)}, {self.blocks.lanes}):"):
                self._block_at(axes, whole, None)
                yield f"[{rows}, {self.blocks.lanes}]"
        self._leave(outside)

    def passes(self, axes: Sequence[Axis]) -> Iterator[str]:
        """For each time that the body of a loop has to be printed, its block of lanes."""
        held = self._held(axes)
        if not held:
            with self._lanes_of(axes) as lanes:
                yield lanes
            return
        block, size = self.blocks.lanes, bound_of(size_of(axes)) or 0
        first = axes[0].symbol.name
        whole = first if len(axes) == 1 else f"{first}_all"
        lanes = f"[{self.blocks.rows if self._has_rows() else 1}, {block}]"
        # Of a row that is begun before its first element, the first block stands alone, too.
        begin, before = (block, self.shift.step - 1) if self.shift is not None else (0, 0)
        looped = (-(-(size + before) // block) - held) * block
        again = tuple(axes) in self.held
        known = self.held.setdefault(tuple(axes), [{} for _ in range(held)])
        for part in ("held", "looped", "first") if again else ("first", "looped", "held"):
            outside = dict(self.known)
            if part == "first" and begin:
                self.hint = (_FORGET if again else _KEEP) if self.hints else ""
                self._block_at(axes, whole, 0)
                yield lanes
            elif part == "looped" and looped > begin:
                self.hint = (_FORGET if again else _KEEP) if self.hints else ""
                span = f"0, {looped - begin}" if again else f"{begin}, {looped}"
                with self.block(f"for {whole}_{'back' if again else 'start'} in range({span}, {block}):"):
                    if again:
                        self.line(f"{whole}_start = {looped - block} - {whole}_back")
                    self._block_at(axes, whole, None, full=True)
                    yield lanes
            elif part == "held":
                self.hint = _FORGET if self.hints else ""
                for number in range(held):
                    self.known = {**outside, **known[number]}
                    self._block_at(axes, whole, looped + number * block)
                    yield lanes
                    known[number] = self.known
            self.hint = ""
            self._leave(outside)

    def _held(self, axes: Sequence[Axis]) -> int:
        """How many blocks at the end of a loop are printed one by one."""
        size = size_of(axes)
        inside = len(axes) == 1 or (isinstance(axes[-1].size, Const) and int(axes[-1].size) % self.blocks.lanes == 0)
        if not isinstance(size, Const) or self._is_whole(axes) or not inside:
            return 0
        count, rest = divmod(int(size), self.blocks.lanes)
        if self.shift is not None:
            # Blocks that are full however far a row is begun before its first element; the first one never is.
            total = -(-(int(size) + self.shift.step - 1) // self.blocks.lanes)
            return min(max(self.blocks.held, total - count), total - 1)
        # The last block, of which a part is empty, stands alone, so that the others need no mask.
        return min(max(self.blocks.held, int(rest > 0)), count + int(rest > 0)) if count else 0

    def _block_at(self, axes: Sequence[Axis], whole: str, start: int | None, full: bool = False) -> None:
        """The variables of one block of a long loop; without ``start``, that of the loop over blocks, all of which may
        be known to be ``full``."""
        size, block = size_of(axes), self.blocks.lanes
        self._forget(axes)
        self.lane_axes = [axis.symbol for axis in axes]
        self.lane_mask = None
        ends = size.value if isinstance(size, Const) else 0
        even = ends % block == 0 and self.shift is None
        exact = full or (ends > 0 and (even or (start is not None and start + block <= ends)))
        if len(axes) > 1 and isinstance(axes[-1].size, Const) and int(axes[-1].size) % block == 0:
            self._lanes_inside(whole, axes, start)
        else:
            begin = f"{whole}_start + " if start is None else f"{start} + " if start else ""
            lanes = f"{begin}tl.arange(0, {block})[None, :]"
            if self.shift is not None:
                self.line(f"{whole}_lane = {lanes}")
                lanes = f"{whole}_lane - {whole}_skip"
            self.line(f"{whole} = {lanes}")
            if self.shift is not None and start == 0:
                self.line(f"{whole}_mask = {whole} >= 0")
                self.lane_mask = f"{whole}_mask"
            else:
                self._lane_mask(None if exact else f"{whole}_mask", whole, size)
            self._lane_digits(whole, axes)
        self.lanes, self.whole = f"[{self.blocks.rows if self._has_rows() else 1}, {block}]", False

    def _is_narrow(self, place: Place, size: int) -> bool:
        """Whether a thread could read more elements of a run at once than it can of the widest ones."""
        if not self.whole or not size < self.widest <= 4 or place.indirect or len(self.lane_axes) != 1:
            return False
        [axis] = self.lane_axes
        rows, lanes = map(int, (self.lanes or "[1, 1]").strip("[]").split(","))
        return (rows * lanes // (32 * self.blocks.warps) > 16 // self.widest
                and linear(place.index, frozenset([axis])).stride(axis) is ONE)

    def _leave(self, outside: dict[Value, str]) -> None:
        self.lanes = self.lane_mask = None
        self.lane_axes = []
        self.known = outside

    def _forget(self, axes: Sequence[Axis]) -> None:
        """Other loops take the names of these variables, so what was known of them holds no more."""
        taken = {axis.symbol for axis in axes}
        self.spaces = {others: known for others, known in self.spaces.items()
                       if not any(axis.symbol in taken for axis in others)}

    def _has_rows(self) -> bool:
        return bool(rows_of(self.kernel.body)[0])

    def _longest(self, axes: Sequence[Axis]) -> str:
        """How far a loop of blocks runs: the same for all rows, so at most as far as the longest of them."""
        rows = frozenset([axis.symbol for axis in rows_of(self.kernel.body)[0]])
        total: Expr = ONE
        for axis in axes:
            size = longest(axis.size, rows)
            if size is None:
                raise Unsupported("rows of different lengths")
            total = total * size
        return self.indices.print(total)

    def _lane_mask(self, name: str | None, whole: str, size: Expr) -> None:
        if name is not None:
            self.line(f"{name} = {whole} < {self.indices.print(size)}")
        self.lane_mask = name

    def _lanes_inside(self, whole: str, axes: Sequence[Axis], at: int | None) -> None:
        """Blocks that do not reach over the innermost axis: the others are the same for all lanes."""
        near, block = axes[-1], self.blocks.lanes
        size = bound_of(near.size) or 1
        lanes = f"tl.arange(0, {block})[None, :]"
        if at is not None:
            self.line(f"{near.symbol.name} = {f'{at % size} + ' if at % size else ''}{lanes}")
            self.line(f"{whole}_above = tl.full([], {at // size}, tl.int32)")
        else:
            # Triton sees by itself that a loop's variable is a multiple of its step, but not that the remainder is.
            start = "" if size == block else f"tl.multiple_of({whole}_start % {size}, {block}) + "
            self.line(f"{near.symbol.name} = {start}{lanes}")
            self.line(f"{whole}_above = {whole}_start // {size}")
        self._digits(f"{whole}_above", axes[:-1])
        self.lane_axes = [near.symbol]

    def _lane_digits(self, whole: str, axes: Sequence[Axis]) -> None:
        if len(axes) > 1:
            self._digits(whole, axes)


def size_of(axes: Sequence[Axis]) -> Expr:
    """How many points axes have."""
    total: Expr = shapes.const(1)
    for axis in axes:
        total = total * axis.size
    return total


def _bytes(kernel: Kernel) -> int:
    """What a kernel reads and writes, as far as sizes are known."""
    return sum((bound_of(product(buffer.shape)) or 0) * buffer.dtype.itemsize for buffer in kernel.buffers)
