"""Instances of user classes, classes and exceptions."""

from __future__ import annotations

import collections
import enum
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..effects import forget_attribute, forget_past_descriptor, set_past_descriptor
from ..equivalents.collections_methods import ON_SUBCLASSES
from ..signals import GraphBreak, NotConstant
from ..source import (
    AttrSource,
    ConstantSource,
    InstanceDictSource,
    Source,
    has_own_getter,
    instance_table,
    item_source,
    written_in_python,
)
from ..tracebacks import as_raised
from .base import ContainerValue, LazyValue, Value, identity_key, inherits_method, user_key
from .constants import ConstantValue
from .exceptions import Places, TracebackValue
from .iterators import ListIterator
from .mappings import DictValue
from .methods import MethodValue
from .sequences import ListValue, TupleValue
from .sets import SetValue

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer


class ObjectValue(Value):
    """An instance of a Python class.

    `attrs` holds what is known of the instance dictionary (None: deleted); for an object from outside it is an overlay
    over `real`. A subclass of list, dict, set, ... keeps its items in `storage`.
    """

    __slots__ = ("cls", "real", "attrs", "storage", "table")

    def __init__(self, cls: type, source: Source | None = None, real: Any = None, storage: Value | None = None) -> None:
        super().__init__(source)
        self.cls = cls
        self.real = real
        self.attrs: dict[str, Value | None] = {}
        self.storage = storage
        self.table: InstanceDict | None = None  # of an object made inside, once the program has asked for it
        if isinstance(storage, ContainerValue):
            storage.owner = self

    def __repr__(self) -> str:
        return f"ObjectValue({self.cls.__name__})"

    def python_type(self) -> type:
        return self.cls

    @property
    def native_methods(self) -> bool:
        return self.storage is not None

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.storage is not None:
            special = ON_SUBCLASSES.get(self.storage.python_type(), {}).get(name)
            if special is not None:
                return tx.call(tx.python_object(special), [self, *args], kwargs)
            if name == "__getitem__" and isinstance(self.storage, DictValue) and args:
                if written_in_python(tx.objects.find_on_class(self.cls, "__missing__", tx)[1] or dict) and \
                        self.storage.lookup(tx, args[0].realize()) is None:
                    return tx.call(tx.objects.special_method(tx, self, "__missing__"), args, {})
            if name == "__format__" and len(args) == 1 and args[0].is_constant() and args[0].as_constant() == "":
                return tx.constant(tx.builtin_text.text_of(tx, self, str))
            if name in ("__str__", "__format__") and not isinstance(self.storage, ConstantValue):
                if args:
                    self.unsupported("a format")  # Python raises
                return tx.constant(tx.builtin_text.text_of(tx, self, repr))  # as object's does
            if name == "__repr__" and self.storage.python_type() not in {list, tuple, dict, int, float, str, bytes}:
                self.unsupported(f"method {name!r}")  # the text has the name of the class in it
            if isinstance(self.storage, ConstantValue):  # a number or text is taken for what it is
                if name in ("__mod__", "format", "format_map") and any(map(speaks_for_itself, args)):
                    self.unsupported(f"{name} of an object with methods of its own")
                args = [bare_constant(arg) for arg in args]
            result = self.storage.call_method(tx, name, args, kwargs)
            if isinstance(self.storage, ConstantValue):
                return self._or_itself(tx, name, args, kwargs, result)
            return self if result is self.storage else result
        self.unsupported(f"method {name!r}")

    def _or_itself(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value], result: Value) -> Value:
        """The result of a method of a number or text; where Python gives back the very object, alone or in a
        container, as ``partition`` does, that object."""
        plain = self.storage.as_constant()  # type: ignore[union-attr]
        if isinstance(plain, (str, bytes)) and all(value.is_constant() for value in (*args, *kwargs.values())):
            stand_in = type("stand_in", (type(plain),), {})(plain)
            again = getattr(stand_in, name)(*[arg.as_constant() for arg in args],
                                            **{key: value.as_constant() for key, value in kwargs.items()})
            if again is stand_in:
                return self
            if type(again) in (tuple, list) and any(item is stand_in for item in again):
                items: list[Value] = [self if item is stand_in else ConstantValue(item) for item in again]
                return tx.make_tuple(items) if type(again) is tuple else ListValue(items)
        return ConstantValue(plain) if result is self.storage else result

    def instance_attr(self, tx: Tracer, name: str) -> Value | None:
        """The attribute in the instance dictionary or a slot, or None."""
        if name in self.attrs:
            return self.attrs[name]
        if self.source is None:
            return None
        table = instance_table(self.real)
        if table is None:
            return None
        if name in table:
            value = tx.looked_up(table[name], item_source(self.table_source(), name))
            self.attrs[name] = value
            return value
        return None

    def guard_absent(self, tx: Tracer, name: str) -> None:
        """Rely on the instance not shadowing a class attribute."""
        if self.source is not None and name not in self.attrs and instance_table(self.real) is not None:
            tx.guard(self.table_source(), "missing attribute", f"{name!r} not in {{0}}")

    def store_attr(self, tx: Tracer, name: str, value: Value | None) -> None:
        """``object.__setattr__`` (None deletes)."""
        if value is None and self.source is None:
            self.attrs.pop(name, None)  # set again, it goes to the end
        else:
            self.attrs[name] = value
        tx.effects.attribute(self, name)

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        if name == "__dict__" or name == "default_factory" and isinstance(self.storage, DictValue):
            self.unsupported(f"setting attribute {name!r}")
        tx.objects.generic_set_attr(tx, self, name, value)

    def del_attr(self, tx: Tracer, name: str) -> None:
        tx.objects.generic_del_attr(tx, self, name)

    def key(self, tx: Tracer) -> Any:
        if inherits_method(self.cls, "__hash__", object) and inherits_method(self.cls, "__eq__", object):
            return identity_key(tx, self)
        if self.cls.__hash__ is None:
            raise tx.raised(TypeError(f"unhashable type: '{self.cls.__name__}'"))
        if self.storage is not None and all(inherits_method(self.cls, name, self.storage.python_type())
                                            for name in ("__hash__", "__eq__")):
            return self.storage.key(tx)
        if isinstance(self.real, torch.nn.Module) and inherits_method(self.cls, "__eq__", object):
            return identity_key(tx, self)
        return user_key(tx, self)

    def table_source(self) -> Source:
        """Source of the instance dictionary of an object from outside."""
        assert self.source is not None
        return InstanceDictSource(self.source, has_own_getter(self.cls))

    def instance_dict(self, tx: Tracer) -> Value:
        if self.source is None or self.real is None:
            if self.table is None:
                self.table = InstanceDict(self, {})
            return self.table
        real = instance_table(self.real)
        known = tx.known.get(id(real))
        if known is None:
            known = InstanceDict(self, {}, self.table_source(), real)
            tx.remember(real, known)
        return known

    def is_slot(self, name: str) -> bool:
        """Whether a stored attribute lives outside of the instance dictionary."""
        return any(isinstance(vars(base).get(name), types.MemberDescriptorType) for base in self.cls.__mro__)

    def is_behind_descriptor(self, name: str) -> bool:
        """Whether setting the attribute would run a descriptor's Python code, which has run already."""
        raw = next((vars(base)[name] for base in self.cls.__mro__ if name in vars(base)), None)
        own = (types.MemberDescriptorType, types.GetSetDescriptorType)
        return raw is not None and not isinstance(raw, own) and \
            (hasattr(type(raw), "__set__") or hasattr(type(raw), "__delete__"))

    def as_index(self, tx: Tracer) -> Any:
        return tx.constant_of(tx.objects.call_special(tx, self, "__index__"))

    def attribute_setter(self, name: str) -> Callable[[Any, str, Any], None]:
        return set_past_descriptor if self.is_behind_descriptor(name) else object.__setattr__

    def attribute_deleter(self, name: str) -> Callable[[Any, str], None]:
        return forget_past_descriptor if self.is_behind_descriptor(name) else forget_attribute

    def emit(self, code: EntryCode) -> str:
        if isinstance(self.storage, TupleValue):
            name = code.assign(self, f"{code.constant(tuple.__new__)}({code.constant(self.cls)}, "
                                     f"{self.storage.emit_items(code)})")
        elif isinstance(self.storage, ConstantValue):
            plain = self.storage.value
            name = code.assign(self, f"{code.constant(type(plain).__new__)}({code.constant(self.cls)}, "
                                     f"{self.storage.emit(code)})")
        elif isinstance(self.storage, SetValue) and self.storage.cls is frozenset:
            name = code.assign(self, f"{code.constant(frozenset.__new__)}({code.constant(self.cls)}, "
                                     f"{self.storage.emit_items(code)})")
        elif isinstance(self.storage, (ListValue, DictValue)) or self.storage is None:
            base = f"{code.constant(self.cls)}.__new__({code.constant(self.cls)})"
            if not inherits_method(self.cls, "__new__", object):
                base = f"{code.constant(_builtin_new(self.cls))}({code.constant(self.cls)})"
            name = code.assign(self, base)
            if isinstance(self.storage, ListValue) and self.storage.maxlen is not None:
                code.line(f"{code.constant(collections.deque.__init__)}({name}, (), {self.storage.maxlen})")
            if self.storage is not None:
                self.storage.emit_mutation(code, name, self.cls)
            if isinstance(self.storage, DictValue) and self.storage.factory is not None:
                code.line(f"{name}.default_factory = {code.value(self.storage.factory)}")
        else:
            name = code.assign(self, f"{code.constant(_builtin_new(self.cls))}({code.constant(self.cls)})")
            self.storage.emit_mutation(code, name, self.cls)  # type: ignore[attr-defined]
        for attr, value in self.attrs.items():
            if value is not None:
                code.line(f"{code.constant(self.attribute_setter(attr))}({name}, {attr!r}, {code.value(value)})")
        if self.table is not None:
            code.value(self.table)  # before anything can give the object another one
        return name

    def emit_mutation(self, code: EntryCode, target: str, owner: type | None = None) -> None:
        if self.storage is not None:
            self.storage.emit_mutation(code, target, self.cls)  # type: ignore[attr-defined]


