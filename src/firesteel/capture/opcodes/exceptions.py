"""Raising and catching exceptions, and ``with`` statements."""

from __future__ import annotations

from ..bytecode.instructions import EXIT_HAS_RECEIVER, Instruction
from ..frame import Frame, HandledMark, handled_exception
from ..objects import find_on_class, special_method
from ..opcode_handlers import opcode
from ..python_errors import missing_method
from ..signals import GraphBreak, UserRaise
from ..values.base import Value
from ..values.constants import NULL, ConstantValue
from ..values.exceptions import traceback_of
from ..values.objects import ClassValue, ExceptionValue
from ..values.opaque import OpaqueValue
from ..values.sequences import TupleValue
from .control_flow import is_none


@opcode("PUSH_EXC_INFO")
def push_exc_info(frame: Frame, inst: Instruction) -> None:
    raised = frame.pop().realize()
    frame.push(HandledMark(raised, frame.handled))
    frame.push(raised)
    frame.handled = raised


@opcode("POP_EXCEPT")
def pop_except(frame: Frame, inst: Instruction) -> None:
    mark = frame.pop()
    assert isinstance(mark, HandledMark)
    frame.handled = mark.previous


@opcode("CHECK_EXC_MATCH")
def check_exc_match(frame: Frame, inst: Instruction) -> None:
    wanted = frame.pop().realize()
    kinds = [item.realize() for item in wanted.items] if isinstance(wanted, TupleValue) else [wanted]
    classes = [kind.cls for kind in kinds if isinstance(kind, ClassValue) and issubclass(kind.cls, BaseException)]
    if len(classes) != len(kinds):
        raise frame.tx.raised(TypeError("catching classes that do not inherit from BaseException is not allowed"))
    raised = frame.stack[-1].realize().python_type()
    frame.push(ConstantValue(any(issubclass(raised, cls) for cls in classes)))


@opcode("RAISE_VARARGS")
def raise_varargs(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    if inst.argval == 0:
        handled = handled_exception(tx)
        if handled is None:
            raise tx.raised(RuntimeError("No active exception to reraise"))
        raise UserRaise(handled)
    cause = frame.pop().realize() if inst.argval == 2 else None
    value = tx.as_exception(frame.pop())
    if value.source is not None and any(active.current.handler is not None for active in tx.frames):
        # its context and traceback change: only raising it for real does that
        raise GraphBreak("raising an exception that was made outside")
    if cause is not None:
        if not isinstance(value, ExceptionValue) or value.source is not None:
            raise GraphBreak("'raise ... from' with an exception from outside")
        value.cause = None if is_none(cause) else _as_cause(frame, cause)
        value.suppress = True
        if value.cause is None:
            value.cause = ConstantValue(None)
    raise UserRaise(value)


def _as_cause(frame: Frame, cause: Value) -> Value:
    kind = cause.as_constant() if isinstance(cause, ClassValue) else cause.python_type()
    if not issubclass(kind, BaseException):
        raise frame.tx.raised(TypeError("exception causes must derive from BaseException"))
    return frame.tx.as_exception(cause)


@opcode("RERAISE")
def reraise(frame: Frame, inst: Instruction) -> None:
    raise UserRaise(frame.pop().realize())


@opcode("BEFORE_WITH")
def before_with(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    manager = frame.pop().realize()
    if isinstance(manager, OpaqueValue):
        raise GraphBreak(f"with statement over {manager.describe()}")
    kind = manager.python_type()
    methods = []
    for name in ("__enter__", "__exit__"):  # each may be a descriptor that raises when it is asked
        if find_on_class(kind, name, tx)[1] is None:
            raise missing_method(tx, kind, name) or GraphBreak(f"{manager.describe()} is not a context manager")
        method = special_method(tx, manager, name)
        assert method is not None
        methods.append(method)
    enter, leave = methods
    frame.push(leave)
    if EXIT_HAS_RECEIVER:
        frame.push(NULL)
    frame.push(tx.call(enter, [], {}))


@opcode("WITH_EXCEPT_START")
def with_except_start(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    raised, leave = frame.stack[-1].realize(), frame.stack[-4 - EXIT_HAS_RECEIVER]
    kind = tx.python_object(raised.python_type())
    frame.push(tx.call(leave, [kind, raised, traceback_of(raised)], {}))
