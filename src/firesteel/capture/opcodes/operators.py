"""Operators, subscripts and attributes."""

from __future__ import annotations

import types

from ..builtin_numbers import not_
from ..bytecode.instructions import Instruction
from ..bytecode.machine import CALLABLE_FIRST
from ..frame import Frame
from ..opcode_handlers import opcode
from ..operators import contains, same_object, unary
from ..signals import GraphBreak
from ..values.base import Value
from ..values.constants import LOOKED_UP, NULL, ConstantValue, NullValue, SliceValue
from ..values.methods import MethodValue, SuperValue
from ..values.objects import ClassValue


@opcode("UNARY_NEGATIVE")
def unary_negative(frame: Frame, inst: Instruction) -> None:
    frame.push(unary(frame.tx, "-", frame.pop()))


@opcode("UNARY_POSITIVE")
def unary_positive(frame: Frame, inst: Instruction) -> None:
    frame.push(unary(frame.tx, "+", frame.pop()))


@opcode("UNARY_INVERT")
def unary_invert(frame: Frame, inst: Instruction) -> None:
    frame.push(unary(frame.tx, "~", frame.pop()))


@opcode("UNARY_NOT")
def unary_not(frame: Frame, inst: Instruction) -> None:
    frame.push(not_(frame.tx, frame.pop()))


@opcode("TO_BOOL")
def to_bool(frame: Frame, inst: Instruction) -> None:
    frame.push(not_(frame.tx, not_(frame.tx, frame.pop())))


@opcode("BINARY_OP")
def binary_op(frame: Frame, inst: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    symbol = str(inst.argval)
    if symbol.endswith("="):
        frame.push(frame.tx.binary(symbol[:-1], left, right, in_place=True))
    else:
        frame.push(frame.tx.binary(symbol, left, right))


@opcode("COMPARE_OP")
def compare_op(frame: Frame, inst: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(frame.tx.compare(str(inst.argval), left, right))


@opcode("IS_OP")
def is_op(frame: Frame, inst: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(ConstantValue(same_object(frame.tx, left, right) != bool(inst.argval)))


@opcode("CONTAINS_OP")
def contains_op(frame: Frame, inst: Instruction) -> None:
    container, item = frame.pop(), frame.pop()
    contained = contains(frame.tx, container, item)
    frame.push(ConstantValue(frame.tx.truth(contained) != bool(inst.argval)))


@opcode("BINARY_SUBSCR")
def binary_subscr(frame: Frame, inst: Instruction) -> None:
    key, container = frame.pop(), frame.pop()
    frame.push(frame.tx.get_item(container, key))


@opcode("STORE_SUBSCR")
def store_subscr(frame: Frame, inst: Instruction) -> None:
    key, container, value = frame.pop(), frame.pop(), frame.pop()
    container.realize().set_item(frame.tx, key, value)


@opcode("DELETE_SUBSCR")
def delete_subscr(frame: Frame, inst: Instruction) -> None:
    key, container = frame.pop(), frame.pop()
    container.realize().del_item(frame.tx, key)


@opcode("BINARY_SLICE")
def binary_slice(frame: Frame, inst: Instruction) -> None:
    stop, start, container = frame.pop(), frame.pop(), frame.pop()
    frame.push(frame.tx.get_item(container, SliceValue(start, stop, ConstantValue(None))))


@opcode("STORE_SLICE")
def store_slice(frame: Frame, inst: Instruction) -> None:
    stop, start, container, value = frame.pop(), frame.pop(), frame.pop(), frame.pop()
    container.realize().set_item(frame.tx, SliceValue(start, stop, ConstantValue(None)), value)


@opcode("LOAD_ATTR")
def load_attr(frame: Frame, inst: Instruction) -> None:
    owner = frame.pop()
    if inst.argval == "f_back" and issubclass(owner.python_type(), types.FrameType):
        raise GraphBreak("looking at the frames of callers")
    frame.push(frame.tx.get_attr(owner, str(inst.argval)))


@opcode("LOAD_METHOD")
def load_method(frame: Frame, inst: Instruction) -> None:
    method = frame.tx.get_attr(frame.pop(), str(inst.argval))
    if isinstance(method, MethodValue) and method.source is None:
        frame.push(method.function)
        frame.push(method.receiver)
    else:
        _push_function(frame, method, LOOKED_UP)


@opcode("LOAD_SUPER_ATTR")
def load_super_attr(frame: Frame, inst: Instruction) -> None:
    name, is_method, two_arg = inst.argval
    receiver, cls, function = frame.pop(), frame.pop().realize(), frame.pop().realize()
    if isinstance(function, ClassValue) and function.cls is super and isinstance(cls, ClassValue):
        attribute = SuperValue(cls.cls, receiver).get_attr(frame.tx, name)
    else:
        raise GraphBreak("super is not the builtin")
    if is_method:
        _push_function(frame, attribute)
    else:
        frame.push(attribute)


def _push_function(frame: Frame, function: Value, receiver: NullValue = NULL) -> None:
    """Push something to call that has no receiver, and the NULL that stands for it."""
    frame.stack.extend((function, receiver) if CALLABLE_FIRST else (receiver, function))


@opcode("STORE_ATTR")
def store_attr(frame: Frame, inst: Instruction) -> None:
    obj, value = frame.pop(), frame.pop()
    obj.realize().set_attr(frame.tx, str(inst.argval), value)


@opcode("DELETE_ATTR")
def delete_attr(frame: Frame, inst: Instruction) -> None:
    frame.pop().realize().del_attr(frame.tx, str(inst.argval))
