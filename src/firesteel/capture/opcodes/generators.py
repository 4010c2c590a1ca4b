"""Generators: ``yield``, ``yield from`` and what surrounds them."""

from __future__ import annotations

from ..bytecode.instructions import Instruction
from ..frame import Frame
from ..objects import call_special
from ..opcode_handlers import opcode
from ..signals import GraphBreak, UserRaise
from ..values.base import Value
from ..values.constants import ConstantValue
from ..values.iterators import GeneratorValue, IteratorValue
from ..values.objects import ObjectValue
from ..values.opaque import OpaqueIterator
from .control_flow import is_none


@opcode("RETURN_GENERATOR")
def return_generator(frame: Frame, inst: Instruction) -> None:
    frame.push(ConstantValue(None))


@opcode("GET_YIELD_FROM_ITER")
def get_yield_from_iter(frame: Frame, inst: Instruction) -> None:
    value = frame.pop().realize()
    frame.push(value if isinstance(value, (GeneratorValue, IteratorValue)) else frame.tx.iterate(value))


@opcode("SEND")
def send(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    value = frame.pop()
    receiver = frame.stack[-1].realize()
    if isinstance(receiver, GeneratorValue):
        item = receiver.resume(tx, None if is_none(value) else value)
        result: Value = receiver.frame.returned
    elif is_none(value):
        if isinstance(receiver, OpaqueIterator):
            raise GraphBreak("yield from an iterator that was made outside")
        item, result = None, ConstantValue(None)
        if not isinstance(receiver, ObjectValue):
            item = receiver.next_item(tx)
        else:
            try:
                item = call_special(tx, receiver, "__next__")
            except UserRaise as raised:
                if not issubclass(raised.value.python_type(), StopIteration):
                    raise
                result = tx.get_attr(raised.value, "value")
    else:
        try:
            item, result = tx.call_method(receiver, "send", [value], {}), ConstantValue(None)
        except UserRaise as raised:
            if not issubclass(raised.value.python_type(), StopIteration):
                raise
            item, result = None, tx.get_attr(raised.value, "value")
    if item is None:
        frame.pop()
        frame.push(result)
        frame.index = inst.argval
    else:
        frame.push(item)


@opcode("END_SEND")
def end_send(frame: Frame, inst: Instruction) -> None:
    value = frame.pop()
    frame.pop()
    frame.push(value)


@opcode("CLEANUP_THROW")
def cleanup_throw(frame: Frame, inst: Instruction) -> None:
    raised = frame.pop().realize()
    if not issubclass(raised.python_type(), StopIteration):
        raise UserRaise(raised)  # what is below is the handler's to clear; it may be missing behind a throw()
    frame.pop()
    frame.pop()
    frame.push(ConstantValue(None))
    frame.push(frame.tx.get_attr(raised, "value"))


@opcode("STOPITERATION_ERROR")
def stopiteration_error(frame: Frame, inst: Instruction) -> None:
    raised = frame.pop().realize()
    if issubclass(raised.python_type(), StopIteration):
        wrapped = frame.tx.make_exception(RuntimeError, [ConstantValue("generator raised StopIteration")])
        wrapped.cause = wrapped.context = raised
        wrapped.suppress = True
        raised = wrapped
    frame.push(raised)


@opcode("YIELD_VALUE")
def yield_value(frame: Frame, inst: Instruction) -> None:
    raise GraphBreak("yield outside of an inlined generator")