def bare_constant(value: Value) -> Value:
    """The number or text that an object of a subclass of int, float, str or bytes is."""
    value = value.realize()
    return value.storage if isinstance(value, ObjectValue) and isinstance(value.storage, ConstantValue) else value


def speaks_for_itself(value: Value) -> bool:
    """Whether formatting may call methods of the program's for a value."""
    value = value.realize()
    return isinstance(value, ObjectValue) and isinstance(value.storage, ConstantValue) and any(
        getattr(value.cls, name, None) is not getattr(value.storage.python_type(), name, None)
        for name in ("__str__", "__repr__", "__format__", "__int__", "__index__", "__float__"))


def _builtin_new(cls: type) -> Any:
    """The ``__new__`` of the first builtin base, which runs no user code."""
    for base in cls.__mro__:
        if "__new__" in base.__dict__ and not hasattr(base.__dict__["__new__"], "__func__"):
            return base.__new__
    return object.__new__


class InstanceDict(DictValue):
    """``obj.__dict__``: writes go to the object."""

    __slots__ = ("instance",)

    def __init__(self, owner: ObjectValue, items: dict[Any, tuple[Value, Value]], source: Source | None = None,
                 real: Any = None) -> None:
        super().__init__(items, source, real)
        self.instance = owner

    def fill(self, tx: Tracer) -> dict[Any, tuple[Value, Value]]:
        """Always made anew: the owner's attributes may have changed since the last time."""
        owner = self.instance
        items: dict[Any, tuple[Value, Value]] = {}
        if self.source is not None:
            tx.guard_keys(self.source, self.real)
            for name in self.real:
                attribute = owner.instance_attr(tx, name)
                if attribute is not None and not tx.effects.was_deleted(owner, name):
                    items[name] = (tx.constant(name), attribute)
        for name in owner.attrs if self.source is None else tx.effects.attributes_set(owner):
            value = owner.attrs[name]
            if value is not None and name not in items and not owner.is_slot(name):
                items[name] = (tx.constant(name), value)
        self.items = items
        self.complete = True
        return items

    def current(self, tx: Tracer) -> dict[Any, tuple[Value, Value]]:
        return self.fill(tx)

    def truth(self, tx: Tracer) -> bool:
        written = None in self.instance.attrs.values() or tx.effects.attributes_set(self.instance)
        return bool(self.fill(tx)) if written or self.source is None else super().truth(tx)

    def lookup(self, tx: Tracer, key: Value) -> Value | None:
        token = key.key(tx)
        if isinstance(token, str) and token in self.instance.attrs and not self.instance.is_slot(token):
            return self.instance.attrs[token]
        if self.source is None:  # what was found before may have been deleted
            return None
        return super().lookup(tx, key)

    def set_item(self, tx: Tracer, key: Value, value: Value) -> None:
        name = self.writable(tx, key)
        self.instance.store_attr(tx, name, value)
        self.items[name] = (tx.constant(name), value)
        if not self.complete:
            self.stored.setdefault(name)

    def writable(self, tx: Tracer, key: Value) -> str:
        """The name of an attribute that may be written through the dictionary."""
        name = tx.constant_of(key)
        if not isinstance(name, str) or self.instance.is_slot(name):
            self.unsupported(f"writing {name!r}, which is no attribute in it,")
        return name

    def del_item(self, tx: Tracer, key: Value) -> None:
        name = self.writable(tx, key)
        if self.lookup(tx, tx.constant(name)) is None:
            raise tx.raised(KeyError(name))
        self.fill(tx).pop(name, None)
        self.instance.store_attr(tx, name, None)

    def is_constant(self) -> bool:
        return self.source is None and all(value.is_constant() for value in self._made().values())

    def as_constant(self) -> Any:
        if self.source is not None:
            raise NotConstant("__dict__")
        return {name: value.as_constant() for name, value in self._made().items()}

    def _made(self) -> dict[str, Value]:
        """What is in the dictionary of an object made inside."""
        attrs = self.instance.attrs.items()
        return {name: value for name, value in attrs if value is not None and not self.instance.is_slot(name)}

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "pop":
            value = self.lookup(tx, args[0])
            if value is not None:
                self.del_item(tx, args[0])
                return value
        elif name in ("clear", "popitem"):
            self.unsupported(f"method {name!r}")
        return super().call_method(tx, name, args, kwargs)

    def emit_items(self, code: EntryCode) -> str:
        owner = code.value(self.instance)
        getter = has_own_getter(self.instance.cls)
        return code.assign(self, f"{code.constant(instance_table)}({owner})" if getter else f"{owner}.__dict__")

    def emit_mutation(self, code: EntryCode, target: str, owner: type | None = None) -> None:
        pass  # the owner's attributes are written back one by one


