"""Where the two ways on from a conditional jump meet again.

    if c:           2  POP_JUMP_IF_FALSE 5      meets at 6
        x = a       3  ...  JUMP 6
    else:
        x = b       5  ...
    return x        6
"""

from __future__ import annotations

from typing import cast

from .instructions import JUMPS, TERMINATORS, DecodedCode


def join_point(decoded: DecodedCode, index: int) -> int | None:
    """The first instruction that both ways come to; -1 when they only meet in the caller, None if they never do.

    Ways that end in an exception are left out.

    >>> from firesteel.capture.bytecode import decode
    >>> def f(c, x):
    ...     if c:
    ...         return x + 1
    ...     return x
    >>> code = decode(f.__code__)
    >>> [join_point(code, i.index) for i in code.instructions if i.op == "POP_JUMP_IF_FALSE"]
    [-1]
    """
    known = decoded.facts.get("join_points")
    if known is None:
        known = decoded.facts["join_points"] = _passed_by_all(decoded)
    passed = cast("list[int]", known)
    rest = passed[index] & ~(1 << index)
    leaving = 1 << len(passed)
    if rest == leaving:
        return -1
    candidates = rest & ~leaving
    while candidates:
        lowest = candidates & -candidates
        at = lowest.bit_length() - 1
        if passed[at] == rest:
            return at
        candidates ^= lowest
    return None


def _passed_by_all(decoded: DecodedCode) -> list[int]:
    """For every instruction the set of those that all ways from it to a return go through, as bits."""
    instructions = decoded.instructions
    count = len(instructions)
    everything = (1 << (count + 1)) - 1
    passed = [everything] * count
    changed = True
    while changed:
        changed = False
        for index in range(count - 1, -1, -1):
            instruction = instructions[index]
            if instruction.op in ("RETURN_VALUE", "RETURN_CONST"):
                common = 1 << count
            else:
                common = everything
                if instruction.op not in TERMINATORS:
                    common &= passed[index + 1]
                if instruction.op in JUMPS:
                    common &= passed[cast(int, instruction.argval)]
            now = common | (1 << index)
            if now != passed[index]:
                passed[index] = now
                changed = True
    return passed
