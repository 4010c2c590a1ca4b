"""Python's object protocol on Values: attribute lookup, special methods, iteration, truth."""

from __future__ import annotations

import collections
import enum
import functools
import operator
import sys
import types
from typing import TYPE_CHECKING, Any

from .. import torch_compat
from .break_reasons import c_method, torchscript_break
from .call_handlers import HANDLERS
from .equivalents import REGISTRY
from .python_errors import descriptor_error, missing_method, refused_call, refused_result
from .signals import GraphBreak, UserRaise
from .source import (
    AttrSource,
    ConstantSource,
    Source,
    call_source,
    class_is_permanent,
    instance_table,
    item_source,
    name_in_messages,
    written_in_python,
)
from .values.base import LazyValue, Value
from .values.constants import PythonObject
from .values.functions import FunctionValue
from .values.methods import MethodValue, NativeMethod, SuperValue
from .values.objects import ClassValue, ObjectValue, bare_constant
from .values.progress_bars import ProgressBarValue
from .values.sequences import FIELD_GETTER, TupleValue
from .wrapping import CACHED_FUNCTION

if TYPE_CHECKING:
    from .tracer import Tracer

_ABSENT = object()
PLAIN_SETTERS: tuple[Any, ...] = (object.__setattr__, types.SimpleNamespace.__setattr__)
C_METHODS = frozenset({types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType})


def find_on_class(cls: type, name: str, tx: Tracer | None = None) -> tuple[Any, type | None]:
    """The raw attribute that `cls` or a base defines, without binding it, and who defines it.

    With `tx`, the capture relies on the answer staying the same.
    """
    if tx is not None:
        tx.reliance.classes[cls] = None
        if cls in tx.made_classes:  # made anew in every call, unlike what it derives from
            tx.reliance.classes.update(dict.fromkeys(cls.__mro__))
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name], base
    return _ABSENT, None


def set_on_class(tx: Tracer, cls: type, name: str) -> Value | None:
    """A class attribute that the captured program itself has set on `cls` or a base, if that is what a lookup finds."""
    for base in cls.__mro__:
        known = tx.classes.get(base)
        if known is not None and name in known.attrs:
            value = known.attrs[name]
            if value is None or isinstance(value.realize(), PythonObject) or hasattr(value.python_type(), "__get__") \
                    and not isinstance(value.realize(), FunctionValue):
                raise GraphBreak(f"class attribute {name!r} was deleted or became a descriptor")
            return value.realize()
        if name in base.__dict__:
            return None
    return None


def _class_source(cls: type) -> Source:
    return ConstantSource.of(cls, cls.__qualname__)


def member_source(owner: type, name: str) -> Source:
    """What a class itself holds under a name, not bound."""
    if class_is_permanent(owner):
        return item_source(ConstantSource.of(vars(owner), f"{owner.__qualname__}.__dict__"), name)
    return item_source(AttrSource(_class_source(owner), "__dict__"), name)


def class_member(tx: Tracer, cls: type, name: str, raw: Any, owner: type) -> Value:
    """A class attribute as a Value, guarded against reassignment."""
    if isinstance(raw, types.FunctionType) or not hasattr(type(raw), "__get__"):
        # plain functions and data: ``Class.name`` follows the MRO and runs no user code, but for what classes have
        # themselves (``Class.__annotations__`` makes an empty table if there is none)
        if type(cls).__getattribute__ is type.__getattribute__ and find_on_class(type(cls), name)[0] is _ABSENT:
            there = owner if cls in tx.made_classes else cls
            return LazyValue(tx, raw, AttrSource(_class_source(there), name)).realize()
    return tx.wrap(raw, item_source(AttrSource(_class_source(owner), "__dict__"), name))


