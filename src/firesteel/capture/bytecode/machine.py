"""CPython's own instructions of a code object, without caches and prefixes, ready to be changed and assembled again.

This is the layer below the normal form of `instructions.py`: one `MachineInstruction` per real opcode of the running
Python, jumps as positions in the list. A few opcodes do two things at once; they are split here into opcodes that
exist as well, so that every point between two normalised instructions is a point in this list:

    LOAD_GLOBAL (NULL + name)        ->  PUSH_NULL; LOAD_GLOBAL name                       (3.13: the other way round)
    RETURN_CONST c                   ->  LOAD_CONST c; RETURN_VALUE                        (3.12, 3.13)
    JUMP_IF_FALSE_OR_POP t           ->  COPY 1; POP_JUMP_FORWARD_IF_FALSE t; POP_TOP      (3.11)
    LOAD_FAST_LOAD_FAST a, b         ->  LOAD_FAST a; LOAD_FAST b                          (3.13, stores too)
    COMPARE_OP (bool)                ->  COMPARE_OP; TO_BOOL                               (3.13)

3.14 has loads that borrow a variable's reference; here they are loads like others, because an entry in mid-code may
find the variable moved.
"""

from __future__ import annotations

import dataclasses
import dis
import opcode
import sys
import types
from collections.abc import Iterator


def _cache_entries() -> list[int]:
    """How many units of cache follow each opcode: a list by opcode until 3.12, a dictionary by name from 3.13 on."""
    known = opcode._inline_cache_entries  # type: ignore[attr-defined]
    return known if isinstance(known, list) else [known.get(name, 0) for name in dis.opname]


CACHE_ENTRIES = _cache_entries()
CALLABLE_FIRST = sys.version_info >= (3, 13)
"""Whether a call's function stands below the slot for its receiver, which is NULL if there is none, or above it."""

KEYWORDS_OR_NULL = dis.opmap["CALL_FUNCTION_EX"] < dis.HAVE_ARGUMENT
"""Whether CALL_FUNCTION_EX always takes keywords, which may be NULL (3.14), or says whether there are any."""
LASTI_IS_NO_OBJECT = sys.version_info >= (3, 14)
"""Whether the lasti that a handler finds on the stack is a number of the interpreter that variables cannot hold."""

_EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]
_JUMPS = frozenset(dis.hasjrel)
POINTS_BACKWARD = frozenset(name for name in dis.opmap if "BACKWARD" in name or name == "END_ASYNC_FOR")
"""Opcodes whose target is before them."""
JUMPS_NEVER = frozenset({"END_ASYNC_FOR"})
"""Opcodes that point at an instruction, from 3.14 on, but do not go there: tools that watch branches are told of it."""

_PAIRS = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
}
_OWNING = {"LOAD_FAST_BORROW": "LOAD_FAST"}
_COMPARES_TO_BOOL = 16

Positions = dis.Positions


@dataclasses.dataclass(slots=True)
class MachineInstruction:
    """One real opcode; `target` is the list position it points at, `offset` the byte offset it came from."""

    name: str
    arg: int
    positions: Positions
    offset: int
    target: int | None = None
    region: ExceptionRange | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ExceptionRange:
    """What the exception table says about an instruction: where an exception goes, and with how much of the stack."""

    target: int
    depth: int
    push_lasti: bool


@dataclasses.dataclass(frozen=True, slots=True)
class MachineCode:
    """A code object's instructions, and the list position that stands for each original byte offset."""

    instructions: list[MachineInstruction]
    position_of_offset: dict[int, int]


def _read_varint(stream: Iterator[int]) -> int:
    byte = next(stream)
    value = byte & 63
    while byte & 64:
        byte = next(stream)
        value = (value << 6) | (byte & 63)
    return value


