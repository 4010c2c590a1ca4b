"""Jumps, loops and returns."""

from __future__ import annotations

from ..bytecode.instructions import Instruction
from ..frame import Frame
from ..numpy_numbers import ExactScalar
from ..opcode_handlers import opcode
from ..unrolling import count_round
from ..values.arrays import ArrayValue
from ..values.base import Value
from ..values.constants import ConstantValue, NumberValue
from ..values.tensors import TensorValue

# How many instructions are looked at to see whether they raise.
MAX_RAISING = 200
LEAVING = frozenset({"RETURN_VALUE", "YIELD_VALUE", "SEND", "RERAISE"})


@opcode("JUMP")
def jump(frame: Frame, inst: Instruction) -> None:
    frame.index = inst.argval


@opcode("POP_JUMP_IF_TRUE")
def pop_jump_if_true(frame: Frame, inst: Instruction) -> Value | None:
    return _jump(frame, inst, jumps_when=True)


@opcode("POP_JUMP_IF_FALSE")
def pop_jump_if_false(frame: Frame, inst: Instruction) -> Value | None:
    return _jump(frame, inst, jumps_when=False)


def _jump(frame: Frame, inst: Instruction, jumps_when: bool) -> Value | None:
    """Take one way, or both at once where data decides: then the result is what the frame returns, if it does."""
    tx, value = frame.tx, frame.pop().realize()
    if isinstance(value, ArrayValue) and not value.ndim:
        # which has the same truth
        value = value.number(tx, "__bool__").realize() if isinstance(value, ExactScalar) else value.tensor
    truth = _truth(frame, inst, value, jumps_when)
    if truth is None:
        if _captures_branches(frame):
            from ..branches import capture_branch  # few programs need it

            return capture_branch(frame, inst, value, jumps_when)
        if isinstance(value, NumberValue):
            from ..assumed_branches import assumed_truth

            truth = assumed_truth(tx, value)
        if truth is None:
            truth = tx.truth(value)
    if truth is jumps_when:
        frame.index = inst.argval
    return None


def _captures_branches(frame: Frame) -> bool:
    compiler = frame.tx.compiler
    return compiler is not None and compiler.capture_branches


def _truth(frame: Frame, inst: Instruction, value: Value, jumps_when: bool) -> bool | None:
    """The truth of a branch's condition; None where data decides. If one way only raises, the graph asserts the other.
    """
    tx = frame.tx
    if isinstance(value, TensorValue) and (known := value.known_truth()) is not None:
        return known
    on_data = isinstance(value, TensorValue) or (isinstance(value, NumberValue) and value.hint is None)
    if on_data and not any(active.current.handler for active in tx.frames):
        for raising, answer in ((frame.index, jumps_when), (inst.argval, not jumps_when)):
            if _only_raises(frame, raising):
                number = value.number(tx, "__bool__") if isinstance(value, TensorValue) else value
                if isinstance(number, NumberValue) and tx.symbols.state(number, answer):
                    return answer
                return tx.truth(number)
    decided = isinstance(value, NumberValue) and tx.shape_env.decide(value.expr) is not None
    if isinstance(value, TensorValue) or (on_data and not decided):
        return None
    return tx.truth(value)


def _only_raises(frame: Frame, index: int) -> bool:
    """Whether every way on from an instruction ends in an exception that leaves the frame."""
    ways = [index]
    seen: set[int] = set()
    while ways:
        at = ways.pop()
        inst = frame.decoded.instructions[at]
        if at in seen or (inst.op == "RAISE_VARARGS" and inst.handler is None):
            continue
        if len(seen) == MAX_RAISING or inst.handler is not None or inst.op in LEAVING:
            return False
        seen.add(at)
        if "JUMP" in inst.op or inst.op == "FOR_ITER":
            ways.append(inst.argval)
        if inst.op != "JUMP":
            ways.append(at + 1)
    return True


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
    count_round(frame, frame.stack[-1])
    item = frame.tx.next_item(frame.stack[-1])
    if item is None:
        frame.pop()
        frame.index = inst.argval
    else:
        frame.push(item)


@opcode("RETURN_VALUE")
def return_value(frame: Frame, inst: Instruction) -> Value:
    return frame.pop()