def generic_get_attr(tx: Tracer, obj: Value, name: str) -> Value:
    """``object.__getattribute__`` followed by ``__getattr__``."""
    cls = obj.python_type()
    if name == "__class__":
        return tx.python_object(cls)
    getter = cls.__getattribute__
    if isinstance(getter, types.FunctionType) and isinstance(obj, ObjectValue):
        raw, owner = find_on_class(cls, "__getattribute__")
        assert owner is not None
        try:
            return tx.call(class_member(tx, cls, "__getattribute__", raw, owner), [obj, tx.constant(name)], {})
        except UserRaise as raised:
            fallback = _fallback_getattr(tx, obj, name, raised)
            if fallback is None:
                raise
            return fallback
    try:
        return plain_get_attr(tx, obj, name)
    except UserRaise as raised:
        fallback = _fallback_getattr(tx, obj, name, raised)
        if fallback is None:
            raise
        return fallback


def _fallback_getattr(tx: Tracer, obj: Value, name: str, raised: UserRaise) -> Value | None:
    cls = obj.python_type()
    if not issubclass(raised.value.python_type(), AttributeError):
        return None
    raw, owner = find_on_class(cls, "__getattr__")
    if raw is _ABSENT:
        return None
    assert owner is not None
    if not isinstance(raw, types.FunctionType):
        raise GraphBreak(f"__getattr__ of {obj.describe()} is not a Python function")
    return tx.call(class_member(tx, cls, "__getattr__", raw, owner), [obj, tx.constant(name)], {})


def plain_get_attr(tx: Tracer, obj: Value, name: str) -> Value:
    """``object.__getattribute__`` without the ``__getattr__`` fallback."""
    cls = obj.python_type()
    if name == "__dict__" and isinstance(obj, ObjectValue) and \
            (cls.__dictoffset__ or instance_table(obj.real) is not None):
        return obj.instance_dict(tx)
    raw, owner = find_on_class(cls, name, tx)
    if raw is not _ABSENT:
        kind = type(raw)
        if written_in_python(kind):
            tx.reliance.classes[kind] = None  # whether it is a descriptor
        if hasattr(kind, "__get__") and (hasattr(kind, "__set__") or hasattr(kind, "__delete__")):
            # a data descriptor goes first
            assert owner is not None
            return bind(tx, obj, cls, name, raw, owner)
    if isinstance(obj, ObjectValue):
        value = obj.instance_attr(tx, name)
        if value is not None:
            if owner is not None and obj.source is not None:
                # hidden by the instance as long as it is no data descriptor
                tx.guard(member_source(owner, name), "type", "type({0}) is {k[0]}", (type(raw),))
            return value
        obj.guard_absent(tx, name)
    changed = set_on_class(tx, cls, name)
    if changed is not None:
        return MethodValue(obj, changed) if isinstance(changed, FunctionValue) else changed
    if raw is not _ABSENT:
        assert owner is not None
        return bind(tx, obj, cls, name, raw, owner)
    missing = tx.exception(AttributeError(f"{name_in_messages(cls)!r} object has no attribute {name!r}", name=name))
    missing.attrs["obj"] = obj
    raise UserRaise(missing)


def slot_is_empty(obj: Any, slot: Any) -> bool:
    """Whether nothing has been stored in a slot of an object, whatever its ``__getattr__`` says."""
    try:
        slot.__get__(obj)
    except AttributeError:
        return True
    return False


