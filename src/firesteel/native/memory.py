"""The checker's rows for which objects differ and which tensors share memory.

Many objects are compared through a set: a table of slots at a fixed address, which the rows of one guard fill one after
the other. A slot belongs to the set only if it carries the set's present number, so emptying it is counting up.

    set     number, mask of slots; then per slot an address and the number with which it was written
"""

from __future__ import annotations

import ctypes

from .program import Op, Program

SPREAD = 0x9E3779B97F4A7C15 - (1 << 64)
"""An odd number whose multiples differ in their high bits."""
HEAD, SLOT = 16, 16
ALLOCATED = 2
"""In the last operand of a row: the storage has to be one that torch has allocated."""


def new_set(program: Program, members: int) -> int:
    """The address of a set with room for so many members, a quarter of its slots at most."""
    slots = 8
    while slots < 4 * members:
        slots *= 2
    words = (ctypes.c_uint64 * ((HEAD + SLOT * slots) // 8))()
    words[1] = slots - 1
    program.keep(words)
    return ctypes.addressof(words)


def all_different(program: Program, registers: list[int]) -> None:
    """Check that these registers hold different objects."""
    if len(registers) < 4:
        for position, left in enumerate(registers):
            for right in registers[position + 1:]:
                program.check(Op.NOT_SAME, left, other=right)
        return
    address = new_set(program, len(registers))
    for position, register in enumerate(registers):
        program.check(Op.NEW_OBJECT, register, address, int(position == 0))


def share_no_memory(program: Program, written: list[int], others: list[int], allocated: list[int]) -> None:
    """Check that each of the first tensors has a storage of its own, which none of the others has, and that torch has
    allocated those of the last: one that it has not may lie in the memory of another."""
    address = new_set(program, len(written))
    for position, register in enumerate(written):
        program.check(Op.NEW_STORAGE, register, address, int(position == 0) + ALLOCATED * (register in allocated))
    for register in others:
        program.check(Op.OTHER_STORAGE, register, address, ALLOCATED * (register in allocated))
