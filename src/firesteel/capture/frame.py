"""One frame under symbolic execution: its locals, cells, stack and position, and the loop over its instructions."""

from __future__ import annotations

import builtins
import sys
import types
from typing import TYPE_CHECKING, Any

from ..errors import UserFrame
from ..interruptions import safe_point
from .bytecode.instructions import DecodedCode, Instruction, decode
from .call_signatures import ProgramFrame
from .opcode_handlers import HANDLERS
from .signals import GraphBreak, UserRaise
from .values.base import Value
from .values.constants import ConstantValue
from .values.functions import CellValue
from .values.iterators import GeneratorValue, IteratorValue
from .values.mappings import DictValue
from .values.objects import ExceptionValue

if TYPE_CHECKING:
    from .tracer import Tracer


class HandledMark(Value):
    """Stack slot of PUSH_EXC_INFO: from here on `exception` is handled, before it `previous` was."""

    __slots__ = ("exception", "previous")

    def __init__(self, exception: Value, previous: Value | None) -> None:
        super().__init__(None)
        self.exception = exception
        self.previous = previous

    def emit(self, code: Any) -> str:
        return code.value(self.exception)


class Frame(ProgramFrame):
    """State of one function activation."""

    def __init__(self, tx: Tracer, code: types.CodeType, globals_: dict[str, Any], closure: list[CellValue],
                 locals_: dict[str, Value]) -> None:
        self.tx = tx
        self.code = code
        self.decoded: DecodedCode = decode(code)
        self.globals = globals_
        self.locals = locals_
        self.cells: dict[str, CellValue] = dict(zip(code.co_freevars, closure, strict=True))
        self.stack: list[Value] = []
        self.index = 0
        self.current: Instruction = self.decoded.instructions[0]
        self.handled: Value | None = None
        self.returned: Value = ConstantValue(None)
        self.is_generator = bool(code.co_flags & 0x20)
        self.class_locals: DictValue | None = None  # the namespace, when this is the body of a class
        self._user_frame: UserFrame | None = None
        self.hidden = "firesteel/capture/equivalents" in code.co_filename

    # Position in the user's program

    def user_frame(self) -> UserFrame:
        line = self.current.lineno or self.code.co_firstlineno
        cached = self._user_frame
        if cached is None or cached.lineno != line:
            cached = self._user_frame = UserFrame(self.code.co_filename, line, self.code.co_name)
        return cached

    # Stack

    def push(self, value: Value) -> None:
        self.stack.append(value)

    def pop(self) -> Value:
        return self.stack.pop()

    def popn(self, count: int) -> list[Value]:
        if count == 0:
            return []
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    # Names

    def load_global(self, name: str) -> Value:
        table = self.tx.globals_of(self.globals)
        key = ConstantValue(name)
        value = table.lookup(self.tx, key)
        if value is not None:
            return value
        scope = self.globals.get("__builtins__", builtins)
        scope = scope.__dict__ if isinstance(scope, types.ModuleType) else scope
        if name in scope:
            if scope is builtins.__dict__:
                return self.tx.globals_of(builtins.__dict__).lookup(self.tx, key)  # type: ignore[return-value]
            raise GraphBreak(f"name {name!r} from a replaced __builtins__")
        if scope is builtins.__dict__:
            self.tx.globals_of(scope).lookup(self.tx, key)  # relies on its not being there
        raise self.tx.raised(NameError(f"name {name!r} is not defined", name=name))

    # Running

    def run(self) -> Value:
        """Execute until the frame returns."""
        tx = self.tx
        tx.frames.append(self)
        try:
            instructions = self.decoded.instructions
            while True:
                instruction = self.current = instructions[self.index]
                self.index += 1
                safe_point()
                try:
                    outcome = HANDLERS[instruction.op](self, instruction)
                except UserRaise as raised:
                    self.unwind(instruction, raised)
                    continue
                if outcome is not None:
                    return outcome
        finally:
            tx.frames.pop()

    def resume(self, sent: Value | None, error: Value | None, first: bool) -> Value | None:
        """Run a generator's frame to its next yield; None when it returned."""
        tx = self.tx
        outer = self.handled
        tx.frames.append(self)
        try:
            instructions = self.decoded.instructions
            if not first:
                if error is not None:
                    item = self._throw_into_delegate(error)
                    if item is not None:
                        return item
                else:
                    self.stack.append(sent if sent is not None else ConstantValue(None))
            elif error is not None:
                raise UserRaise(error)
            while True:
                instruction = self.current = instructions[self.index]
                self.index += 1
                try:
                    if instruction.op == "YIELD_VALUE":
                        return self.stack.pop()
                    outcome = HANDLERS[instruction.op](self, instruction)
                except UserRaise as raised:
                    try:
                        self.unwind(instruction, raised)
                    except UserRaise as escaped:
                        if issubclass(escaped.value.python_type(), StopIteration):
                            wrapped = tx.make_exception(RuntimeError, [ConstantValue("generator raised StopIteration")])
                            wrapped.cause = wrapped.context = escaped.value
                            wrapped.suppress = True
                            raise UserRaise(wrapped) from None
                        raise
                    continue
                if outcome is not None:
                    self.returned = outcome
                    return None
        finally:
            self.handled = outer if self.handled is None else self.handled
            tx.frames.pop()

    def _throw_into_delegate(self, error: Value) -> Value | None:
        """Raise an exception at the yield where this generator stands. Behind ``yield from`` it goes to the generator
        that stands there, which may answer with another item."""
        before = self.decoded.instructions[self.index - 2]
        delegate = self.stack[-1].realize() if before.op == "SEND" else None
        if isinstance(delegate, GeneratorValue):
            try:
                if issubclass(error.python_type(), GeneratorExit):
                    delegate.close(self.tx)
                else:
                    item = delegate.resume(self.tx, error=error)
                    if item is None:  # it has returned
                        self.stack[-1] = delegate.frame.returned
                        self.index = before.argval
                    return item
            except UserRaise as raised:
                error = raised.value
        elif delegate is not None and not isinstance(delegate, IteratorValue):
            raise GraphBreak(f"throw() into a generator that delegates to {delegate.describe()}")
        self.stack.append(ConstantValue(None))
        self.unwind(self.current, UserRaise(error))
        return None

    def returned_none(self) -> bool:
        return isinstance(self.returned, ConstantValue) and self.returned.value is None

    @property
    def is_in_try(self) -> bool:
        """Whether a handler of the program's, other than that of a with block, is around the current instruction.

        What only tidies up, behind handlers, generators and comprehensions, does not begin with PUSH_EXC_INFO.
        """
        instructions, handler = self.decoded.instructions, self.current.handler
        while handler is not None:
            first, second = instructions[handler.target:handler.target + 2]
            if first.op == "PUSH_EXC_INFO" and second.op != "WITH_EXCEPT_START":
                return True
            handler = first.handler
        return False

    def unwind(self, instruction: Instruction, raised: UserRaise) -> None:
        """Go to the handler of an exception, or let it leave the frame."""
        handler = instruction.handler
        value = raised.value
        if isinstance(value, ExceptionValue) and value.source is None:
            self.tx.effects.version += 1
            if value.context is None:
                handled = self.current_handled()
                if handled is not None and handled is not value:
                    value.context = handled
            again = instruction.op == "RERAISE" or (instruction.op == "RAISE_VARARGS" and not instruction.argval)
            if not again and not self.hidden:
                value.places.append((self.code, instruction.lineno or self.code.co_firstlineno))
        if handler is None:
            try:
                raise raised
            finally:
                del raised  # this frame is in its traceback: a cycle that would keep the user's objects alive
        del self.stack[handler.depth:]
        if handler.push_lasti:
            self.stack.append(ConstantValue(instruction.offset))
        self.stack.append(value)
        self.index = handler.target

    def current_handled(self) -> Value | None:
        """The exception that ``raise`` without arguments raises: this frame's or a caller's."""
        if self.handled is not None:
            return self.handled
        for frame in reversed(self.tx.frames):
            if frame.handled is not None:
                return frame.handled
        return None


def handled_exception(tx: Tracer) -> Value | None:
    """The exception that the program handles now, in any of its frames."""
    handled = tx.frames[-1].current_handled()
    if handled is None:
        if sys.exc_info()[1] is not None:
            raise GraphBreak("the exception that a caller of compiled code handles")
        tx.guard(None, "no handled exception", "{k[0]}() is None", (sys.exception,))
    return handled


def cells_of_made_function(values: list[Value]) -> list[CellValue]:
    """Check that a closure tuple holds cells."""
    cells = []
    for value in values:
        known = value.realize()
        if not isinstance(known, CellValue):
            raise GraphBreak("a closure that does not consist of cells")
        cells.append(known)
    return cells