def bind(tx: Tracer, obj: Value, cls: type, name: str, raw: Any, owner: type) -> Value:
    """Apply the descriptor protocol to a class attribute found for an instance."""
    kind = type(raw)
    if kind is types.FunctionType:
        return MethodValue(obj, class_member(tx, cls, name, raw, owner))
    if kind is staticmethod:
        return LazyValue(tx, raw.__func__, AttrSource(_class_source(cls), name)).realize() \
            if isinstance(raw.__func__, types.FunctionType) else tx.python_object(raw.__func__)
    if kind is classmethod:
        member = class_member(tx, cls, name, raw, owner)
        assert member.source is not None
        return MethodValue(tx.python_object(cls), tx.wrap(raw.__func__, AttrSource(member.source, "__func__")))
    if isinstance(raw, property):
        member = class_member(tx, cls, name, raw, owner)
        if raw.fget is None:
            raise tx.raised(AttributeError(f"property {name!r} of {cls.__name__!r} object has no getter"))
        assert member.source is not None
        return tx.call(tx.wrap(raw.fget, AttrSource(member.source, "fget")), [obj], {})
    if isinstance(raw, functools.cached_property):
        if raw.attrname is None:
            raise GraphBreak("a cached_property that was never given its name")  # Python raises
        member = class_member(tx, cls, name, raw, owner)
        assert member.source is not None and isinstance(obj, ObjectValue)
        value = tx.call(tx.wrap(raw.func, AttrSource(member.source, "func")), [obj], {})
        obj.store_attr(tx, raw.attrname, value)
        return value
    if kind is types.MemberDescriptorType and owner is collections.defaultdict and isinstance(obj, ObjectValue) and \
            obj.storage is not None:
        return obj.storage.get_attr(tx, name)
    if kind is types.MemberDescriptorType and isinstance(obj, ObjectValue):
        return slot_attr(tx, obj, cls, name, raw)
    if kind is types.ClassMethodDescriptorType:
        return tx.python_object(getattr(cls, name))
    if kind is types.BuiltinFunctionType:  # never bound: `__new__`, or a function that the program has put there
        return class_member(tx, cls, name, raw, owner)
    if kind in C_METHODS:
        if name in ("__init__", "__init_subclass__", "__setattr__", "__getattribute__", "__delattr__",
                    "__reduce_ex__", "__dir__", "__sizeof__") and owner is object:
            return MethodValue(obj, tx.python_object(raw))
        if not obj.native_methods and raw in REGISTRY:
            return MethodValue(obj, tx.python_object(raw))
        if obj.native_methods or owner is object:
            return NativeMethod(obj, name) if obj.native_methods else MethodValue(obj, tx.python_object(raw))
        raise c_method(cls, name, obj.describe())
    if kind is types.GetSetDescriptorType:
        if owner is collections.deque and isinstance(obj, ObjectValue) and obj.storage is not None:
            return obj.storage.get_attr(tx, name)
        if name == "__doc__" or obj.source is None:
            raise GraphBreak(f"attribute {name!r} of {obj.describe()}")
        real = getattr(obj, "real", None)
        if real is None:
            raise GraphBreak(f"attribute {name!r} of {obj.describe()}")
        return LazyValue(tx, getattr(real, name), AttrSource(obj.source, name))
    if hasattr(kind, "__get__"):
        getter, getter_owner = find_on_class(kind, "__get__")
        if isinstance(getter, types.FunctionType):
            assert getter_owner is not None
            descriptor = class_member(tx, cls, name, raw, owner)
            return tx.call(class_member(tx, kind, "__get__", getter, getter_owner),
                           [descriptor, obj, tx.python_object(cls)], {})
        if kind is FIELD_GETTER:  # a named tuple's field
            if isinstance(obj, ObjectValue) and isinstance(obj.storage, TupleValue):
                tx.guard(member_source(owner, name), "identity", "{0} is {k[0]}", (raw,))
                return tx.get_item(obj.storage, tx.constant(raw.__reduce__()[1][0]))
            raise GraphBreak(f"field {name!r} of {cls.__name__}")
        if kind is CACHED_FUNCTION:
            return MethodValue(obj, class_member(tx, cls, name, raw, owner))
        raise GraphBreak(f"descriptor {kind.__name__} of attribute {name!r}")
    return class_member(tx, cls, name, raw, owner)


