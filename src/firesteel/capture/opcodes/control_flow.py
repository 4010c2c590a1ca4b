"""Jumps, loops and returns."""

from __future__ import annotations

from ..bytecode.instructions import Instruction
from ..frame import Frame
from ..values.base import Value
from ..values.constants import ConstantValue
from .registry import opcode


@opcode("JUMP")
def jump(frame: Frame, inst: Instruction) -> None:
    frame.index = inst.argval


@opcode("POP_JUMP_IF_TRUE")
def pop_jump_if_true(frame: Frame, inst: Instruction) -> None:
    if frame.tx.truth(frame.pop()):
        frame.index = inst.argval


@opcode("POP_JUMP_IF_FALSE")
def pop_jump_if_false(frame: Frame, inst: Instruction) -> None:
    if not frame.tx.truth(frame.pop()):
        frame.index = inst.argval


def is_none(value: Value) -> bool:
    value = value.realize()
    return isinstance(value, ConstantValue) and value.value is None


@opcode("POP_JUMP_IF_NONE")
def pop_jump_if_none(frame: Frame, inst: Instruction) -> None:
    if is_none(frame.pop()):
        frame.index = inst.argval


@opcode("POP_JUMP_IF_NOT_NONE")
def pop_jump_if_not_none(frame: Frame, inst: Instruction) -> None:
    if not is_none(frame.pop()):
        frame.index = inst.argval


@opcode("GET_ITER")
def get_iter(frame: Frame, inst: Instruction) -> None:
    frame.push(frame.tx.iterate(frame.pop()))


@opcode("FOR_ITER")
def for_iter(frame: Frame, inst: Instruction) -> None:
    item = frame.tx.next_item(frame.stack[-1])
    if item is None:
        frame.pop()
        frame.index = inst.argval
    else:
        frame.push(item)


@opcode("RETURN_VALUE")
def return_value(frame: Frame, inst: Instruction) -> Value:
    return frame.pop()
