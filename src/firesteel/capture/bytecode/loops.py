"""Which loops an instruction is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from .instructions import JUMPS, DecodedCode


@dataclass(frozen=True)
class Loop:
    """The instructions from the head of a loop to its last jump back."""

    start: int
    end: int
    counted: bool
    """Whether it is a ``for`` loop."""


def loops_around(decoded: DecodedCode, index: int) -> list[Loop]:
    """The loops that an instruction is in, outermost first.

    >>> from firesteel.capture.bytecode import decode
    >>> def f(items):
    ...     for item in items:
    ...         while item > 0:
    ...             item = g(item)
    >>> code = decode(f.__code__)
    >>> call = next(i.index for i in code.instructions if i.op == "CALL")
    >>> [loop.counted for loop in loops_around(code, call)]
    [True, False]
    """
    known = decoded.facts.get("loops")
    if known is None:
        known = decoded.facts["loops"] = _loops(decoded)
    return [loop for loop in cast("list[Loop]", known) if loop.start <= index <= loop.end]


def _loops(decoded: DecodedCode) -> list[Loop]:
    ends: dict[int, int] = {}
    for instruction in decoded.instructions:
        if instruction.op in JUMPS and cast(int, instruction.argval) <= instruction.index:
            start = cast(int, instruction.argval)
            ends[start] = max(ends.get(start, 0), instruction.index)
    return [Loop(start, ends[start], decoded.instructions[start].op == "FOR_ITER")
            for start in sorted(ends, key=lambda start: (start, -ends[start]))]