def slot_attr(tx: Tracer, obj: ObjectValue, cls: type, name: str, slot: types.MemberDescriptorType) -> Value:
    """What an object of `cls` has in a slot."""
    if name in obj.attrs:
        stored = obj.attrs[name]
        if stored is not None:
            return stored
    elif obj.source is not None:
        try:
            real = slot.__get__(obj.real)
        except AttributeError as error:
            tx.guard(obj.source, "missing attribute", "{k[0]}({0}, {k[1]})", (slot_is_empty, slot))
            raise tx.raised(error) from None
        plain = not isinstance(cls.__getattribute__, types.FunctionType)
        where = AttrSource(obj.source, name) if plain else call_source(obj.source, slot.__get__)
        value = tx.looked_up(real, where)
        obj.attrs[name] = value
        return value
    raise tx.raised(AttributeError(f"{_name_in_errors(cls)!r} object has no attribute {name!r}"))


def class_get_attr(tx: Tracer, value: ClassValue, name: str) -> Value:
    """Attribute of a class."""
    cls = value.cls
    if name == "__subclasses__" and not issubclass(cls, type):
        return MethodValue(value, tx.python_object(type.__subclasses__))
    changed = set_on_class(tx, cls, name)
    if changed is not None:
        return changed
    if name == "__dict__" and cls in tx.classes and tx.classes[cls].attrs:
        raise GraphBreak(f"__dict__ of class {cls.__name__}, which has new attributes")
    if name in ("__name__", "__qualname__", "__module__", "__mro__", "__bases__", "__doc__", "__dict__", "__base__",
                "__class__", "__flags__", "__annotations__", "__members__"):
        try:
            attr = getattr(cls, name)
        except AttributeError as error:
            raise tx.raised(error) from None
        if isinstance(attr, types.MappingProxyType):
            return tx.wrap(attr, AttrSource(_class_source(cls), name))
        tx.reliance.classes[cls] = None
        if isinstance(attr, str):
            return LazyValue(tx, attr, AttrSource(_class_source(cls), name)).realize()
        return tx.python_object(attr)
    if isinstance(cls, enum.EnumMeta) and name in cls.__members__:
        return tx.python_object(cls.__members__[name])
    raw, owner = find_on_class(cls, name, tx)
    if raw is _ABSENT:
        meta_raw, meta_owner = find_on_class(type(cls), name, tx)
        if meta_raw is _ABSENT:
            if isinstance(cls, enum.EnumMeta):
                return tx.fold(getattr, [cls, name], {})  # which raises
            if find_on_class(type(cls), "__getattr__")[0] is not _ABSENT:
                raise GraphBreak(f"attribute {name!r} of {value.describe()} through its metaclass")
            tx.guard(_class_source(cls), "missing attribute", f"not hasattr({{0}}, {name!r})")
            raise tx.raised(AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}"))
        assert meta_owner is not None
        if isinstance(meta_raw, types.FunctionType):
            return MethodValue(value, class_member(tx, type(cls), name, meta_raw, meta_owner))
        if isinstance(meta_raw, property) and meta_raw.fget is not None:
            member = class_member(tx, type(cls), name, meta_raw, meta_owner)
            assert member.source is not None
            return tx.call(tx.wrap(meta_raw.fget, AttrSource(member.source, "fget")), [value], {})
        if not hasattr(type(meta_raw), "__get__"):
            return class_member(tx, type(cls), name, meta_raw, meta_owner)
        return tx.python_object(getattr(cls, name))
    assert owner is not None
    kind = type(raw)
    if kind is types.FunctionType:
        return class_member(tx, cls, name, raw, owner)
    if kind is staticmethod:
        return tx.wrap(raw.__func__, AttrSource(_class_source(cls), name)) \
            if isinstance(raw.__func__, types.FunctionType) else tx.python_object(raw.__func__)
    if kind is classmethod:
        member = class_member(tx, cls, name, raw, owner)
        assert member.source is not None
        return MethodValue(value, tx.wrap(raw.__func__, AttrSource(member.source, "__func__")))
    if kind is types.ClassMethodDescriptorType and raw in HANDLERS:
        return MethodValue(value, tx.python_object(raw))
    data = (types.BuiltinFunctionType, types.MemberDescriptorType, types.GetSetDescriptorType)
    if kind in C_METHODS or kind in data or isinstance(raw, property):
        return tx.python_object(getattr(cls, name))
    if hasattr(kind, "__get__"):
        getter, getter_owner = find_on_class(kind, "__get__")
        if isinstance(getter, types.FunctionType):
            assert getter_owner is not None
            return tx.call(class_member(tx, kind, "__get__", getter, getter_owner),
                           [class_member(tx, cls, name, raw, owner), tx.constant(None), value], {})
        return tx.python_object(getattr(cls, name))
    return class_member(tx, cls, name, raw, owner)