def read_exception_table(table: bytes) -> list[tuple[int, int, int, int, bool]]:
    """Entries (start, end, target, depth, push_lasti) of `co_exceptiontable`, in bytes, the end excluded."""
    entries: list[tuple[int, int, int, int, bool]] = []
    stream = iter(table)
    while True:
        try:
            start = _read_varint(stream) * 2
        except StopIteration:
            return entries
        end = start + _read_varint(stream) * 2
        target = _read_varint(stream) * 2
        depth_and_lasti = _read_varint(stream)
        entries.append((start, end, target, depth_and_lasti >> 1, bool(depth_and_lasti & 1)))


def read_machine_code(code: types.CodeType) -> MachineCode:
    """Read the instructions of `code` as the compiler wrote them (never the specialised or instrumented ones)."""
    raw = code.co_code
    positions = [Positions(*entry) for entry in code.co_positions()]
    instructions: list[MachineInstruction] = []
    position_of_offset: dict[int, int] = {}
    jumps: list[tuple[MachineInstruction, int]] = []
    offset = start = 0
    extended = 0
    while offset < len(raw):
        op, arg = raw[offset], raw[offset + 1] | extended
        if op == _EXTENDED_ARG:
            extended = arg << 8
            offset += 2
            continue
        extended = 0
        name = dis.opname[op]
        where = positions[offset // 2]
        after = offset + 2 + 2 * CACHE_ENTRIES[op]
        # A jump to an instruction with prefixes goes to the first prefix.
        position_of_offset[start] = position_of_offset[offset] = len(instructions)
        if name == "LOAD_GLOBAL" and arg & 1:
            pair = [MachineInstruction("PUSH_NULL", 0, where, offset),
                    MachineInstruction("LOAD_GLOBAL", arg & ~1, where, offset)]
            instructions.extend(reversed(pair) if CALLABLE_FIRST else pair)
        elif name in _PAIRS:
            first, second = _PAIRS[name]
            instructions.append(MachineInstruction(first, arg >> 4, where, offset))
            instructions.append(MachineInstruction(second, arg & 15, where, offset))
        elif name == "COMPARE_OP" and CALLABLE_FIRST and arg & _COMPARES_TO_BOOL:
            instructions.append(MachineInstruction("COMPARE_OP", arg & ~_COMPARES_TO_BOOL, where, offset))
            instructions.append(MachineInstruction("TO_BOOL", 0, where, offset))
        elif name == "RETURN_CONST":
            instructions.append(MachineInstruction("LOAD_CONST", arg, where, offset))
            instructions.append(MachineInstruction("RETURN_VALUE", 0, where, offset))
        elif name in ("JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP"):
            jump_name = "POP_JUMP_FORWARD_IF_FALSE" if name == "JUMP_IF_FALSE_OR_POP" else "POP_JUMP_FORWARD_IF_TRUE"
            instructions.append(MachineInstruction("COPY", 1, where, offset))
            jump = MachineInstruction(jump_name, 0, where, offset)
            instructions.append(jump)
            jumps.append((jump, after + 2 * arg))
            instructions.append(MachineInstruction("POP_TOP", 0, where, offset))
        else:
            instruction = MachineInstruction(_OWNING.get(name, name), arg, where, offset)
            instructions.append(instruction)
            if op in _JUMPS:
                jumps.append((instruction, after - 2 * arg if name in POINTS_BACKWARD else after + 2 * arg))
        start = offset = after
    for jump, target_offset in jumps:
        jump.target = position_of_offset[target_offset]
    _attach_regions(code, instructions, position_of_offset)
    return MachineCode(instructions, position_of_offset)


def _attach_regions(
    code: types.CodeType, instructions: list[MachineInstruction], position_of_offset: dict[int, int]
) -> None:
    if not code.co_exceptiontable:
        return
    entries = [
        (start, end, ExceptionRange(position_of_offset[target], depth, lasti))
        for start, end, target, depth, lasti in read_exception_table(code.co_exceptiontable)
    ]
    # Entries are sorted and do not overlap: the compiler already chose the innermost one for every instruction.
    current = 0
    for instruction in instructions:
        while current < len(entries) and entries[current][1] <= instruction.offset:
            current += 1
        if current == len(entries):
            return
        if entries[current][0] <= instruction.offset:
            instruction.region = entries[current][2]
