"""Containers, strings and slices built from the stack, and sequences taken apart onto it."""

from __future__ import annotations

from ..builtin_text import format_text
from ..bytecode.instructions import Instruction
from ..frame import Frame
from ..objects import can_iterate, has_special
from ..opcode_handlers import opcode
from ..signals import GraphBreak, UserRaise
from ..values.base import Value
from ..values.constants import ConstantValue, SliceValue
from ..values.mappings import DictValue, SetValue
from ..values.sequences import ListValue, TupleValue
from ..values.tensors import TensorValue
from ..values.text import join


@opcode("BUILD_TUPLE")
def build_tuple(frame: Frame, inst: Instruction) -> None:
    frame.push(TupleValue(frame.popn(inst.argval)))


@opcode("BUILD_LIST")
def build_list(frame: Frame, inst: Instruction) -> None:
    frame.push(ListValue(frame.popn(inst.argval)))


@opcode("BUILD_SET")
def build_set(frame: Frame, inst: Instruction) -> None:
    items = SetValue({})
    for item in frame.popn(inst.argval):
        items.items.setdefault(item.key(frame.tx), item.realize())
    frame.push(items)


@opcode("BUILD_MAP")
def build_map(frame: Frame, inst: Instruction) -> None:
    parts = frame.popn(2 * inst.argval)
    mapping = DictValue({})
    for key, value in zip(parts[::2], parts[1::2], strict=True):
        mapping.set_item(frame.tx, key, value)
    frame.push(mapping)


@opcode("BUILD_CONST_KEY_MAP")
def build_const_key_map(frame: Frame, inst: Instruction) -> None:
    keys = frame.tx.to_list(frame.pop())
    mapping = DictValue({})
    for key, value in zip(keys, frame.popn(inst.argval), strict=True):
        mapping.set_item(frame.tx, key, value)
    frame.push(mapping)


@opcode("BUILD_STRING")
def build_string(frame: Frame, inst: Instruction) -> None:
    frame.push(join(frame.tx, frame.popn(inst.argval)))


@opcode("BUILD_SLICE")
def build_slice(frame: Frame, inst: Instruction) -> None:
    parts = frame.popn(inst.argval)
    frame.push(SliceValue(parts[0], parts[1], parts[2] if len(parts) == 3 else ConstantValue(None)))


@opcode("FORMAT_VALUE")
def format_value(frame: Frame, inst: Instruction) -> None:
    conversion, has_spec = inst.argval
    spec = frame.pop().as_constant() if has_spec else ""
    frame.push(format_text(frame.tx, frame.pop(), conversion, spec))


@opcode("CONVERT_VALUE")
def convert_value(frame: Frame, inst: Instruction) -> None:
    frame.push(format_text(frame.tx, frame.pop(), str(inst.argval), ""))


@opcode("LIST_APPEND")
def list_append(frame: Frame, inst: Instruction) -> None:
    value = frame.pop()
    frame.stack[-inst.argval].realize().append(frame.tx, value)


@opcode("SET_ADD")
def set_add(frame: Frame, inst: Instruction) -> None:
    value = frame.pop()
    frame.stack[-inst.argval].realize().call_method(frame.tx, "add", [value], {})


@opcode("MAP_ADD")
def map_add(frame: Frame, inst: Instruction) -> None:
    value, key = frame.pop(), frame.pop()
    frame.stack[-inst.argval].realize().set_item(frame.tx, key, value)


@opcode("LIST_EXTEND")
def list_extend(frame: Frame, inst: Instruction) -> None:
    items = frame.pop()
    if not can_iterate(items):
        raise GraphBreak(f"unpacking {items.describe()}")  # Python raises, in other words than extend
    frame.stack[-inst.argval].realize().call_method(frame.tx, "extend", [items], {})


@opcode("SET_UPDATE", "DICT_UPDATE")
def update_container(frame: Frame, inst: Instruction) -> None:
    items = frame.pop().realize()
    if inst.op == "DICT_UPDATE" and not has_special(items, "keys") and \
            not frame.tx.has_attr(items, "keys"):
        raise GraphBreak(f"** of {items.describe()}")  # Python raises
    frame.stack[-inst.argval].realize().call_method(frame.tx, "update", [items], {})


@opcode("DICT_MERGE")
def dict_merge(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    mapping = frame.pop()
    target = frame.stack[-inst.argval].realize()
    assert isinstance(target, DictValue)
    if not has_special(mapping, "keys"):
        raise GraphBreak(f"** of {mapping.describe()}")  # Python raises
    try:
        for key, value in target.pairs(tx, mapping):
            if key.python_type() is not str:
                raise GraphBreak("keyword arguments that are not named by strings")
            if target.lookup(tx, key.realize()) is not None:
                raise GraphBreak(f"keyword argument {key.as_constant()!r} given twice")
            target.set_item(tx, key, value)
    except UserRaise as raised:
        if issubclass(raised.value.python_type(), (KeyError, AttributeError)):
            # Python takes it for a name given twice, or for no mapping, and raises a TypeError
            raise GraphBreak(f"** of {mapping.describe()} that raises {raised.value.describe()}") from None
        raise


@opcode("LIST_TO_TUPLE")
def list_to_tuple(frame: Frame, inst: Instruction) -> None:
    frame.push(TupleValue(frame.tx.to_list(frame.pop())))


@opcode("UNPACK_SEQUENCE")
def unpack_sequence(frame: Frame, inst: Instruction) -> None:
    tx, count = frame.tx, inst.argval
    sequence = frame.pop().realize()
    items = _unpack(frame, sequence, count)
    if len(items) != count:
        raise tx.raised(ValueError(
            f"not enough values to unpack (expected {count}, got {len(items)})" if len(items) < count
            else f"too many values to unpack (expected {count})"))
    frame.stack.extend(reversed(items))


def _unpack(frame: Frame, sequence: Value, count: int) -> list[Value]:
    tx = frame.tx
    if isinstance(sequence, TensorValue):
        return tx.to_list(sequence)
    if isinstance(sequence, ConstantValue) and not isinstance(sequence.value, (str, bytes, range)):
        raise tx.raised(TypeError(f"cannot unpack non-iterable {type(sequence.value).__name__} object"))
    iterator = tx.iterate(sequence)
    items: list[Value] = []
    while len(items) <= count:
        item = tx.next_item(iterator)
        if item is None:
            break
        items.append(item)
    return items


@opcode("UNPACK_EX")
def unpack_ex(frame: Frame, inst: Instruction) -> None:
    before, after = inst.argval
    tx = frame.tx
    iterator = tx.iterate(frame.pop())
    items: list[Value] = []
    while len(items) < before and (item := tx.next_item(iterator)) is not None:
        items.append(item)
    if len(items) == before:
        items.extend(tx.to_list(iterator, hint=True))  # as a list of the iterator, which is asked for an iterator again
    if len(items) < before + after:
        raise frame.tx.raised(ValueError(
            f"not enough values to unpack (expected at least {before + after}, got {len(items)})"))
    rest = items[before: len(items) - after]
    parts = [*items[:before], ListValue(rest), *items[len(items) - after:]]
    frame.stack.extend(reversed(parts))
