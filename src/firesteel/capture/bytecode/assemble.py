"""From machine instructions back to a code object: arguments, jumps, line table and exception table.

The instructions are those of `machine.py`, possibly with others put in; positions, regions and jump directions are
kept as they are, which a round trip through a more abstract form would not promise.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Sequence

from .machine import CACHE_ENTRIES, POINTS_BACKWARD, ExceptionRange, MachineInstruction, Positions

_EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]


def assemble(code: types.CodeType, instructions: Sequence[MachineInstruction], **changes: object) -> types.CodeType:
    """`code` with `instructions` as its body; `changes` are further fields of the code object (`co_flags=...`)."""
    opcodes = [dis.opmap[instruction.name] for instruction in instructions]
    args, starts = _place(instructions, opcodes)
    body = bytearray()
    for opcode, arg in zip(opcodes, args, strict=True):
        for shift in (24, 16, 8):
            if arg >> shift:
                body += bytes((_EXTENDED_ARG, arg >> shift & 0xFF))
        body += bytes((opcode, arg & 0xFF))
        body += bytes(2 * CACHE_ENTRIES[opcode])
    assert len(body) == 2 * starts[-1]
    return code.replace(
        co_code=bytes(body),
        co_linetable=_line_table(instructions, starts, code.co_firstlineno),
        co_exceptiontable=_exception_table(instructions, starts),
        **changes,  # type: ignore[arg-type]
    )


def _prefixes(arg: int) -> int:
    return (arg > 0xFF) + (arg > 0xFFFF) + (arg > 0xFFFFFF)


def _place(instructions: Sequence[MachineInstruction], opcodes: list[int]) -> tuple[list[int], list[int]]:
    """Final arguments, and the position of every instruction in code units, the end of the code as last element."""
    args = [0 if instruction.target is not None else instruction.arg for instruction in instructions]
    jumps = [(at, i.target) for at, i in enumerate(instructions) if i.target is not None]
    while True:
        starts = [0]
        for opcode, arg in zip(opcodes, args, strict=True):
            starts.append(starts[-1] + 1 + _prefixes(arg) + CACHE_ENTRIES[opcode])
        stable = True
        for at, target in jumps:
            distance = starts[target] - starts[at + 1]
            if instructions[at].name in POINTS_BACKWARD:
                distance = -distance
            assert distance >= 0, f"{instructions[at].name} cannot go the other way"
            if distance != args[at]:
                # Never shrink: the sizes could alternate for ever.
                if _prefixes(distance) < _prefixes(args[at]):
                    raise AssertionError("a jump became shorter while the code grew")
                args[at] = distance
                stable = False
        if stable:
            return args, starts


def _varint(value: int) -> bytes:
    """A number in the line table's form: six bits a byte, the low ones first."""
    out = bytearray()
    while value >= 64:
        out.append(64 | value & 63)
        value >>= 6
    out.append(value)
    return bytes(out)


def _signed_varint(value: int) -> bytes:
    return _varint((-value << 1) | 1 if value < 0 else value << 1)


def _line_table(instructions: Sequence[MachineInstruction], starts: list[int], first_line: int) -> bytes:
    table = bytearray()
    line = first_line
    for at, instruction in enumerate(instructions):
        entry, line = _location(instruction.positions, line)
        units = starts[at + 1] - starts[at]
        while units > 0:
            length = min(units, 8)
            table.append(0x80 | entry[0] << 3 | (length - 1))
            table += entry[1]
            units -= length
            if units:
                entry, line = _location(instruction.positions, line)
    return bytes(table)


def _location(positions: Positions, line: int) -> tuple[tuple[int, bytes], int]:
    """The entry's kind and payload, and the line that the next entry counts from."""
    if positions.lineno is None:
        return (15, b""), line
    delta = _signed_varint(positions.lineno - line)
    end_line, start, end = positions.end_lineno, positions.col_offset, positions.end_col_offset
    if end_line is None or start is None or end is None:
        return (13, delta), positions.lineno
    payload = delta + _varint(end_line - positions.lineno) + _varint(start + 1) + _varint(end + 1)
    return (14, payload), positions.lineno


def _exception_varint(value: int, first: bool) -> bytes:
    """A number in the exception table's form: six bits a byte, the high ones first, the entry's start marked."""
    groups = [value & 63]
    while value := value >> 6:
        groups.append(64 | value & 63)
    groups.reverse()
    if first:
        groups[0] |= 128
    return bytes(groups)


def _exception_table(instructions: Sequence[MachineInstruction], starts: list[int]) -> bytes:
    table = bytearray()
    current: ExceptionRange | None = None
    begin = 0
    for at in range(len(instructions) + 1):
        region = instructions[at].region if at < len(instructions) else None
        if region == current:
            continue
        if current is not None:
            table += _exception_varint(starts[begin], first=True)
            table += _exception_varint(starts[at] - starts[begin], first=False)
            table += _exception_varint(starts[current.target], first=False)
            table += _exception_varint(current.depth << 1 | current.push_lasti, first=False)
        current, begin = region, at
    return bytes(table)
