"""How many rounds the loops around a call have left, as far as their iterators say.

    for epoch in range(3):
        for x, y in loader:
            step(x, y)          called here for the 40th time: 2 rounds of `range` left, 60 of the loader

A frame that runs a ``for`` loop has the iterator on its stack. How much of the stack is filled at an instruction is in
the code; what it holds is read from the frame's memory, whose layout is that of CPython 3.11 to 3.13. Elsewhere no loop
is found.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import opcode
import operator
import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

_READABLE = (3, 11) <= sys.version_info[:2] <= (3, 13) and sys.implementation.name == "cpython" \
    and ctypes.sizeof(ctypes.c_void_p) == 8 and object.__basicsize__ == 16
_POINTER = 8
_FRAME = 24
"""Where a frame object has the address of what the interpreter runs."""
_CODE = 32 if sys.version_info < (3, 12) else 0
"""Where that has the code, to be sure that it is what it is taken for."""
_VARIABLES = 72
"""Where it has the variables, which the stack follows."""
_FOR_ITER, _EXTENDED_ARG = opcode.opmap["FOR_ITER"], opcode.EXTENDED_ARG
_CACHE = opcode.opmap["CACHE"]
_FORWARD = frozenset(number for number in opcode.hasjrel if "BACKWARD" not in opcode.opname[number])
_ENDS = frozenset(opcode.opmap[name] for name in (
    "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS",
    "RERAISE") if name in opcode.opmap)
"""Instructions behind which the next one is reached from elsewhere only."""

_SAMPLES: tuple[Any, ...] = (
    iter(range(1)), iter(range(1 << 70)), iter([]), reversed([]), iter(()), iter({}), iter({}.values()),
    iter({}.items()), iter(set()), iter(deque()), iter(""), iter(b""), itertools.repeat(None, 1))
_COUNTED = frozenset(map(type, _SAMPLES))
"""Iterators that know how many rounds are left; asking them runs no code of the program."""
_AROUND = (enumerate, zip, map, reversed)
"""Iterators that end with one of those inside of them."""
MOST_FRAMES = 60
MOST_KNOWN = 200
_KNOWN: dict[tuple[int, int], tuple[types.CodeType, int]] = {}
"""How much of the stack is filled at an instruction of a code."""


def rounds_left(frame: types.FrameType | None) -> dict[tuple[int, int], int]:
    """Of the loops that run in a frame and in its callers: the rounds that they have left.

    The keys say which loop it is: another call finds the same loop under the same key.

    >>> for _ in range(5):
    ...     left = list(rounds_left(sys._getframe()).values())[:1]
    >>> left
    [0]
    """
    found: dict[tuple[int, int], int] = {}
    for _ in range(MOST_FRAMES if _READABLE else 0):
        if frame is None:
            break
        for slot, iterator in enumerate(_iterators(frame)):
            left = _left(iterator)
            if left is not None:
                found[id(frame), slot] = left
        frame = frame.f_back
    return found


def _iterators(frame: types.FrameType) -> Iterator[Any]:
    """What lies on the stack of a frame that runs a loop, from the bottom up."""
    code = frame.f_code
    words = code.co_code
    if not _in_loop(words, frame.f_lasti):
        return
    address = _read(id(frame) + _FRAME)
    if _read(address + _CODE) != id(code):
        return
    hidden = set(code.co_cellvars).difference(code.co_varnames)
    stack = address + _VARIABLES + _POINTER * (code.co_nlocals + len(hidden) + len(code.co_freevars))
    known = _KNOWN.get((id(code), frame.f_lasti))
    if known is None or known[0] is not code:
        if len(_KNOWN) > MOST_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[id(code), frame.f_lasti] = code, filled_at(words, frame.f_lasti)
    for slot in range(known[1]):
        held = _read(stack + _POINTER * slot)
        if held:
            yield ctypes.cast(held, ctypes.py_object).value


def _read(address: int) -> int:
    return ctypes.c_size_t.from_address(address).value


def _in_loop(words: bytes, at: int) -> bool:
    """Whether an instruction stands between the head of a loop and its end."""
    operations, position = words[::2], -1
    while (position := operations.find(_FOR_ITER, position + 1)) >= 0 and 2 * position < at:
        argument, shift, before = words[2 * position + 1], 8, position - 1
        while before >= 0 and operations[before] == _EXTENDED_ARG:
            argument |= words[2 * before + 1] << shift
            shift, before = shift + 8, before - 1
        if 2 * (position + 1 + argument) > at:
            return True
    return False


def filled_at(words: bytes, at: int) -> int:
    """How many slots of the stack are filled, at least, while an instruction runs; what it works on is left out.

    Of code that only handlers of exceptions lead to, nothing is known: 0.
    """
    filled: int | None = 0
    entered: dict[int, int] = {}
    argument = 0
    for offset in range(0, at + 2, 2):
        if offset in entered:
            filled = entered[offset] if filled is None else min(filled, entered[offset])
        operation, argument = words[offset], argument << 8 | words[offset + 1]
        if operation == _EXTENDED_ARG:
            continue
        given = argument if operation >= opcode.HAVE_ARGUMENT else None
        argument = 0
        if filled is None:
            continue
        if operation in _FORWARD and given is not None:
            first = offset + 2
            while words[first] == _CACHE:
                first += 2
            target, there = first + 2 * given, filled + opcode.stack_effect(operation, given, jump=True)
            entered[target] = min(there, entered.get(target, there))
        after = filled + opcode.stack_effect(operation, given, jump=False)
        if offset == at:
            return max(min(filled, after) - 1, 0)
        filled = None if operation in _ENDS else after
    return 0


def _left(iterator: Any, depth: int = 0) -> int | None:
    """The rounds that an iterator has left; None if it does not say."""
    kind = type(iterator)
    if kind in _COUNTED:
        return operator.length_hint(iterator)
    if depth > 3:
        return None
    if kind in _AROUND or kind is types.GeneratorType:  # of a generator, the loop in it: progress bars
        inside = [part for held in gc.get_referents(iterator)
                  for part in (held if type(held) is tuple and kind is not types.GeneratorType else (held,))]
        known = [left for part in inside if (left := _left(part, depth + 1)) is not None]
        return min(known, default=None)
    loading = sys.modules.get("torch.utils.data.dataloader")
    if loading is not None and kind.__module__ == loading.__name__:
        try:  # not by way of `torch_compat`, which is not imported before something is compiled
            return max(len(iterator) - getattr(iterator, "_num_yielded", 0), 0)
        except Exception:  # of datasets without a length, or with an error in it
            return None
    return None
