"""Classes that the captured program makes: ``class`` statements inside of compiled functions.

The body is executed symbolically. What it defines goes into a stand-in, a real class that exists for this capture only
and whose members stand for Values (see `MadeClasses.stand_ins`). As long as neither the class nor an instance of it
outlives the entry, nobody can tell it from a fresh class; when one would, the class statement becomes a break.
"""

from __future__ import annotations

import abc
import types
from typing import TYPE_CHECKING, Any

import torch

from .call_handlers import handles
from .frame import Frame
from .opcode_handlers import opcode
from .signals import GraphBreak
from .values.base import Value
from .values.constants import ConstantValue, PythonObject
from .values.functions import CellValue, FunctionValue
from .values.mappings import DictValue
from .values.objects import ClassValue, ObjectValue

if TYPE_CHECKING:
    from .bytecode.instructions import Instruction
    from .tracer import Tracer


ADVICE = "make the class outside of the compiled function"
DESCRIPTOR_METHODS = ("__get__", "__set__", "__delete__", "__set_name__")


class StandIn:
    """A class member whose Value is known to the capture only."""


@handles(__build_class__)
def call_build_class(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``__build_class__(body, name, *bases)``."""
    body, name = args[0].realize(), tx.constant_of(args[1])
    bases = [base.realize() for base in args[2:]]
    if kwargs or not isinstance(body, FunctionValue):
        raise GraphBreak("a class with keyword arguments or a metaclass", ADVICE)
    reals = []
    for base in bases:
        if not isinstance(base, ClassValue) or not _may_be_base(base.cls):
            raise GraphBreak(f"a class derived from {base.describe()}", ADVICE)
        reals.append(base.cls)
    frame = Frame(tx, body.code, body.globals, body.closure, {})
    frame.class_locals = DictValue({})
    cell = frame.run().realize()
    members: dict[str, Any] = {}
    for member, (_, value) in frame.class_locals.items.items():
        if member not in ("__classcell__", "__classdictcell__"):  # told to type() alone
            members[member] = stand_in(tx, value.realize())
    metaclass = type(reals[0]) if reals else type
    try:
        made = metaclass(name, tuple(reals), members)
    except TypeError as error:
        raise tx.raised(error) from None
    tx.made_classes.steps[made] = tx.root_step
    value = tx.class_value(made)
    if isinstance(cell, CellValue):
        cell.store(tx, value)
    return value




def _may_be_base(cls: type) -> bool:
    """Whether making a subclass runs no code but ``type.__new__``."""
    if cls is torch.autograd.Function:  # its metaclass makes a class for the backward beside it
        return True
    return type(cls) in (type, abc.ABCMeta) and isinstance(cls.__init_subclass__, types.BuiltinMethodType) \
        and not issubclass(cls, (torch.nn.Module, torch.Tensor))


def stand_in(tx: Tracer, value: Value) -> Any:
    """A real object for a member of a class, mapped back to its Value when the class is looked at."""
    if isinstance(value, ConstantValue):
        return value.value
    if isinstance(value, (ClassValue, PythonObject)):
        return value.as_constant()
    real: Any
    if isinstance(value, FunctionValue):
        if value.real is not None:
            return value.real
        closure = tuple(types.CellType() for _ in value.code.co_freevars)
        real = types.FunctionType(value.code, value.globals, value.name, None, closure)
    elif isinstance(value, ObjectValue) and any(hasattr(value.cls, name) for name in DESCRIPTOR_METHODS):
        raise GraphBreak("a class with descriptors made inside", ADVICE)
    else:
        real = StandIn()
    tx.made_classes.stand_ins[id(real)] = value
    tx.kept_alive.append(real)
    return real


def _wrapper(cls: Any) -> Any:
    def call(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        functions = [arg.realize() for arg in args]
        if kwargs or not all(isinstance(f, FunctionValue) for f in functions):
            raise GraphBreak(f"{cls.__name__}() of something that is not a Python function")
        return PythonObject(cls(*(stand_in(tx, function) for function in functions)))

    return call


for _cls in (staticmethod, classmethod, property):
    handles(_cls)(_wrapper(_cls))


# Names in a class body


def _load_name(frame: Frame, name: str) -> Value:
    assert frame.class_locals is not None
    found = frame.class_locals.items.get(name)
    return found[1] if found is not None else frame.load_global(name)


@opcode("LOAD_NAME")
def load_name(frame: Frame, inst: Instruction) -> None:
    frame.push(_load_name(frame, str(inst.argval)))


@opcode("STORE_NAME")
def store_name(frame: Frame, inst: Instruction) -> None:
    assert frame.class_locals is not None
    frame.class_locals.set_item(frame.tx, ConstantValue(inst.argval), frame.pop())


@opcode("DELETE_NAME")
def delete_name(frame: Frame, inst: Instruction) -> None:
    assert frame.class_locals is not None
    if inst.argval not in frame.class_locals.items:
        raise frame.tx.raised(NameError(f"name {inst.argval!r} is not defined"))
    frame.class_locals.del_item(frame.tx, ConstantValue(inst.argval))


@opcode("LOAD_LOCALS")
def load_locals(frame: Frame, inst: Instruction) -> None:
    assert frame.class_locals is not None
    frame.push(frame.class_locals)


@opcode("LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
def load_classderef(frame: Frame, inst: Instruction) -> None:
    assert frame.class_locals is not None
    if inst.op == "LOAD_FROM_DICT_OR_DEREF":
        frame.pop()
    name = str(inst.argval)
    found = frame.class_locals.items.get(name)
    value = found[1] if found is not None else frame.cells[name].load(frame.tx)
    if value is None:
        raise frame.tx.raised(NameError(
            f"cannot access free variable {name!r} where it is not associated with a value in enclosing scope"))
    frame.push(value)


@opcode("LOAD_FROM_DICT_OR_GLOBALS")
def load_from_dict_or_globals(frame: Frame, inst: Instruction) -> None:
    frame.pop()
    frame.push(_load_name(frame, str(inst.argval)))


@opcode("SETUP_ANNOTATIONS")
def setup_annotations(frame: Frame, inst: Instruction) -> None:
    if frame.class_locals is not None and "__annotations__" not in frame.class_locals.items:
        frame.class_locals.set_item(frame.tx, ConstantValue("__annotations__"), DictValue({}))