class ClassValue(Value):
    """A class, known by identity."""

    __slots__ = ("cls", "attrs")

    def __init__(self, cls: type, source: Source | None = None) -> None:
        super().__init__(source)
        self.cls = cls
        self.attrs: dict[str, Value | None] = {}

    def __repr__(self) -> str:
        return f"ClassValue({self.cls.__qualname__})"

    def describe(self) -> str:
        return f"class {self.cls.__qualname__}"

    def python_type(self) -> type:
        return type(self.cls)

    def is_constant(self) -> bool:
        return True

    def as_constant(self) -> Any:
        return self.cls

    def truth(self, tx: Tracer) -> bool:
        if hasattr(type(self.cls), "__len__") or hasattr(type(self.cls), "__bool__"):
            return super().truth(tx)
        return True

    def key(self, tx: Tracer) -> Any:
        return self.cls

    def constant_source(self) -> Source:
        return ConstantSource.of(self.cls, self.cls.__qualname__)

    def get_attr(self, tx: Tracer, name: str) -> Value:
        return tx.objects.class_get_attr(tx, self, name)

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        setter = self.metaclass_method(tx, "__setattr__")
        if setter is not None:
            tx.call(setter, [tx.constant(name), value], {})
        else:
            self.set_own_attr(tx, name, value)

    def set_own_attr(self, tx: Tracer, name: str, value: Value) -> None:
        """``type.__setattr__``."""
        if self.cls in tx.made_classes.recipes:
            tx.made_classes.set_member(self.cls, name, value.realize())
            tx.effects.version += 1
            return
        if name.startswith("__") and name.endswith("__"):
            self.unsupported(f"setting attribute {name!r}")
        self.attrs[name] = value
        if self.source is None:
            self.source = self.constant_source()
        tx.effects.attribute(self, name)

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tx.call_class(self, args, kwargs)

    def iterate(self, tx: Tracer) -> Value:
        if isinstance(self.cls, enum.EnumMeta):
            members: list[Any] = list(self.cls)
            return ListIterator([tx.python_object(member) for member in members])
        method = self.metaclass_method(tx, "__iter__")
        return tx.call(method, [], {}) if method is not None else super().iterate(tx)

    def metaclass_method(self, tx: Tracer, name: str) -> Value | None:
        """A special method that a metaclass written in Python defines."""
        raw, owner = tx.objects.find_on_class(type(self.cls), name, tx)
        if not isinstance(raw, types.FunctionType) or owner is None:
            return None
        return MethodValue(self, tx.objects.class_member(tx, type(self.cls), name, raw, owner))

    def get_item(self, tx: Tracer, key: Value) -> Value:
        method = self.metaclass_method(tx, "__getitem__")
        if method is not None and not isinstance(self.cls, enum.EnumMeta):
            return tx.call(method, [key], {})
        if isinstance(self.cls, enum.EnumMeta) or self.cls is type or hasattr(self.cls, "__class_getitem__"):
            return tx.fold(lambda c, k: c[k], [self.cls, tx.constant_of(key)], {})
        return super().get_item(tx, key)

    def length(self, tx: Tracer) -> Value:
        method = self.metaclass_method(tx, "__len__")
        if method is not None and not isinstance(self.cls, enum.EnumMeta):
            return tx.call(method, [], {})
        return tx.fold(len, [self.cls], {})

    def emit(self, code: EntryCode) -> str:
        return code.constant(self.cls)


