"""Calls, and functions and classes as they are made."""

from __future__ import annotations

from typing import Any

from ..bytecode.instructions import Instruction
from ..call_signatures import refused
from ..frame import Frame, cells_of_made_function
from ..objects import can_iterate, has_special
from ..opcode_handlers import opcode
from ..values.base import Value
from ..values.constants import NullValue
from ..values.functions import FunctionValue
from ..values.mappings import DictValue
from ..values.sequences import TupleValue


@opcode("LOAD_BUILD_CLASS")
def load_build_class(frame: Frame, inst: Instruction) -> None:
    frame.push(frame.tx.python_object(__build_class__))


@opcode("CALL")
def call(frame: Frame, inst: Instruction) -> None:
    count, names = inst.argval
    args = frame.popn(count)
    second, first = frame.pop(), frame.pop()
    kwargs: dict[str, Value] = {}
    if names:
        kwargs = dict(zip(names, args[-len(names):], strict=True))
        args = args[: -len(names)]
    if isinstance(first, NullValue):
        frame.push(frame.tx.call(second, args, kwargs))
    elif isinstance(second, NullValue):
        frame.push(frame.tx.call(first, args, kwargs))
    else:
        frame.push(frame.tx.call(first, [second, *args], kwargs))


@opcode("CALL_FUNCTION_EX")
def call_function_ex(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    kwargs: dict[str, Value] = {}
    if inst.argval:
        mapping = frame.pop().realize()
        args_value = frame.pop()
        if not has_special(mapping, "keys"):
            raise refused("a function behind **")
        for key, value in DictValue({}).pairs(tx, mapping):
            if not issubclass(key.python_type(), str):
                raise refused("a function behind **")
            kwargs[tx.constant_of(key)] = value
    else:
        args_value = frame.pop()
    function = next(value for value in (frame.pop(), frame.pop()) if not isinstance(value, NullValue))
    if not can_iterate(args_value):
        raise refused("a function behind *")
    frame.push(tx.call(function, tx.to_list(args_value, hint=True), kwargs))


@opcode("MAKE_FUNCTION")
def make_function(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    flags: Any = inst.argval
    code = frame.pop().as_constant()
    closure = cells_of_made_function(tx.to_list(frame.pop())) if flags & 8 else []
    annotations = frame.pop() if flags & 4 else None
    annotate = frame.pop() if flags & 16 else None
    kwdefaults = {tx.constant_of(k): v for k, v in DictValue({}).pairs(tx, frame.pop())} if flags & 2 else {}
    defaults = tx.to_list(frame.pop()) if flags & 1 else []
    function = FunctionValue(code, frame.globals, code.co_name, defaults, kwdefaults, closure)
    if annotate is not None:
        function.attrs["__annotate__"] = annotate
    if annotations is not None:
        known = annotations.realize()
        if isinstance(known, TupleValue):
            names = known.items
            function.attrs["__annotations__"] = DictValue(
                {k.as_constant(): (k, v) for k, v in zip(names[::2], names[1::2], strict=True)})
        else:
            function.attrs["__annotations__"] = known
    frame.push(function)