def super_get_attr(tx: Tracer, value: SuperValue, name: str) -> Value:
    """Attribute lookup of ``super()``: starts after the given class in the receiver's MRO."""
    receiver = value.receiver.realize()
    # by identity: a metaclass may say what equal classes are
    as_class = isinstance(receiver, ClassValue) and any(base is value.after for base in receiver.cls.__mro__)
    cls = receiver.cls if as_class else receiver.python_type()  # type: ignore[attr-defined]
    if name == "__class__":
        return tx.python_object(super)
    if value.after not in cls.__mro__:
        raise tx.raised(TypeError("super(type, obj): obj must be an instance or subtype of type"))
    mro = cls.__mro__
    tx.reliance.classes[cls] = None
    for base in mro[mro.index(value.after) + 1:]:
        if name not in base.__dict__:
            continue
        raw = base.__dict__[name]
        kind = type(raw)
        where = item_source(AttrSource(_class_source(base), "__dict__"), name)
        if kind is types.FunctionType:
            function = tx.wrap(raw, where)
            if name == "__new__":
                return function
            return function if as_class else MethodValue(receiver, function)
        if kind is classmethod:
            owner_value = receiver if as_class else tx.python_object(cls)
            return MethodValue(owner_value, tx.wrap(raw.__func__, AttrSource(where, "__func__")))
        if kind is staticmethod:
            return tx.wrap(raw.__func__, AttrSource(where, "__func__"))
        if isinstance(raw, property) and raw.fget is not None:
            return tx.call(tx.wrap(raw.fget, AttrSource(where, "fget")), [receiver], {})
        if kind in C_METHODS or kind is types.BuiltinFunctionType:
            if as_class:
                return tx.python_object(getattr(base, name))
            # a native method is the one that the builtin itself defines
            native: Any = receiver.storage if isinstance(receiver, ObjectValue) else receiver
            hidden = native is not None and getattr(native.python_type(), name, None) is not raw
            if base is not object and receiver.native_methods and name != "__new__" and not hidden:
                return NativeMethod(receiver, name)
            if kind is types.BuiltinFunctionType:  # __new__
                return tx.python_object(raw)
            return MethodValue(receiver, tx.python_object(raw))
        if hasattr(kind, "__get__"):
            raise GraphBreak(f"super().{name} is a descriptor of type {kind.__name__}")
        return tx.wrap(raw, where)
    raise tx.raised(AttributeError(f"'super' object has no attribute {name!r}"))


def has_special(obj: Value, name: str) -> bool:
    """Whether the type has a method of this name; what its metaclass has does not count."""
    return any(name in vars(base) for base in obj.realize().python_type().__mro__)


