"""What ``match`` statements ask of their subjects."""

from __future__ import annotations

from typing import Any

from ..bytecode.instructions import Instruction
from ..frame import Frame
from ..opcode_handlers import opcode
from ..signals import GraphBreak, UserRaise
from ..values.base import Value
from ..values.constants import ConstantValue
from ..values.mappings import DictValue
from ..values.objects import ClassValue
from ..values.sequences import TupleValue

# Builtin classes whose one positional sub-pattern is matched against the subject itself.
SELF_MATCHING = frozenset({bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple})


@opcode("GET_LEN")
def get_len(frame: Frame, inst: Instruction) -> None:
    frame.push(frame.stack[-1].realize().length(frame.tx))


@opcode("MATCH_SEQUENCE")
def match_sequence(frame: Frame, inst: Instruction) -> None:
    kind = frame.stack[-1].realize().python_type()
    frame.push(ConstantValue(bool(kind.__flags__ & (1 << 5))))  # Py_TPFLAGS_SEQUENCE


@opcode("MATCH_MAPPING")
def match_mapping(frame: Frame, inst: Instruction) -> None:
    kind = frame.stack[-1].realize().python_type()
    frame.push(ConstantValue(bool(kind.__flags__ & (1 << 6))))  # Py_TPFLAGS_MAPPING


@opcode("MATCH_KEYS")
def match_keys(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    subject, keys = frame.stack[-2].realize(), tx.to_list(frame.stack[-1])
    values = []
    for key in keys:
        if not isinstance(subject, DictValue):
            raise GraphBreak("a mapping pattern on an object that is not a dict")
        value = subject.lookup(tx, key.realize())
        if value is None:
            frame.push(ConstantValue(None))
            return
        values.append(value)
    frame.push(TupleValue(values))


@opcode("MATCH_CLASS")
def match_class(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    names = [n.as_constant() for n in tx.to_list(frame.pop())]
    cls, subject = frame.pop().realize(), frame.pop().realize()
    if not isinstance(cls, ClassValue):
        raise tx.raised(TypeError("called match pattern must be a class"))
    if not issubclass(subject.python_type(), cls.cls):
        frame.push(ConstantValue(None))
        return
    count: Any = inst.argval
    values: list[Value] = []
    if count:
        match_args = tx.constant_of(tx.get_attr(cls, "__match_args__")) if tx.has_attr(cls, "__match_args__") else ()
        if not tx.has_attr(cls, "__match_args__") and cls.cls in SELF_MATCHING:
            if count != 1:
                raise tx.raised(TypeError(f"{cls.cls.__name__}() accepts 1 positional sub-pattern ({count} given)"))
            values.append(subject)
        else:
            if count > len(match_args):
                patterns = "sub-pattern" if len(match_args) == 1 else "sub-patterns"
                raise tx.raised(TypeError(
                    f"{cls.cls.__name__}() accepts {len(match_args)} positional {patterns} ({count} given)"))
            names = [*match_args[:count], *names]
    for name in names:
        try:
            values.append(tx.get_attr(subject, name))  # once: a property may do something
        except UserRaise as raised:
            if not issubclass(raised.value.python_type(), AttributeError):
                raise
            frame.push(ConstantValue(None))
            return
    frame.push(TupleValue(values))