class ExceptionValue(ObjectValue):
    """An exception object."""

    __slots__ = ("args", "cause", "context", "suppress", "places")
    native_methods = True

    def __init__(self, cls: type, args: list[Value], source: Source | None = None, real: Any = None) -> None:
        super().__init__(cls, source, real)
        self.args = args
        self.cause: Value | None = None
        self.context: Value | None = None
        self.suppress = False
        self.places: Places = []  # the lines through which it was raised

    def __repr__(self) -> str:
        return f"ExceptionValue({self.cls.__name__}, {self.args})"

    def get_attr(self, tx: Tracer, name: str) -> Value:
        none = tx.constant(None)
        if name == "args":
            return tx.make_tuple(self.args)
        if name in ("__cause__", "__context__", "__traceback__", "__suppress_context__"):
            if name == "__traceback__" and (self.source is not None or self.places):
                return TracebackValue(self, self.places)
            if self.source is not None:
                return LazyValue(tx, getattr(self.real, name), AttrSource(self.source, name))
            if name == "__suppress_context__":
                return tx.constant(self.suppress)
            if name == "__traceback__":
                return none
            return (self.cause if name == "__cause__" else self.context) or none
        if name == "value" and self.cls is StopIteration:
            return self.args[0] if self.args else none
        if name == "code" and issubclass(self.cls, SystemExit):
            return self.args[0] if len(self.args) == 1 else tx.make_tuple(self.args) if self.args else none
        in_c = isinstance(getattr(self.cls, name, None), types.MemberDescriptorType)
        if in_c and self.source is None and name not in self.attrs:
            self.unsupported(f"reading attribute {name!r}")
        return super().get_attr(tx, name)

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        value = value.realize()
        if name == "__traceback__" and isinstance(value, TracebackValue) and value.error is self:
            self.places = list(value.places)
            return
        if self.source is not None:
            self.unsupported(f"setting attribute {name!r}")
        tx.effects.version += 1
        if name == "__cause__":
            self.cause, self.suppress = value, True
        elif name == "__context__":
            self.context = value
        elif name == "__suppress_context__":
            self.suppress = value.truth(tx)
        elif name == "args":
            self.args = tx.to_list(value)
        elif name == "__traceback__":
            if not (value.is_constant() and value.as_constant() is None):
                raise GraphBreak("setting the traceback of an exception")
            self.places = []
        else:
            super().set_attr(tx, name, value)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__init__":
            self.args = list(args)
            return tx.constant(None)
        if name == "with_traceback":
            self.set_attr(tx, "__traceback__", args[0])
            return self
        if name in ("__str__", "__repr__"):
            if self.python_dunder("__str__") or (self.python_dunder("__repr__") and name == "__repr__"):
                self.unsupported(f"method {name!r}")
            if issubclass(self.cls, OSError) and name == "__str__":
                self.unsupported("the text of an OSError")  # which has more than its arguments
            plain = Exception if inherits_method(self.cls, "__str__", BaseException) else self.cls
            constants = [tx.constant_of(a) for a in self.args]
            if name == "__str__":
                if plain is self.cls and self.has_python_constructor() and not issubclass(plain, KeyError):
                    self.unsupported("the text of such an exception")
                return tx.fold(lambda *a: str(self.rebuilt(plain, a)), constants, {})
            return tx.fold(lambda *a: repr(self.rebuilt(self.cls, a)), constants, {})
        if name == "add_note" and self.source is None:
            if args[0].python_type() is not str:
                self.unsupported("add_note of something that is no string")  # Python raises
            notes = self.attrs.get("__notes__")
            if notes is None:
                notes = self.attrs["__notes__"] = ListValue([])
            tx.call_method(notes, "append", args, {})
            return tx.constant(None)
        return super().call_method(tx, name, args, kwargs)

    def has_python_constructor(self) -> bool:
        return self.python_dunder("__init__") or self.python_dunder("__new__")

    def rebuilt(self, cls: type, args: tuple[Any, ...]) -> Any:
        """An exception with these ``args``, for which no code of the program runs."""
        return _builtin_new(cls)(cls, *args) if self.has_python_constructor() else cls(*args)

    def python_dunder(self, name: str) -> bool:
        return isinstance(getattr(self.cls, name), types.FunctionType)

    def key(self, tx: Tracer) -> Any:
        return identity_key(tx, self)

    def truth(self, tx: Tracer) -> bool:
        return True

    def emit(self, code: EntryCode) -> str:
        cls = code.constant(self.cls)
        args = "".join(f"{code.value(arg)}, " for arg in self.args)
        if self.has_python_constructor():
            name = code.assign(self, f"{code.constant(_builtin_new(self.cls))}({cls}, {args})")
        else:
            name = code.assign(self, f"{cls}({args})")
        if self.cause is not None:
            code.line(f"{name}.__cause__ = {code.value(self.cause)}")
        if self.context is not None:
            code.line(f"{name}.__context__ = {code.value(self.context)}")
        if self.suppress:
            code.line(f"{name}.__suppress_context__ = True")
        if self.places:
            code.line(f"{code.constant(as_raised)}({name}, {code.constant(tuple(self.places))})")
        for attr, value in self.attrs.items():
            if value is not None:
                code.line(f"{code.constant(self.attribute_setter(attr))}({name}, {attr!r}, {code.value(value)})")
        return name