def special_method(tx: Tracer, obj: Value, name: str) -> Value | None:
    """A special method, looked up on the type as the interpreter does; None when the type has none."""
    cls = obj.python_type()
    if isinstance(obj, ProgressBarValue):
        return obj.get_attr(tx, name)
    raw, owner = find_on_class(cls, name, tx)
    if raw is _ABSENT:
        return None
    if raw is None:
        raise GraphBreak(f"{name} of {obj.describe()} is None")  # Python raises, with a message for each method
    assert owner is not None
    try:
        return bind(tx, obj, cls, name, raw, owner)
    except UserRaise:
        if name == "__repr__":  # Python takes it as not there
            raise GraphBreak(f"{name} of {obj.describe()} cannot be had") from None
        if name != "__hash__":
            raise
        raise tx.raised(TypeError(f"unhashable type: '{cls.__name__}'")) from None


# What Python insists on; subclasses of these are accepted with a warning or converted, which is left to Python.
RESULTS: dict[str, type] = {
    "__bool__": bool, "__len__": int, "__hash__": int, "__int__": int, "__index__": int, "__float__": float,
    "__complex__": complex, "__str__": str, "__repr__": str, "__format__": str, "__length_hint__": int,
}


_NATIVE = (types.WrapperDescriptorType, types.MethodDescriptorType)


def own_special_method(tx: Tracer, obj: Value, name: str) -> Value | None:
    """A special method that the program defines, in whatever way; None where it is a builtin's or there is none."""
    return None if isinstance(find_on_class(obj.python_type(), name, tx)[0], _NATIVE) else special_method(tx, obj, name)


def call_special(tx: Tracer, obj: Value, name: str, args: list[Value] | None = None) -> Value:
    """Call a special method as the interpreter does; breaks when there is none, or when its result is refused."""
    if name == "__index__" and issubclass(obj.python_type(), int) and bare_constant(obj) is not obj:
        return bare_constant(obj)  # Python does not ask integers
    method = special_method(tx, obj, name)
    if method is None:
        raise missing_method(tx, obj.python_type(), name) or GraphBreak(f"{obj.describe()} has no {name}")
    return special_result(tx, obj.python_type(), name, tx.call(method, args or [], {}))


def special_result(tx: Tracer, cls: type, name: str, result: Value) -> Value:
    """The result of a special method of a class; when Python refuses it, what Python raises."""
    result = result.realize()
    kind = result.python_type()
    if kind is not RESULTS.get(name, kind) or name == "__iter__" and not has_special(result, "__next__"):
        raise refused_result(tx, cls, name, result) or GraphBreak(f"{name} returns {result.describe()}")
    if name == "__len__" and (tx.truth(tx.compare("<", result, tx.constant(0))) or
                              result.is_constant() and result.as_constant() > sys.maxsize):
        raise refused_result(tx, cls, name, result) or GraphBreak("__len__ returns a negative or very large number")
    return result


def call_dunder(tx: Tracer, obj: Value, name: str, args: list[Value], kwargs: dict[str, Value], what: str) -> Value:
    """Call a special method of `obj`, or raise what Python raises without one."""
    if not isinstance(obj, ObjectValue):
        cls = obj.python_type()
        if find_on_class(cls, name)[0] is not _ABSENT or isinstance(obj, ClassValue):
            raise GraphBreak(f"{what} on {obj.describe()} is not captured")
        if name in ("__setitem__", "__delitem__"):  # the key may be turned into an index first, and refuse that
            target = operator.setitem if name == "__setitem__" else operator.delitem
            empty = tx.constant(()) if cls is tuple else obj  # what is in it does not matter
            missing = refused_call(tx, target, [empty, args[0], *(tx.constant(None) for _ in args[1:])], {})
        else:
            missing = missing_method(tx, cls, name)
        raise missing or GraphBreak(f"{what} on {obj.describe()} is not captured")
    if name == "__call__" and torch_compat.is_torchscript_class(obj.cls):
        original = torch_compat.script_original(obj.real)
        if original is None:
            raise torchscript_break()
        return tx.call(tx.get_attr(obj, original), args, kwargs)
    method = special_method(tx, obj, name)
    if method is None:
        key = args[0].realize().python_type() if args else int
        raise missing_method(tx, obj.cls, name, key) or GraphBreak(f"{what}: {obj.describe()} has no {name}")
    return special_result(tx, obj.cls, name, tx.call(method, args, kwargs))


