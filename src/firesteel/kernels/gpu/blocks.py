"""How large the blocks of a GPU kernel are: a cost model over sizes and over what lies side by side in memory."""

from __future__ import annotations

from collections.abc import Sequence

from ...records import dataclass
from ...shapes import Const, Expr
from ...shapes.expr import ONE
from ..ir import Axis, Kernel, Loop, Reduce
from ..operations import FUNCTION, OPERATIONS
from ..scheduling.indices import linear
from .statements import bound_of, flat_nest, inner_spaces, loaded, rows_of, stored, values_of

PROGRAMS = 1056
"""So many programs keep a large GPU busy: eight for each multiprocessor."""
LONGEST = 16384
"""The longest row that is held in registers as a whole."""
LIKELY = 1 << 20
"""What a size that is not known counts as."""
_FUNCTIONS = frozenset(name for name, row in OPERATIONS.items() if row.cost is FUNCTION and not row.divides)
"""Arithmetic that accesses can hide behind. Most divisors of integers are constants, which costs a GPU little."""


@dataclass(frozen=True)
class Blocks:
    """Block sizes, powers of two."""

    rows: int
    """Rows of a program, or elements of a flat kernel."""
    lanes: int
    """Lanes of a loop that is run block by block."""
    whole: int
    """The longest loop that is run as one block."""
    warps: int
    second: int = 0
    """Of a tiled flat kernel, the other side of a tile."""
    held: int = 0
    """Of a row that is run through several times, how many of its last blocks stay in registers."""


def choose_blocks(kernel: Kernel) -> Blocks:
    """The blocks for a kernel."""
    nest = flat_nest(kernel.body)
    if nest is not None:
        return _flat(kernel, nest[0], nest[2])
    return _rows(kernel)


def _flat(kernel: Kernel, axes: Sequence[Axis], tiled: bool) -> Blocks:
    if tiled and len(axes) >= 2 and _known(axes[-1:]) >= 16 and _known(axes[-2:-1]) >= 16:
        side = 64 if max((buffer.dtype.itemsize for buffer in kernel.buffers), default=4) <= 2 else 32
        return Blocks(side, 1, 0, 8 if side == 64 else 4, side)
    if tiled and len(axes) >= 2 and _known(axes[-1:]) >= 64 and 1 < _known(axes[-2:-1]) < 16:
        # The short side as a whole, such as the pixels of a convolution's weight. The other way round it is what is
        # written that lies side by side in a flat kernel.
        return Blocks(64, 1, 0, 4, _power(_known(axes[-2:-1])))
    points = _known(axes)
    smallest = min((buffer.dtype.itemsize for buffer in kernel.buffers), default=4)
    # Two accesses of 16 bytes for each thread and each thing that is stored; for short types where there is arithmetic
    # to hide them behind. Many loads of single elements would take all registers.
    each = min(8, (32 if len(list(stored(kernel.body))) == 1 else 16) // max(smallest, 1))
    even = len(axes) == 1 or (isinstance(axes[-1].size, Const) and int(axes[-1].size) % 8 == 0)
    heavy = smallest == 2 and even and any(
        node.op in _FUNCTIONS for value in values_of(kernel.body) for node in value.walk())
    block = 2048 if heavy or smallest == 1 else 1024
    while block > 128 and points // block < PROGRAMS // 2:
        block //= 2
    if block < 1024:
        each, heavy = min(each, 16 // max(smallest, 1)), False  # there are not enough threads to have more in flight
    warps = max(1, min(8, block // (32 * (16 if heavy else each))))
    if block <= 512 and smallest >= 4:
        warps = 4  # so few elements take as long as one of them
    return Blocks(block, 1, 0, warps)


def _rows(kernel: Kernel) -> Blocks:
    axes, _ = rows_of(kernel.body)
    rows = _known(axes) if axes else 1
    spaces = list(inner_spaces(kernel.body))
    lengths = [bound_of(_product(space)) for space in spaces]
    longest = max([LIKELY if length is None else length for length in lengths], default=1)
    side_by_side = axes and spaces and _rows_are_near(kernel, axes, spaces)
    if side_by_side:
        block = 64
        while block > 16 and (rows // block < PROGRAMS // 4 or block > rows):
            block //= 2
        lanes = max(1, 4096 // block)
        whole = lanes if _power(longest) <= lanes else 0
        used = min(lanes, _power(longest))
        return Blocks(block, min(lanes, 64), whole, _warps(block * min(used, 64 if not whole else used), 8, 8))
    if longest <= LONGEST:
        length = _power(longest)
        block = max(1, 1024 // length)
        while block > 1 and rows // block < PROGRAMS // 2:
            block //= 2
        # More elements per thread mean more loads in flight, fewer mean more threads: at 16 both are fine.
        return Blocks(block, length, LONGEST, _warps(block * length, 16 if length >= 2048 else 8, 32))
    return _several_times(kernel, spaces) or Blocks(1, 4096, 0, 16)


def _several_times(kernel: Kernel, spaces: Sequence[tuple[Axis, ...]]) -> Blocks | None:
    """The blocks of long rows that are run through several times: to reduce them, and to use the result."""
    body = rows_of(kernel.body)[1]
    reduced = [statement for statement in body if isinstance(statement, Reduce)]
    used = any(isinstance(statement, Loop) for statement in body)
    if len(set(spaces)) != 1 or not reduced or not used or not isinstance(_product(spaces[0]), Const):
        return None
    inner = {axis.symbol for axis in spaces[0]}
    scratch = {part.name for part in kernel.scratch}  # which holds what was computed from the others
    reads = {place for place in loaded(reduced) if place.index.free_symbols & inner and place.buffer not in scratch}
    along = {place.buffer for place in (*loaded(body), *stored(body)) if place.index.free_symbols & inner}
    sizes = [buffer.dtype.itemsize for buffer in kernel.buffers if buffer.name in along]
    if not reads or any(place.indirect for place in reads) or max(sizes) > 4:
        return None
    each = 4 if max(sizes, default=4) >= 4 else 8  # elements of a thread in a block: one access
    # A thread has 64 registers. Rows that may begin at odd places need some of them for that.
    registers = 40 if int(_product(spaces[0])) % each == 0 else 32  # type: ignore[call-overload]
    return Blocks(1, 32 * 32 * each, 0, 32, held=registers // (each * len(reads)))


def _rows_are_near(kernel: Kernel, axes: Sequence[Axis], spaces: Sequence[tuple[Axis, ...]]) -> bool:
    """Whether neighbours in memory are in different rows rather than in one."""
    inner = {axis.symbol for space in spaces for axis in space}
    everything = frozenset({axis.symbol for axis in axes} | inner)
    votes = 0
    for place in (*loaded(kernel.body), *stored(kernel.body)):
        used = place.index.free_symbols & everything
        if not used & inner or not used - inner:
            continue  # what only some of them need is small
        strides = linear(place.index, everything).strides
        near = [axis for axis, stride in strides.items() if stride is ONE]
        if near:
            votes += -1 if near[0] in inner else 1
    return votes > 0


def _warps(elements: int, each: int, most: int) -> int:
    return max(1, min(most, elements // (32 * each)))


def _power(number: int) -> int:
    return 1 << (max(number, 1) - 1).bit_length()


def _product(axes: Sequence[Axis]) -> Expr:
    total: Expr = ONE
    for axis in axes:
        total = total * axis.size
    return total


def _known(axes: Sequence[Axis]) -> int:
    size = _product(axes)
    return int(size) if isinstance(size, Const) else bound_of(size) or LIKELY



