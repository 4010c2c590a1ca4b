"""Long rows that begin at odd places in memory, such as those of a vocabulary of 50257 words.

Memory is read fastest 16 bytes at a time, from places that are multiples of that. Where rows have such a length that
most of them begin elsewhere, a program begins a few elements before its row, at the last such place, and its first
block of lanes leaves out what does not belong to the row.

    i1_from = 50257*i0 // 4 * 4               # where the blocks begin
    i1_skip = 50257*i0 - i1_from              # how many elements before the row
    i1_lane = i1_start + tl.arange(0, 4096)   # elements since then
    i1 = i1_lane - i1_skip                    # the loop's variable
"""

from __future__ import annotations

from collections import Counter
from math import gcd

from ...records import dataclass
from ...shapes import Const, Expr, Symbol
from ..ir import Kernel, Place, Reduce, Scan
from ..scheduling.indices import linear
from .blocks import Blocks
from .pairs import find_pair
from .statements import flat_nest, inner_spaces, loaded, rows_of, stored

ACCESS = 16
"""Bytes of one access to memory."""


@dataclass(frozen=True)
class Shift:
    """How rows are begun before their first element."""

    axis: Symbol
    """The loop variable of the elements of a row."""
    row: Expr
    """Where a row begins."""
    step: int
    """Its blocks begin at multiples of this."""

    def is_of(self, place: Place) -> bool:
        """Whether a place is an element of the row."""
        return not place.indirect and place.index - self.axis is self.row


def find_shift(kernel: Kernel, blocks: Blocks) -> Shift | None:
    """The shift of a kernel's rows; None where none is needed or possible."""
    axes, body = rows_of(kernel.body)
    spaces = set(inner_spaces(kernel.body))
    if not axes or len(spaces) != 1 or flat_nest(kernel.body) is not None:
        return None  # a kernel that only stores has no rows
    [space] = spaces
    size = space[0].size
    if len(space) != 1 or not isinstance(size, Const) or int(size) <= max(blocks.whole, 2 * blocks.lanes):
        return None
    for number, statement in enumerate(body):
        if isinstance(statement, Scan) or (isinstance(statement, Reduce) and statement.kind.startswith("arg")):
            return None  # these run through blocks in their own way
        pair = find_pair(body, number)
        if pair is not None and pair.centre is not None:
            return None  # all lanes are taken to have seen equally many elements
    axis, rows = space[0].symbol, frozenset([one.symbol for one in axes])
    scratch = {part.name for part in kernel.scratch}
    places = [place for place in dict.fromkeys((*loaded(body), *stored(body)))
              if axis in place.index.free_symbols and place.buffer not in scratch]
    begins = Counter(place.index - axis for place in places if not place.indirect)
    row, count = begins.most_common(1)[0] if begins else (None, 0)
    if row is None or axis in row.free_symbols or 2 * count <= len(places):
        return None
    parts = linear(row, rows)
    steps = [*parts.strides.values(), parts.rest]
    if not all(isinstance(step, Const) for step in steps):
        return None
    shift = Shift(axis, row, 0)
    along = {place.buffer for place in places if shift.is_of(place)}
    sizes = [buffer.dtype.itemsize for buffer in kernel.buffers if buffer.name in along]
    step = ACCESS // max(min(sizes, default=ACCESS), 1)
    if gcd(*[int(one.value) for one in steps if isinstance(one, Const)]) % step == 0:
        return None
    return Shift(axis, row, step)