def generic_truth(tx: Tracer, obj: Value) -> bool:
    """``bool(obj)`` through ``__bool__`` and ``__len__``."""
    cls = obj.python_type()
    for name in ("__bool__", "__len__"):
        if find_on_class(cls, name, tx)[0] is not _ABSENT:
            return tx.truth(call_special(tx, obj, name))
    return True


def can_iterate(obj: Value) -> bool:
    """Whether the type has what ``iter()`` asks for."""
    return has_special(obj, "__iter__") or has_special(obj, "__getitem__")


def _method_to_iterate(tx: Tracer, obj: Value, name: str) -> Value | None:
    """A special method for ``iter()`` of what has ``__iter__``: one that a descriptor raises for is as if not there."""
    try:
        return special_method(tx, obj, name)
    except UserRaise:
        return None


def generic_iter(tx: Tracer, obj: Value) -> Value:
    """``iter(obj)`` through ``__iter__`` or the sequence protocol."""
    method = _method_to_iterate(tx, obj, "__iter__")
    if method is not None:
        return special_result(tx, obj.python_type(), "__iter__", tx.call(method, [], {}))
    find = _method_to_iterate if has_special(obj, "__iter__") else special_method
    if isinstance(obj, (ObjectValue, ClassValue)) and find(tx, obj, "__getitem__") is not None:
        from .equivalents.sequence_iterators import sequence_iterator

        return tx.call(tx.python_object(sequence_iterator), [obj], {})
    raise tx.raised(TypeError(f"{name_in_messages(obj.python_type())!r} object is not iterable"))


def generic_next(tx: Tracer, obj: Value) -> Value | None:
    """``next(obj)`` through ``__next__``; None when it raises StopIteration."""
    method = special_method(tx, obj, "__next__")
    if method is None:
        raise tx.raised(TypeError(f"{name_in_messages(obj.python_type())!r} object is not an iterator"))
    try:
        return tx.call(method, [], {})
    except UserRaise as raised:
        if issubclass(raised.value.python_type(), StopIteration):
            return None
        raise


def generic_set_attr(tx: Tracer, obj: ObjectValue, name: str, value: Value, plain: bool = False) -> None:
    """``setattr(obj, name, value)``; `plain` skips a user's ``__setattr__``."""
    cls = obj.cls
    tx.reliance.classes[cls] = None
    setter = cls.__setattr__
    if not plain and isinstance(setter, types.FunctionType):
        raw, owner = find_on_class(cls, "__setattr__")
        assert owner is not None
        tx.call(class_member(tx, cls, "__setattr__", raw, owner), [obj, tx.constant(name), value], {})
        return
    if not plain and setter not in PLAIN_SETTERS and obj.storage is None and not issubclass(cls, BaseException):
        raise GraphBreak(f"setting attribute {name!r} of {obj.describe()} through a C __setattr__")
    raw, owner = find_on_class(cls, name)
    if raw is not _ABSENT:
        kind = type(raw)
        if isinstance(raw, property):
            if raw.fset is None:
                raise tx.raised(AttributeError(f"property {name!r} of {cls.__name__!r} object has no setter"))
            assert owner is not None
            member = class_member(tx, cls, name, raw, owner)
            assert member.source is not None
            tx.call(tx.wrap(raw.fset, AttrSource(member.source, "fset")), [obj, value], {})
            return
        if kind is not types.MemberDescriptorType and hasattr(kind, "__set__"):
            method, method_owner = find_on_class(kind, "__set__")
            if not isinstance(method, types.FunctionType):
                raise GraphBreak(f"setting attribute {name!r} through a C descriptor")
            assert owner is not None and method_owner is not None
            tx.call(class_member(tx, kind, "__set__", method, method_owner),
                    [class_member(tx, cls, name, raw, owner), obj, value], {})
            return
        if kind is not types.MemberDescriptorType and hasattr(kind, "__delete__"):
            raise descriptor_error(tx, kind, lambda obj: setattr(obj, "name", None))
        if kind is not types.MemberDescriptorType and not cls.__dictoffset__ and not issubclass(cls, BaseException):
            raise tx.raised(AttributeError(f"{cls.__name__!r} object attribute {name!r} is read-only"))
    elif not cls.__dictoffset__ and not issubclass(cls, BaseException):
        raise tx.raised(AttributeError(_no_place_for(cls, name)))
    obj.store_attr(tx, name, value)


