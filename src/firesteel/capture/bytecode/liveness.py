"""Which variables may still be read when execution continues at an instruction.

A backward flow analysis over the normalised instructions, exception handlers included, with one bit per variable.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, cast

from .instructions import JUMPS, TERMINATORS, DecodedCode, Instruction

# STORE_DEREF and DELETE_DEREF need the cell object itself: a closure made earlier may share it. MAKE_CELL wraps the
# value that is already there. DELETE_FAST fails on an unbound variable, so it has to know.
_READS = frozenset(
    {
        "LOAD_FAST",
        "LOAD_FAST_CHECK",
        "LOAD_FAST_AND_CLEAR",
        "DELETE_FAST",
        "MAKE_CELL",
        "LOAD_CLOSURE",
        "LOAD_DEREF",
        "STORE_DEREF",
        "DELETE_DEREF",
        "LOAD_CLASSDEREF",
        "LOAD_FROM_DICT_OR_DEREF",
    }
)

# Functions through which a frame's variables are read, or counted, without an instruction that says so.
_FRAME_READERS = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "stack", "f_locals",
                            "getweakrefcount", "getweakrefs"})


def live_locals(decoded: DecodedCode, index: int) -> frozenset[str]:
    """Names of locals and cell variables that may be read before they are written, from instruction `index` on.

    Free variables are not among them: they come with the closure. When the code can look at its own frame
    (`locals()`, `eval`, ...), every variable is live everywhere; with a zero-argument `super()`, the first parameter
    is.

    >>> from firesteel.capture.bytecode import decode
    >>> def f(a, b):
    ...     c = a + 1
    ...     return c * b
    >>> sorted(live_locals(decode(f.__code__), 0))
    ['a', 'b']
    """
    known = decoded.facts.get("liveness")
    if known is None:
        known = decoded.facts["liveness"] = _Liveness(decoded)
    return cast(_Liveness, known).names_at(index)


def reads_variables_of_frames(code: types.CodeType, names: Mapping[str, Any]) -> bool:
    """Whether code, or a function that it knows by a global name, mentions the variables of a frame."""
    if "f_locals" in code.co_names:
        return True
    readers = [names.get(name) for name in code.co_names]
    return any(type(value) is types.FunctionType and "f_locals" in value.__code__.co_names for value in readers)


def own_variables(code: types.CodeType) -> tuple[str, ...]:
    """Locals and cell variables in the order of their frame slots; free variables have the slots after these."""
    varnames = code.co_varnames
    known = set(varnames)
    return varnames + tuple(name for name in code.co_cellvars if name not in known)


class _Liveness:
    """The result of the analysis: a bit set of live variables before every instruction."""

    def __init__(self, decoded: DecodedCode) -> None:
        code = decoded.code
        self.names = own_variables(code)
        self.bits = {name: 1 << position for position, name in enumerate(self.names)}
        self.always = 0
        readers = _FRAME_READERS.intersection(code.co_names)
        if readers == {"stack"} and "inspect" not in code.co_names and not any(
                inst.op in ("LOAD_GLOBAL", "LOAD_NAME") and inst.argval == "stack" for inst in decoded.instructions):
            readers = frozenset()  # torch.stack
        if readers:
            self.always = (1 << len(self.names)) - 1
        elif code.co_argcount and "super" in code.co_names and "__class__" in code.co_freevars:
            self.always = 1
        self.live = self._solve(decoded.instructions)
        self.sets: dict[int, frozenset[str]] = {}

    def _solve(self, instructions: list[Instruction]) -> list[int]:
        count = len(instructions)
        reads, keeps = [0] * count, [-1] * count
        for instruction in instructions:
            # Free variables have no bit.
            bit = self.bits.get(instruction.argval, 0) if isinstance(instruction.argval, str) else 0
            if instruction.op in _READS:
                reads[instruction.index] = bit
            elif instruction.op == "STORE_FAST":
                keeps[instruction.index] = ~bit
        live = [0] * count
        changed = True
        while changed:
            changed = False
            for index in range(count - 1, -1, -1):
                instruction = instructions[index]
                after = 0 if instruction.op in TERMINATORS else live[index + 1]
                if instruction.op in JUMPS:
                    after |= live[cast(int, instruction.argval)]
                before = (after & keeps[index]) | reads[index]
                if instruction.handler is not None:
                    before |= live[instruction.handler.target]
                if before != live[index]:
                    live[index] = before
                    changed = True
        return live

    def names_at(self, index: int) -> frozenset[str]:
        mask = self.live[index] | self.always
        names = self.sets.get(mask)
        if names is None:
            names = self.sets[mask] = frozenset(name for name, bit in self.bits.items() if mask & bit)
        return names
