"""Gives generated code the user's line numbers by rewriting its line table, without another trip through the parser."""

from __future__ import annotations

import types
from collections.abc import Sequence

# Entries of `co_locations` (Python 3.11 and 3.12): a kind, a length of 1 to 8 code units, then the data of the kind.
_LINE_ONLY, _NO_LOCATION = 13, 15
_CODE_UNIT = 2


def with_lines(code: types.CodeType, lines: Sequence[int], filename: str) -> types.CodeType:
    """The same code in another file, where line `n` of the source (from 1) has become line ``lines[n - 1]``."""
    table = bytearray()
    first = lines[code.co_firstlineno - 1]
    last = first
    for start, end, line in code.co_lines():
        units = (end - start) // _CODE_UNIT
        while units:
            length = min(units, 8)
            units -= length
            if line is None:
                table.append(0x80 | _NO_LOCATION << 3 | length - 1)
                continue
            now = lines[line - 1] if line <= len(lines) else last
            table.append(0x80 | _LINE_ONLY << 3 | length - 1)
            _append_signed(table, now - last)
            last = now
    consts = tuple(
        with_lines(const, lines, filename) if isinstance(const, types.CodeType) else const for const in code.co_consts
    )
    return code.replace(co_linetable=bytes(table), co_firstlineno=first, co_filename=filename, co_consts=consts)


def _append_signed(table: bytearray, number: int) -> None:
    rest = -number << 1 | 1 if number < 0 else number << 1
    while rest >= 0x40:
        table.append(0x40 | rest & 0x3F)
        rest >>= 6
    table.append(rest)
