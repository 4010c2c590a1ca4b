"""Classes that the captured program makes: ``class`` statements inside of compiled functions.

The body is executed symbolically. What it defines goes into a stand-in, a real class that exists for this capture only
and whose members stand for Values (see `MadeClasses.stand_ins`). Where the class or an instance of it outlives the
entry, the entry makes the class again, of the same members (`made_classes`).
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import functools
import types
from _abc import _abc_init, _abc_register
from typing import TYPE_CHECKING, Any

import torch

from .call_handlers import handles
from .call_signatures import refused
from .frame import Frame
from .made_classes import Recipe, bare_class
from .objects import find_on_class, special_method
from .opcode_handlers import opcode
from .signals import GraphBreak, Restart
from .source import written_in_python
from .values.base import Value, inherits_method
from .values.constants import ConstantValue, PythonObject
from .values.functions import CellValue, FunctionValue
from .values.mappings import DictValue
from .values.methods import MethodValue
from .values.objects import ClassValue, ObjectValue
from .values.sequences import ListValue, TupleValue

if TYPE_CHECKING:
    from .bytecode.instructions import Instruction
    from .entry_code import EntryCode
    from .tracer import Tracer


PROCESS_CLASS: Any = vars(dataclasses)["_process_class"]
"""What ``@dataclass`` does with a class."""
ADVICE = "make the class outside of the compiled function"
# Told to type() alone.
CELLS = ("__classcell__", "__classdictcell__")
# What an enumeration calls while it is made.
ENUM_HOOKS = ("_generate_next_value_", "__new__", "__init__", "__init_subclass__", "_missing_", "_ignore_", "_order_")


@handles(type.__subclasses__)
def call_subclasses(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``cls.__subclasses__()`` of a class that the program makes: nobody else knows it.

    Of others, whatever else is done changes it. Those that the program makes are to be there then.
    """
    cls = args[0].realize() if len(args) == 1 and not kwargs else None
    reason = GraphBreak("__subclasses__() of a class, which any other code changes")
    if not isinstance(cls, ClassValue):
        raise reason
    subclasses = tx.made_classes.subclasses(cls.cls)
    if cls.cls in tx.made_classes:
        return ListValue([tx.class_value(each) for each in subclasses])
    if subclasses:
        raise Restart(min(map(tx.made_classes.steps.__getitem__, subclasses)), reason)
    raise reason


class StandIn:
    """A class member whose Value is known to the capture only."""


class EnumNames(DictValue):
    """The namespace of an enumeration's body: a second value for a name is refused there."""

    __slots__ = ()

    def set_item(self, tx: Tracer, key: Value, value: Value) -> None:
        if key.key(tx) in self.items:
            raise GraphBreak("an enumeration whose body binds a name twice", ADVICE)
        super().set_item(tx, key, value)


