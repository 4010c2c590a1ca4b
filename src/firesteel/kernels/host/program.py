"""The table that the host machine walks: one fixed-size row per step of a native segment of a host program.

    header     number of arguments and registers; where the lists below begin and how long they are
    rows       op, destination register, source register, index, operand a, operand b
    owned      registers that hold memory, then registers that hold objects: released at the end, also after a failure
    results    registers that hold the objects to return
    lists      sizes, strides and registers that rows refer to by their place in the table

Registers start with the arguments and are 64 bits wide: the address of a Python object or of memory, a number, or the
bits of a float. Arithmetic on numbers uses the rows of the guards' checker.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from ...native.program import MAX_REGISTERS, ROW, Program
from ...native.program import Op as Arithmetic
from ...records import dataclass

HEADER = struct.Struct("=8q")
ARITHMETIC = frozenset(op for op in Arithmetic if Arithmetic.SCALE <= op <= Arithmetic.CHOOSE)


class TooManyRegisters(ValueError):
    """A segment has to be made of fewer steps: registers live on the C stack."""


class Op(enum.IntEnum):
    """What a row does. Numbers up to 63 belong to the checker."""

    INTEGER = 64  # destination = the value of the int source
    FLOAT = 65  # destination = the bits of the number source as a double
    POINTER = 66  # destination = the address of the tensor source's first element
    SIZE = 67  # destination = the size of the tensor source in dimension index
    STRIDE = 68  # destination = the stride of the tensor source in dimension index
    EMPTY = 69  # destination = a new tensor, source = the register for its address; a, b as in `Program.extents`
    VIEW = 70  # destination = a strided view of the tensor source; a, b as in `Program.extents`, plus an offset
    MEMORY = 71  # destination = memory of as many bytes as register source says
    FREE = 72  # the memory in the source register is given back
    LAUNCH = 73  # the kernel at address a, with the list at b; index: 1 to let other Python threads run meanwhile;
    # destination: its number in `launch_ranges`, here and of LAUNCH_BLOCKS
    MOVE = 74  # destination = source
    DROP = 76  # the object in the source register is let go
    LAUNCH_BLOCKS = 77  # the GPU kernel with the descriptor a, the list at b; source: how many programs
    ADVISE = 75  # the memory in the source register, of as many bytes as register a says, is to have huge pages


@dataclass
class HostProgram(Program):
    """A table under construction."""

    lists: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    objects: list[int] = field(default_factory=list)
    widest_launch: int = 1

    def row(self, op: int, destination: int = 0, source: int = 0, index: int = 0, a: int = 0, b: int = 0) -> None:
        """Add a row."""
        self.rows.append((op, destination, source, index, a, b))

    def fill(self, op: int, source: int = 0, a: int = 0, b: int = 0, index: int = 0) -> int:
        """Add a row that fills a new register."""
        register = self.register()
        self.row(op, register, source, index, a, b)
        return register

    def register(self) -> int:
        """A new register."""
        self.registers += 1
        return self.registers - 1

    def list_of(self, words: Sequence[int]) -> int:
        """Put words into the table; the result is their place among all lists."""
        self.lists.extend(words)
        return len(self.lists) - len(words)

    def extents(self, numbers: Sequence[Any], register_of: Any) -> tuple[int, bool]:
        """Where an array of numbers is: in the table if all are constants, otherwise in registers in a row.

        ``numbers`` are ints, or shape expressions that ``register_of`` finds or makes a register for.
        """
        if all(isinstance(number, int) for number in numbers):
            return self.list_of([int(number) for number in numbers]), False
        known = [number if isinstance(number, int) else register_of(number) for number in numbers]
        first = self.registers
        self.registers += len(known)
        for at, (number, register) in enumerate(zip(numbers, known, strict=True), first):
            if isinstance(number, int):
                self.row(Arithmetic.CONSTANT, at, a=number)
            else:
                self.row(Op.MOVE, at, register)
        return first, True

    def empty(self, sizes: Sequence[Any], strides: Sequence[Any], dtype: int, register_of: Any,
              device: tuple[int, int] = (0, 0)) -> tuple[int, int]:
        """A new tensor: the registers of the object and of its address. ``device``: the type's number and the index."""
        at, dynamic = self.extents([*sizes, *strides], register_of)
        tensor, address = self.register(), self.register()
        self.row(Op.EMPTY, tensor, address, len(sizes) | dynamic << 16, at, dtype | device[0] << 8 | device[1] << 16)
        self.objects.append(tensor)
        return tensor, address

    def view(self, base: int, sizes: Sequence[Any], strides: Sequence[Any], offset: Any, register_of: Any) -> int:
        """A strided view of a tensor; the offset counts from where that tensor begins in its storage."""
        at, dynamic = self.extents([*sizes, *strides, offset], register_of)
        tensor = self.register()
        self.row(Op.VIEW, tensor, base, len(sizes) | dynamic << 16, at)
        self.objects.append(tensor)
        return tensor

    def advise(self, address: int, size: int) -> None:
        """Ask for huge pages for memory that is large: a page fault for every 4 KiB takes longer than filling it.

        Both are registers.
        """
        self.row(Op.ADVISE, source=address, a=size)

    def launch(self, address: int, buffers: Sequence[int], sizes: Sequence[int], numbers: Sequence[int],
               release: bool, name: int) -> None:
        """Call a kernel with the contents of registers; ``name`` is its number in `launch_ranges`."""
        at = self.list_of([len(buffers), len(sizes), len(numbers), *buffers, *sizes, *numbers])
        self.widest_launch = max(self.widest_launch, len(buffers) + len(sizes) + len(numbers))
        self.row(Op.LAUNCH, name, index=int(release), a=address, b=at)

    def launch_blocks(self, descriptor: int, programs: int, buffers: Sequence[int], sizes: Sequence[int],
                      numbers: Sequence[int], name: int) -> None:
        """Launch a GPU kernel with the contents of registers; ``name`` as above."""
        at = self.list_of([len(buffers) + len(sizes) + len(numbers), *buffers, *sizes, *numbers])
        self.widest_launch = max(self.widest_launch, len(buffers) + len(sizes) + len(numbers))
        self.row(Op.LAUNCH_BLOCKS, name, programs, a=descriptor, b=at)

    def finish(self, results: Sequence[int], as_tuple: bool) -> tuple[bytes, tuple[Any, ...]]:
        """The table as bytes, and the objects that it needs.

        One result can be returned as it is; otherwise a tuple is.
        """
        if self.registers > MAX_REGISTERS:
            raise TooManyRegisters(self.registers)
        rows = [*self.rows, (0, 0, 0, 0, 0, 0)]
        at_owned = HEADER.size + ROW.size * len(rows)
        at_results = at_owned + 8 * (len(self.memory) + len(self.objects))
        at_lists = at_results + 8 * len(results)
        places = {Op.LAUNCH: 5, Op.LAUNCH_BLOCKS: 5}
        packed = []
        for row in rows:
            words = list(row)
            if row[0] in (Op.EMPTY, Op.VIEW):
                # The array is in the table or in registers, which the upper half of the index tells.
                if not row[3] >> 16:
                    words[4] = at_lists + 8 * row[4]
            elif row[0] in places:
                words[5] = at_lists + 8 * row[5]
            packed.append(ROW.pack(*words))
        count = len(results) if as_tuple or len(results) != 1 else -1
        header = HEADER.pack(self.arguments, max(self.registers, 1), self.widest_launch, at_owned, len(self.memory),
                             len(self.objects), at_results, count)
        words_behind = [*self.memory, *self.objects, *results, *self.lists]
        return b"".join([header, *packed, struct.pack(f"={len(words_behind)}q", *words_behind)]), \
            tuple(self.kept.values())
