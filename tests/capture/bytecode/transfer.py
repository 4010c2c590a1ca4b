"""Runs a function with a jump into a continuation at a chosen instruction.

A copy of the function's code gets a few instructions before instruction `index`: they take the stack apart, hand it
and the variables to a hook, and return a `Transfer`, whose `resume` calls the continuation. The continuation is made
from the copy, so that each arrival at the instruction (in a loop, say) moves to a new frame. `run` is the trampoline.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Callable, Generator

from firesteel.capture.bytecode import cells_at, decode, handled_slots, live_locals, make_continuation
from firesteel.capture.bytecode.assemble import assemble
from firesteel.capture.bytecode.frame_state import lasti_slots
from firesteel.capture.bytecode.liveness import own_variables
from firesteel.capture.bytecode.machine import CALLABLE_FIRST, LASTI_IS_NO_OBJECT, MachineInstruction


@dataclasses.dataclass
class Transfer:
    """Returned instead of the function's own value: go on here."""

    resume: Callable[[], object]


class Instrumented:
    """`function` with the hook before instruction `index`; `arrivals` counts how often it came there."""

    def __init__(self, function: types.FunctionType, index: int) -> None:
        self.function = function
        self.index = index
        self.arrivals = 0
        self.original = function.__code__
        self.decoded = decode(self.original)
        self.handled = handled_slots(self.decoded, index)
        self.lasti = lasti_slots(self.decoded, index) if LASTI_IS_NO_OBJECT else ()
        self.cells = sorted(cells_at(self.decoded, index))
        self.depth = self.decoded.depths[index]
        self.live = live_locals(self.decoded, index)
        self.code = self.build()
        # In the copy, the instruction is the one behind the hook.
        at = decode(self.code).machine_entry.index(self.entry + self.stub_length)
        self.copy_index = at
        self.callable = types.FunctionType(
            self.code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        self.callable.__kwdefaults__ = function.__kwdefaults__

    def build(self) -> types.CodeType:
        code = self.original
        depth = self.depth
        temporaries = tuple(f".tmp{i}" for i in range(depth + 1))
        plain = len(code.co_varnames)
        own = own_variables(code)
        self.slot = {n: i if i < plain else i + len(temporaries) for i, n in enumerate(own)}
        stub: list[MachineInstruction] = []
        self.entry = self.decoded.machine_entry[self.index]
        where = self.decoded.instructions[self.index].positions

        def emit(name: str, arg: int = 0) -> None:
            stub.append(MachineInstruction(name, arg, where, -1))

        consts = (*code.co_consts, lambda: True, self.hook)
        # Asks first whether to take the stack apart, so that flow analysis of the copy sees a way on, stack intact.
        def emit_function(constant: int) -> None:
            if not CALLABLE_FIRST:
                emit("PUSH_NULL")
            emit("LOAD_CONST", constant)
            if CALLABLE_FIRST:
                emit("PUSH_NULL")

        emit_function(len(consts) - 2)
        if sys.version_info < (3, 12):
            emit("PRECALL")
        emit("CALL")
        emit("POP_JUMP_FORWARD_IF_FALSE" if sys.version_info < (3, 12) else "POP_JUMP_IF_FALSE")
        jump = stub[-1]
        for i in reversed(range(depth)):
            if i in self.lasti:
                emit("POP_TOP")
            else:
                emit("STORE_FAST", plain + i)
        emit_function(len(consts) - 1)
        for name in self.cells:
            emit("LOAD_FAST" if CALLABLE_FIRST else "LOAD_CLOSURE", self.slot[name])
        if sys.version_info < (3, 12):
            emit("PRECALL", len(self.cells))
        emit("CALL", len(self.cells))
        if self.handled:
            # The frame is left from inside an except block: stop handling first.
            emit("LOAD_FAST", plain + min(self.handled))
            emit("POP_EXCEPT")
        emit("RETURN_VALUE")
        if CALLABLE_FIRST:
            emit("NOP")
        def move(position: int) -> int:
            # Jumps to the instruction arrive at the hook.
            return position if position <= self.entry else position + len(stub)

        self.stub_length = len(stub)
        jump.target = self.entry + len(stub)
        if CALLABLE_FIRST:
            # Where a callee's exception goes is decided by what stands before the call.
            region = self.decoded.machine.instructions[self.entry].region
            stub[-1].region = region and dataclasses.replace(region, target=move(region.target))

        body = []
        for position, instruction in enumerate(self.decoded.machine.instructions):
            if position == self.entry:
                body.extend(stub)
            moved = dataclasses.replace(instruction)
            if moved.target is not None:
                moved.target = move(moved.target)
            if moved.region is not None:
                moved.region = dataclasses.replace(moved.region, target=move(moved.region.target))
            name = instruction.name
            if name.endswith(("_FAST", "_FAST_CHECK", "_FAST_AND_CLEAR", "_DEREF", "_CLOSURE", "_CLASSDEREF")) or (
                name == "MAKE_CELL"
            ):
                moved.arg = instruction.arg if instruction.arg < plain else instruction.arg + len(temporaries)
            body.append(moved)
        return assemble(
            code,
            body,
            co_varnames=code.co_varnames + temporaries,
            co_nlocals=plain + len(temporaries),
            co_consts=consts,
            co_stacksize=code.co_stacksize + depth + len(self.cells) + 4,
        )

    def hook(self, *cells: types.CellType) -> Transfer:
        self.arrivals += 1
        if self.arrivals > 200:
            raise RuntimeError("the program does not end")
        frame = sys._getframe(1)
        found = dict(frame.f_locals)
        stack = [found.get(f".tmp{i}") for i in range(self.depth)]
        null_slots = frozenset(i for i in range(self.depth) if f".tmp{i}" not in found and i not in self.lasti)
        # The exception that a level handles is what the next level saved; the innermost is the current one.
        levels = [slot for slot, origin in self.handled.items() if slot == origin]
        handled = [*(stack[slot] for slot in levels[1:]), sys.exception()]
        for slot, exception in zip(levels, handled):
            stack[slot] = exception
        values = {n: v for n, v in found.items() if n in self.slot and n in self.live and n not in self.cells}
        values.update((n, c) for n, c in zip(self.cells, cells) if n in self.live)
        made = make_continuation(self.code, self.copy_index, list(values), self.depth, null_slots=null_slots)
        rest = types.FunctionType(made, frame.f_globals, self.function.__name__, None, self.function.__closure__)
        arguments = (*stack, *values.values())
        del frame
        return Transfer(lambda: rest(*arguments))

    def run(self, *args: object) -> object:
        result = self.callable(*args)
        if isinstance(result, types.GeneratorType):
            return self.drive(result)
        while isinstance(result, Transfer):
            result = result.resume()
        return result

    def drive(self, generator: Generator[object, object, object]) -> Generator[object, object, object]:
        while True:
            result = yield from generator
            if not isinstance(result, Transfer):
                return result
            generator = result.resume()  # type: ignore[assignment]