@handles(__build_class__)
def call_build_class(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``__build_class__(body, name, *bases, metaclass=..., **keywords)``."""
    body, name = args[0].realize(), args[1]
    if not isinstance(body, FunctionValue):
        raise GraphBreak("a class whose body is no Python function", ADVICE)
    reals = _bases(args[2:])
    metaclass = _metaclass(tx, reals, kwargs.pop("metaclass", None))
    if not issubclass(metaclass, enum.EnumMeta) and find_on_class(metaclass, "__prepare__")[1] is not type:
        raise GraphBreak(f"a class whose metaclass {metaclass.__name__} prepares its namespace", ADVICE)
    frame = Frame(tx, body.code, body.globals, body.closure, {})
    frame.class_locals = EnumNames({}) if issubclass(metaclass, enum.EnumMeta) else DictValue({})
    cell = frame.run().realize()
    if isinstance(cell, CellValue):
        frame.class_locals.items["__classcell__"] = (ConstantValue("__classcell__"), cell)
    bases = TupleValue([tx.class_value(base) for base in reals])
    class_object: Value
    if metaclass is type(torch.autograd.Function):
        class_object = new_class(tx, metaclass, tx.constant_of(name), reals, frame.class_locals, kwargs)
    else:
        class_object = tx.call(tx.class_value(metaclass), [name, bases, frame.class_locals], kwargs).realize()
    if isinstance(cell, CellValue) and isinstance(class_object, ClassValue):
        cell.store(tx, class_object)
    return class_object


def _bases(values: list[Value]) -> tuple[type, ...]:
    reals = []
    for value in values:
        base = value.realize()
        if not isinstance(base, ClassValue) or not _may_be_base(base.cls):
            raise GraphBreak(f"a class derived from {base.describe()}", ADVICE)
        reals.append(base.cls)
    return tuple(reals)


def _may_be_base(cls: type) -> bool:
    """Whether making a subclass runs no code but that of ``type.__new__`` and what is followed here."""
    if cls is torch.autograd.Function:  # its metaclass makes a class for the backward beside it
        return True
    if isinstance(cls, enum.EnumMeta):
        return type(cls) is enum.EnumMeta and not any(_defines(cls, name) for name in ENUM_HOOKS)
    return not issubclass(cls, (torch.nn.Module, torch.Tensor)) and cls.__module__ != "typing" \
        and (type(cls) in {type, abc.ABCMeta} or written_in_python(type(cls)))


def _defines(cls: type, name: str) -> bool:
    """Whether a class of the program's defines something under a name."""
    return any(name in vars(base) and base.__module__ != "enum" for base in cls.__mro__ if written_in_python(base))


def _metaclass(tx: Tracer, bases: tuple[type, ...], given: Value | None) -> Any:
    if given is not None:
        known = given.realize()
        if not isinstance(known, ClassValue) or not issubclass(known.cls, type):
            raise GraphBreak("a metaclass that is no class", ADVICE)
        metaclass: Any = known.cls
    else:
        metaclass = type(bases[0]) if bases else type
    try:
        return types.prepare_class("", bases, {"metaclass": metaclass})[0] if bases else metaclass
    except TypeError as error:
        raise tx.raised(error) from None


@handles(type.__prepare__)
def call_prepare(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``type.__prepare__``: the namespace of a class statement."""
    return DictValue({})


@handles(object.__init_subclass__)
def call_init_subclass(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``object.__init_subclass__``, where those of the program's classes end."""
    if kwargs:
        raise GraphBreak("object.__init_subclass__ with arguments")
    return ConstantValue(None)


@handles(type.__new__, enum.EnumMeta, abc.ABCMeta)
def call_type_new(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``type.__new__(metaclass, name, bases, namespace, **keywords)``, or a metaclass of Python's own called."""
    if len(args) in (3, 4) and not all(issubclass(arg.realize().python_type(), kind)
                                       for arg, kind in zip(args[-3:], (str, tuple, dict), strict=True)):
        raise refused("type.__new__")
    if len(args) == 4:
        metaclass = tx.constant_of(args[0])
        args = args[1:]
    else:
        reals = tx.constant_of(args[1]) if len(args) == 3 else ()
        metaclass = type(reals[0]) if reals else abc.ABCMeta
    if len(args) != 3 or not isinstance(namespace := args[2].realize(), DictValue):
        raise GraphBreak("making a class with type()", ADVICE)
    bases = tuple(_bases(tx.to_list(args[1])))
    return new_class(tx, _metaclass(tx, bases, tx.class_value(metaclass)), tx.constant_of(args[0]), bases, namespace,
                     kwargs)


def new_class(tx: Tracer, metaclass: Any, name: str, bases: tuple[type, ...], namespace: DictValue,
              keywords: dict[str, Value]) -> ClassValue:
    """What ``type.__new__`` does: the class, then ``__set_name__`` of its members and ``__init_subclass__``."""
    values = {key: value.realize() for key, (_, value) in namespace.fill(tx).items()}
    cell = values.pop("__classcell__", None)
    values.pop("__classdictcell__", None)
    if "__module__" not in values and "__name__" in tx.frames[-1].globals:  # that of who calls
        values["__module__"] = tx.frames[-1].load_global("__name__").realize()
    if not all(isinstance(key, str) for key in values) or metaclass.mro is not type.mro:
        raise GraphBreak(f"making class {name}", ADVICE)
    recipe = Recipe(metaclass, name, bases, values, cell if isinstance(cell, CellValue) else None)
    tx.made_classes.stand_in = functools.partial(stand_in, tx)
    members = {key: stand_in(tx, value) for key, value in values.items()}
    try:
        if isinstance(metaclass, type) and issubclass(metaclass, enum.EnumMeta):
            if any(key in ENUM_HOOKS for key in members) or keywords:
                raise GraphBreak(f"an enumeration {name} that says how its members are made", ADVICE)
            recipe.make = made_enum
        elif metaclass is type(torch.autograd.Function):
            recipe.make = _made_by_metaclass
        elif metaclass is abc.ABCMeta:
            recipe.make = _made_abstract
        class_object = recipe.make(metaclass, name, bases, members)
    except (TypeError, ValueError) as error:
        if "__bases__ assignment" in str(error):
            raise GraphBreak(f"class {name}, whose bases have a say in it", ADVICE) from None
        raise tx.raised(error) from None
    tx.made_classes.steps[class_object] = tx.root_step
    tx.made_classes.recipes[class_object] = recipe
    value = tx.class_value(class_object)
    if recipe.make is not made_enum:
        _call_hooks(tx, value, recipe, keywords)
    return value


def _call_hooks(tx: Tracer, value: ClassValue, recipe: Recipe, keywords: dict[str, Value]) -> None:
    if recipe.cell is not None:
        recipe.cell.store(tx, value)
    for key, member in list(recipe.members.items()):
        if isinstance(member, ObjectValue) and find_on_class(member.cls, "__set_name__")[1] is not None:
            tx.call(special_method(tx, member, "__set_name__"), [value, ConstantValue(key)], {})
    for base in value.cls.__mro__[1:]:
        raw = vars(base).get("__init_subclass__")
        if raw is None:
            continue
        if isinstance(raw, classmethod) and isinstance(raw.__func__, types.FunctionType):
            tx.call(MethodValue(value, tx.python_object(raw.__func__)), [], keywords)
        elif keywords:
            raise tx.raised(TypeError(f"{value.cls.__name__}.__init_subclass__() takes no keyword arguments"))
        return


def _made_by_metaclass(metaclass: Any, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
    return metaclass(name, bases, members)


def _made_abstract(metaclass: Any, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
    return _abstract(bare_class(metaclass, name, bases, members))


def _abstract(cls: Any) -> Any:
    """Have an abstract class know which of its methods are abstract."""
    _abc_init(cls)
    return cls


def _registered(cls: Any, subclass: Any) -> Any:
    """Have an abstract class take another for its subclass."""
    cls.register(subclass)
    return cls


@handles(_abc_init)
def call_abc_init(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What ``ABCMeta.__new__`` does with a class that the program makes."""
    cls = tx.constant_of(args[0])
    if cls not in tx.made_classes.recipes:
        raise GraphBreak(f"making abstract class {cls.__name__}", ADVICE)
    tx.made_classes.recipes[cls].later.append((_abstract, ()))
    _abstract(cls)
    return ConstantValue(None)


@handles(_abc_register)
def call_abc_register(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``ABC.register`` of a class that the program makes."""
    cls, subclass = (tx.constant_of(arg) for arg in args)
    if cls not in tx.made_classes.recipes or subclass in tx.made_classes:
        raise GraphBreak(f"registering a class with {cls.__name__}", ADVICE)
    tx.made_classes.recipes[cls].later.append((_registered, (subclass,)))
    tx.effects.version += 1
    return tx.fold(_abc_register, [cls, subclass], {})


def made_enum(metaclass: Any, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
    """An enumeration with these members."""
    return types.new_class(name, bases, {"metaclass": metaclass}, lambda namespace: _fill(namespace, members))


def _fill(namespace: Any, members: dict[str, Any]) -> None:
    for key, member in members.items():
        namespace[key] = member


def stand_in(tx: Tracer, value: Value) -> Any:
    """A real object for a member of a class, mapped back to its Value when the class is looked at."""
    value = value.realize()
    if isinstance(value, ConstantValue):
        return value.value
    if isinstance(value, (ClassValue, PythonObject)):
        return value.as_constant()
    if isinstance(value, TupleValue) and value.cls is tuple and value.is_constant():
        return value.as_constant()
    real: Any
    if isinstance(value, FunctionValue):
        if value.real is not None:
            return value.real
        closure = tuple(types.CellType() for _ in value.code.co_freevars)
        real = types.FunctionType(value.code, value.globals, value.name, None, closure)
        for name, attr in value.attrs.items():
            if isinstance(attr, ConstantValue):  # such as __isabstractmethod__
                setattr(real, name, attr.value)
    elif isinstance(value, ObjectValue):
        real = _stand_in_object(tx, value)
    else:
        real = StandIn()
    tx.made_classes.stand_ins[id(real)] = value
    tx.kept_alive.append(real)
    return real


def _stand_in_object(tx: Tracer, value: ObjectValue) -> Any:
    if value.source is not None and value.real is not None and not written_in_python(type(value.real)) or \
            value.cls is type(dataclasses.MISSING):
        return value.real
    if value.cls is enum.auto:
        return enum.auto()
    if value.cls is dataclasses.Field:
        return _field(tx, value)
    if value.cls is functools.cached_property:
        raise GraphBreak("a class with a cached_property made inside", ADVICE)
    if all(find_on_class(value.cls, name)[1] is None for name in ("__get__", "__set__", "__delete__", "__set_name__")):
        return StandIn()
    if value.storage is not None or not inherits_method(value.cls, "__new__", object):
        raise GraphBreak("a class with descriptors made inside", ADVICE)
    return object.__new__(value.cls)


def _field(tx: Tracer, value: ObjectValue) -> Any:
    """A field of a dataclass, whose default and factory are stand-ins."""
    parts = {name: attr for name, attr in value.attrs.items() if attr is not None}
    default = parts["default"].realize()
    if _is_unhashable(default) or not default.is_constant() and not isinstance(default, ObjectValue):
        raise GraphBreak("a field of a dataclass made inside whose default is no constant", ADVICE)
    names = ("default", "default_factory", "init", "repr", "hash", "compare")
    named = {name: stand_in(tx, parts[name]) for name in names}
    return dataclasses.Field(**named, metadata={}, kw_only=stand_in(tx, parts["kw_only"]))  # type: ignore[call-overload]


def _is_unhashable(value: Value) -> bool:
    """What a dataclass refuses as a default, which a stand-in is not."""
    return value.realize().python_type().__hash__ is None


@handles(PROCESS_CLASS)
def call_process_class(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What ``@dataclass`` does with a class that the program makes: the same is done with the stand-in."""
    value = args[0].realize()
    recipe = tx.made_classes.recipes.get(value.cls) if isinstance(value, ClassValue) else None
    options = tuple(tx.constant_of(arg) for arg in args[1:])
    if recipe is None or kwargs:
        raise GraphBreak("dataclass() of a class that was made outside", ADVICE)
    if any(_is_unhashable(member) for name, member in recipe.members.items() if name != "__annotations__"):
        raise GraphBreak("a dataclass made inside with a list, set or dictionary for a default", ADVICE)
    assert isinstance(value, ClassValue)
    cls = value.cls
    annotations = recipe.members.get("__annotations__")
    if annotations is not None:
        cls.__annotations__ = tx.constant_of(annotations)
    try:
        class_object = PROCESS_CLASS(cls, *options)
    except (TypeError, ValueError, AttributeError) as error:  # the last where the module's name is that of no module
        raise tx.raised(error) from None
    if class_object is not cls:
        raise GraphBreak("a dataclass with slots made inside", ADVICE)
    recipe.later.append((PROCESS_CLASS, options))
    return value


@handles(collections.namedtuple)
def call_namedtuple(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``collections.namedtuple``: a class of its own for every call."""
    constants = tuple(tx.constant_of(arg) for arg in args)
    named = {name: tx.constant_of(value) for name, value in kwargs.items()}
    named.setdefault("module", tx.frames[-1].globals.get("__name__", "__main__"))
    make = functools.partial(collections.namedtuple, *constants, **named)
    try:
        if len(constants) != 2:
            collections.namedtuple(*constants, **{name: named[name] for name in kwargs})  # refused, by what was given
        class_object: Any = make()
    except (TypeError, ValueError) as error:
        raise tx.raised(error) from None
    tx.made_classes.steps[class_object] = tx.root_step
    recipe = Recipe(type, class_object.__name__, (), {}, make=lambda *parts: make())
    tx.made_classes.recipes[class_object] = recipe
    return tx.class_value(class_object)


class MadeDescriptor(PythonObject):
    """A property, staticmethod or classmethod of functions that the program makes."""

    __slots__ = ("parts",)

    def __init__(self, obj: Any, parts: list[Value]) -> None:
        super().__init__(obj)
        self.parts = parts

    def emit(self, code: EntryCode) -> str:
        parts = ", ".join(code.value(part) for part in self.parts)
        return code.assign(self, f"{code.constant(type(self.obj))}({parts})")


def _wrapper(cls: Any) -> Any:
    def call(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        parts = [arg.realize() for arg in args]
        if cls is property:
            names = ("fget", "fset", "fdel", "doc")
            parts = [*parts, *(kwargs.get(name, ConstantValue(None)).realize() for name in names[len(parts):])]
        elif kwargs:
            raise GraphBreak(f"{cls.__name__}() with keyword arguments")
        if not all(isinstance(part, (FunctionValue, ConstantValue)) for part in parts):
            raise GraphBreak(f"{cls.__name__}() of something that is not a Python function")
        descriptor = MadeDescriptor(cls(*(stand_in(tx, part) for part in parts)), parts)
        tx.kept_alive.append(descriptor.obj)
        return descriptor

    return call


for _cls in (staticmethod, classmethod, property):
    handles(_cls)(_wrapper(_cls))


# Names in a class body


def _load_name(frame: Frame, name: str) -> Value:
    assert frame.class_locals is not None
    binding = frame.class_locals.items.get(name)
    return binding[1] if binding is not None else frame.load_global(name)


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
    binding = frame.class_locals.items.get(name)
    value = binding[1] if binding is not None else frame.cells[name].load(frame.tx)
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