def _name_in_errors(cls: type) -> str:
    """What an error about an empty slot calls a class: with its module since Python 3.13."""
    if sys.version_info < (3, 13) or cls.__module__ in ("__main__", "builtins"):
        return cls.__name__
    return f"{cls.__module__}.{cls.__qualname__}"


def _no_place_for(cls: type, name: str) -> str:
    """What this Python says about writing an attribute of an object that has no dictionary."""
    try:
        object().x = 1  # type: ignore[attr-defined]
    except AttributeError as error:
        return str(error).replace("'object'", repr(cls.__name__)).replace("'x'", repr(name))
    raise AssertionError("objects without a dictionary take any attribute")


def generic_del_attr(tx: Tracer, obj: ObjectValue, name: str, plain: bool = False) -> None:
    """``delattr(obj, name)``."""
    cls = obj.cls
    if not plain and isinstance(cls.__delattr__, types.FunctionType):
        raw, owner = find_on_class(cls, "__delattr__")
        assert owner is not None
        tx.call(class_member(tx, cls, "__delattr__", raw, owner), [obj, tx.constant(name)], {})
        return
    raw, owner = find_on_class(cls, name)
    if isinstance(raw, property):
        if raw.fdel is None:
            raise tx.raised(AttributeError(f"property {name!r} of {cls.__name__!r} object has no deleter"))
        assert owner is not None
        member = class_member(tx, cls, name, raw, owner)
        assert member.source is not None
        tx.call(tx.wrap(raw.fdel, AttrSource(member.source, "fdel")), [obj], {})
        return
    if type(raw) is not types.MemberDescriptorType and hasattr(type(raw), "__set__") \
            and not hasattr(type(raw), "__delete__"):
        raise descriptor_error(tx, type(raw), lambda obj: delattr(obj, "name"))
    if type(raw) is not types.MemberDescriptorType and hasattr(type(raw), "__delete__"):
        method, method_owner = find_on_class(type(raw), "__delete__")
        if not isinstance(method, types.FunctionType):
            raise GraphBreak(f"deleting attribute {name!r} through a C descriptor")
        assert owner is not None and method_owner is not None
        tx.call(class_member(tx, type(raw), "__delete__", method, method_owner),
                [class_member(tx, cls, name, raw, owner), obj], {})
        return
    if name in obj.attrs:
        present = obj.attrs[name] is not None
    else:
        present = type(raw) is not types.MemberDescriptorType and obj.instance_attr(tx, name) is not None
    if type(raw) is types.MemberDescriptorType and name not in obj.attrs and obj.source is not None:
        present = not slot_is_empty(obj.real, raw)
        tx.guard(obj.source, "attribute" if present else "missing attribute",
                 f"{{k[0]}}({{0}}, {{k[1]}}) is {not present}", (slot_is_empty, raw))
    elif not present:
        obj.guard_absent(tx, name)
    if not present:
        if raw is not _ABSENT:
            text = name
        elif cls.__dictoffset__:
            text = f"{cls.__name__!r} object has no attribute {name!r}"
        else:
            text = _no_place_for(cls, name)
        raise tx.raised(AttributeError(text))
    obj.store_attr(tx, name, None)
