"""Real functions that start in the middle of a code object: what runs when a continuation is not compiled.

`make_continuation(code, index, ...)` puts a prologue before the unchanged body. The parameters are the stack, bottom
first, then the named variables; the prologue pushes the one, stores the other, and jumps:

    def f(a):                       the code object of    def <continuation>(stack_0, a, /):
        b = g(a)                                              push stack_0
        return b + a   # index: STORE_FAST b                  goto "STORE_FAST b"

What to pass, slot by slot and variable by variable:

- Every stack slot has a parameter. For a slot in `null_slots` (NULL on CPython's stack) its value is ignored.
- A slot that `handled_slots(decode(code), index)` names saves the exception that was handled before. Its argument is
  not that one but the exception that *this frame* handles since then (what `sys.exception()` gives at that level): the
  prologue starts handling it and saves what the caller of the continuation handles, so that bare `raise`,
  `sys.exception()` and `__context__` work and all is undone on the way out. Where the slot is a copy of another one
  (its value in the dict is not itself) the argument is ignored.
- A slot with the lasti that a handler pushed must get an int; which one only concerns the line of a traceback. In 3.14
  the argument is ignored: variables cannot hold a lasti, so the prologue raises and catches something to get one.
- A variable of `cells_at(decode(code), index)` is passed as the cell object, any other as its value.
- Variables not in `local_names` are unbound; if they are in `cells_at`, they are empty cells. All bound variables of
  `live_locals(decode(code), index)` should be passed.

Free variables come through the closure, in the order of the original `co_freevars`:
`types.FunctionType(made, globals, name, None, closure)`. For generator code, calling gives a generator that continues
at `index` on the first `next`.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Sequence
from typing import cast

from .assemble import assemble
from .frame_state import cells_at, handled_slots, lasti_slots
from .instructions import LOAD_FAST_UNCHECKED, SLOT_OPCODES, DecodedCode, decode
from .liveness import own_variables
from .machine import LASTI_IS_NO_OBJECT, ExceptionRange, MachineInstruction, Positions

_SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def make_continuation(
    code: types.CodeType,
    index: int,
    local_names: Sequence[str],
    stack_depth: int,
    *,
    null_slots: frozenset[int] = frozenset(),
) -> types.CodeType:
    """Code of a function that continues `code` at instruction `index` of `decode(code)`.

    The module's docstring says what its parameters are.

    >>> from firesteel.capture.bytecode import decode
    >>> def f(a):
    ...     b = a + 1
    ...     return b * a
    >>> decoded = decode(f.__code__)
    >>> store_b = next(i.index for i in decoded.instructions if i.op == "STORE_FAST")
    >>> rest = types.FunctionType(make_continuation(f.__code__, store_b, ["a"], 1), globals())
    >>> rest(100, 2)
    200
    """
    decoded = decode(code)
    if decoded.depths[index] != stack_depth:
        raise ValueError(f"the stack has {decoded.depths[index]} slots before instruction {index}, not {stack_depth}")
    memo = cast("dict[object, types.CodeType]", decoded.facts.setdefault("continuations", {}))
    key = (index, tuple(local_names), stack_depth, null_slots)
    continuation = memo.get(key)
    if continuation is None:
        continuation = memo[key] = _Builder(decoded, *key).build()
    return continuation


class _Builder:
    """Builds one continuation: the prologue, and the body moved behind it."""

    def __init__(
        self,
        decoded: DecodedCode,
        index: int,
        local_names: tuple[str, ...],
        stack_depth: int,
        null_slots: frozenset[int],
    ) -> None:
        code = decoded.code
        self.decoded = decoded
        self.code = code
        self.index = index
        self.local_names = local_names
        self.stack_depth = stack_depth
        self.null_slots = null_slots
        self.parameter_count = stack_depth + len(local_names)
        # Parameters take the first slots of the frame, whatever variable has its home there; the prologue sorts that
        # out. So all variables keep their slots, which zero-argument super() and locals() rely on.
        self.padding = max(0, self.parameter_count - len(code.co_varnames))
        own = own_variables(code)
        unknown = set(local_names).difference(own)
        if unknown or len(set(local_names)) != len(local_names):
            raise ValueError(f"{local_names} are not different variables of {code.co_qualname}")
        self.slots = {name: self.moved(slot) for slot, name in enumerate(own)}
        self.passed = {slot for slot, name in enumerate(own) if name in local_names}
        self.positions: Positions = decoded.instructions[index].positions
        self.prologue: list[MachineInstruction] = []

    def moved(self, slot: int) -> int:
        """Where a frame slot of the original is in the continuation: behind the padding, unless it is a plain local."""
        return slot if slot < len(self.code.co_varnames) else slot + self.padding

    def emit(self, name: str, arg: int = 0, *, target: int | None = None, region: ExceptionRange | None = None) -> None:
        """Add to the prologue; `target` and the region's target are positions in the prologue."""
        self.prologue.append(MachineInstruction(name, arg, self.positions, -1, target, region))

    def build(self) -> types.CodeType:
        code = self.code
        self.enter_frame()
        self.push_stack()
        self.store_variables()
        self.emit("JUMP_FORWARD")
        # Only now is it known where the body starts.
        shift = len(self.prologue)
        entry = self.decoded.machine_entry[self.index]
        body = [self.relocate(instruction, shift) for instruction in self.decoded.machine.instructions]
        self.prologue[-1].target = entry + shift
        deepest = max(depth for depth in self.decoded.depths if depth is not None)
        return assemble(
            code,
            self.prologue + body,
            co_argcount=self.parameter_count,
            co_posonlyargcount=self.parameter_count,
            co_kwonlyargcount=0,
            co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
            co_varnames=code.co_varnames + tuple(f".slot{i}" for i in range(self.padding)),
            co_nlocals=len(code.co_varnames) + self.padding,
            # The prologue needs all parameters at once, and what a handler pushes on top.
            co_stacksize=max(code.co_stacksize, deepest, self.parameter_count) + 3,
        )

    def relocate(self, instruction: MachineInstruction, shift: int) -> MachineInstruction:
        """The instruction of the body as it stands behind a prologue of `shift` instructions."""
        moved = dataclasses.replace(instruction)
        if moved.target is not None:
            moved.target += shift
        if moved.region is not None:
            moved.region = dataclasses.replace(moved.region, target=moved.region.target + shift)
        if moved.name in SLOT_OPCODES:
            if moved.name == "LOAD_FAST" and LOAD_FAST_UNCHECKED and moved.arg not in self.passed:
                # The compiler knew the variable to be bound; should it have been left out, fail instead of crashing.
                moved.name = "LOAD_FAST_CHECK"
            moved.arg = self.moved(moved.arg)
        return moved

    def enter_frame(self) -> None:
        """What a frame does once: take the closure, become a generator. Unless the body is still going to."""
        first = {i.op: i.index for i in reversed(self.decoded.instructions[: self.index])}
        if "COPY_FREE_VARS" in first:
            self.emit("COPY_FREE_VARS", len(self.code.co_freevars))
        if self.code.co_flags & _SUSPENDABLE and "RETURN_GENERATOR" in first:
            self.emit("RETURN_GENERATOR")
            self.emit("POP_TOP")
        self.emit("RESUME", 0)

    def push_stack(self) -> None:
        handled = handled_slots(self.decoded, self.index)
        lasti = lasti_slots(self.decoded, self.index) if LASTI_IS_NO_OBJECT else ()
        for slot in range(self.stack_depth):
            if slot in self.null_slots:
                self.emit("PUSH_NULL")
            elif slot in lasti:
                self.emit("LOAD_COMMON_CONSTANT", 0)  # AssertionError
                self.emit("RAISE_VARARGS", 1, region=ExceptionRange(len(self.prologue) + 1, slot, push_lasti=True))
                self.emit("POP_TOP")
            elif handled.get(slot, slot) != slot:
                self.emit("COPY", slot - handled[slot])
            else:
                self.emit("LOAD_FAST", slot)
                if slot in handled:
                    # The previous exception stays, the current one is handled from here on.
                    self.emit("PUSH_EXC_INFO")
                    self.emit("POP_TOP")

    def store_variables(self) -> None:
        """Move the variables from their parameters to their own slots; all other slots become unbound."""
        for parameter in range(self.stack_depth, self.parameter_count):
            self.emit("LOAD_FAST", parameter)
        for parameter in range(self.parameter_count):
            self.emit("DELETE_FAST", parameter)
        for name in reversed(self.local_names):
            self.emit("STORE_FAST", self.slots[name])
        for name in cells_at(self.decoded, self.index).difference(self.local_names):
            # Reading a cell variable whose slot is empty would crash, not raise.
            self.emit("MAKE_CELL", self.slots[name])
