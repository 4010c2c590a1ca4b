"""Sources: how a compiled entry reaches, at run time, an object that existed before the call.

A source is a path such as ``self.layers[0]._parameters['weight']``. It prints as the Python expression that the
generated entry evaluates, given the expression of its base, and as a readable name for guards and graph inputs.
"""

from __future__ import annotations

import enum
import re
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

from ..records import dataclass
from ..torch_compat.subclasses import plain_alias


class Source:
    """Base class; equality is structural, so equal paths are evaluated once per call. Hashes and names are computed
    once."""

    __slots__ = ("_hash", "_name")
    _hash: int
    _name: str

    @property
    def base(self) -> Source | None:
        return None

    def code(self, base: str, constant: Any) -> str:
        """The expression that evaluates this source; ``constant(obj)`` names a bound object."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        raise NotImplementedError


T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def _source(cls: type[T]) -> type[T]:
    """Dataclass decorator of all sources: frozen, with slots, and with the structural hash and the name, which is made
    of those of all its bases, kept once computed."""
    source_class = dataclass(frozen=True, slots=True)(cls)
    structural = source_class.__hash__

    def cached(self: Any) -> int:
        try:
            return self._hash
        except AttributeError:
            value = structural(self)
            object.__setattr__(self, "_hash", value)
            return value

    source_class.__hash__ = cached  # type: ignore[method-assign]
    if "name" in vars(source_class):
        source_class.name = _kept_name(vars(source_class)["name"].fget)  # type: ignore[attr-defined]
    return source_class


def _kept_name(compute: Callable[[Any], str]) -> property:
    def name(self: Any) -> str:
        try:
            kept: str = self._name
        except AttributeError:
            kept = compute(self)
            object.__setattr__(self, "_name", kept)
        return kept

    return property(name)


@_source
class LocalSource(Source):
    """A parameter of the entry: an argument, a live local or a stack slot of a continuation."""

    variable: str

    def code(self, base: str, constant: Any) -> str:
        return self.variable

    @property
    def name(self) -> str:
        return self.variable.removeprefix("_fs_")


@_source
class DrawnSource(Source):
    """What the entry draws from a generator, into a variable, when its guards hold and before its graph runs."""

    variable: str

    def code(self, base: str, constant: Any) -> str:
        return self.variable

    @property
    def name(self) -> str:
        return self.variable.removeprefix("_fs_")


class _ById:
    """Wraps any object so that it hashes and compares by identity. What `goes_away` is held weakly."""

    __slots__ = ("_held", "_weak", "_identity")

    def __init__(self, obj: object) -> None:
        self._identity = id(obj)
        self._weak = goes_away(obj)
        self._held: Any = weakref.ref(obj) if self._weak else obj

    @property
    def obj(self) -> Any:
        return self._held() if self._weak else self._held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.obj is self.obj

    def __hash__(self) -> int:
        return self._identity


_HEAP_TYPE, _IMMUTABLE_TYPE = 1 << 9, 1 << 8


def written_in_python(cls: type) -> bool:
    """Whether a class was made by a class statement. Classes in C may live on the heap as well (which ones depends on
    the version of Python), but are immutable then."""
    return cls.__flags__ & (_HEAP_TYPE | _IMMUTABLE_TYPE) == _HEAP_TYPE


def name_in_messages(cls: type) -> str:
    """What Python calls a class when it refuses one of its instances: one written in C goes by its module too."""
    if written_in_python(cls) or cls.__module__ == "builtins":
        return cls.__name__
    return f"{cls.__module__}.{cls.__name__}"


def class_is_permanent(cls: type) -> bool:
    """Whether a class lives as long as its module: what compiled code may hold without keeping anything alive."""
    if not written_in_python(cls):
        return True
    module = sys.modules.get(cls.__module__)
    return module is not None and getattr(module, "__dict__", {}).get(cls.__qualname__) is cls


def goes_away(obj: Any) -> bool:
    """Whether an object is a class, or a member of an enum, that may not live as long as its module."""
    if isinstance(obj, type):
        return not class_is_permanent(obj)
    kind = type(obj)
    return isinstance(obj, enum.Enum) and bool(kind.__weakrefoffset__) and not class_is_permanent(kind)


class WeakConstant:
    """Stands for a class that can go away, or a member of an enum that can, among the constants of a guard."""

    __slots__ = ("ref", "name")

    def __init__(self, obj: Any) -> None:
        self.ref = weakref.ref(obj)
        self.name = obj.__qualname__ if isinstance(obj, type) else repr(obj)

    def __repr__(self) -> str:
        return self.name


@_source
class ConstantSource(Source):
    """An object bound into the entry itself, such as a function's globals or a class."""

    holder: _ById
    label: str

    @staticmethod
    def of(obj: object, label: str) -> ConstantSource:
        return ConstantSource(_ById(obj), label)

    def code(self, base: str, constant: Any) -> str:
        return constant(self.holder.obj)

    @property
    def name(self) -> str:
        return self.label


@_source
class _Derived(Source):
    parent: Source

    @property
    def base(self) -> Source | None:
        return self.parent

    @property
    def name(self) -> str:
        return self.code(self.parent.name, None)


@_source
class AttrSource(_Derived):
    """``base.attribute`` for attributes whose reading runs no user code."""

    attribute: str

    def code(self, base: str, constant: Any) -> str:
        return f"{base}.{self.attribute}"

    @property
    def name(self) -> str:
        if isinstance(self.parent, ClosureSource):
            return self.parent.name
        return f"{self.parent.name}.{self.attribute}"


def has_own_getter(cls: type) -> bool:
    """Whether reading an attribute of an object runs a ``__getattribute__`` of the user's."""
    return isinstance(cls.__getattribute__, types.FunctionType)


def instance_table(obj: Any) -> Any:
    """``obj.__dict__`` past a ``__getattribute__`` of the user's; None where there is none."""
    try:
        return object.__getattribute__(obj, "__dict__")
    except AttributeError:
        return None


@_source
class InstanceDictSource(_Derived):
    """The instance dictionary of ``base``; `own_getter` where a ``__getattribute__`` of the user's must not run."""

    own_getter: bool = False

    def code(self, base: str, constant: Any) -> str:
        return f"{constant(instance_table)}({base})" if self.own_getter else f"{base}.__dict__"

    @property
    def name(self) -> str:
        return self.parent.name

    def __repr__(self) -> str:
        return f"{self.parent.name}.__dict__"


@_source
class ItemSource(_Derived):
    """``base[key]`` with a constant key."""

    key: _ById | int | str

    def code(self, base: str, constant: Any) -> str:
        key = constant(self.key.obj) if isinstance(self.key, _ById) else repr(self.key)
        if isinstance(self.parent, StorageSource):
            builtin = constant(self.parent.builtin.obj)
            if issubclass(self.parent.builtin.obj, dict):  # whose `__getitem__` runs the `__missing__` of a subclass
                return f"{builtin}.__getitem__({base}, {key} if {builtin}.__contains__({base}, {key}) else {{}}[0])"
            return f"{builtin}.__getitem__({base}, {key})"
        return f"{base}[{key}]"

    @property
    def name(self) -> str:
        parent, key = self.parent, self.key
        if isinstance(parent, InstanceDictSource) and isinstance(key, str):
            return f"{parent.name}.{key}"
        if isinstance(parent, GlobalsSource) and isinstance(key, str):
            return key
        if isinstance(parent, ModuleTableSource) and isinstance(key, str):
            return f"{parent.name}[{int(key)}]" if key.isdigit() else f"{parent.name}.{key}"
        return f"{parent.name}[{key.obj if isinstance(key, _ById) else key!r}]"


@_source
class ClosureSource(ItemSource):
    """A cell of the function's closure, named after its variable."""

    variable: str

    @property
    def name(self) -> str:
        return self.variable


def item_source(parent: Source, key: object) -> ItemSource:
    """Source of ``parent[key]``; keys other than plain ints and strings are bound as objects."""
    if type(key) in {int, str}:
        return ItemSource(parent, key)  # type: ignore[arg-type]
    return ItemSource(parent, _ById(key))


@_source
class _SameObject(_Derived):
    """The parent itself, seen in another role."""

    def code(self, base: str, constant: Any) -> str:
        return base


@_source
class GlobalsSource(_SameObject):
    """A module's globals dictionary (the parent is the constant that holds it)."""


@_source
class ModuleTableSource(_Derived):
    """``_parameters``, ``_buffers`` or ``_modules`` of an nn.Module; invisible in readable names."""

    table: str

    def code(self, base: str, constant: Any) -> str:
        return f"{base}.__dict__[{self.table!r}]"

    @property
    def name(self) -> str:
        return self.parent.name


@_source
class StorageSource(_SameObject):
    """The items of an instance of a subclass of dict or list, reached past the methods it overrides."""

    builtin: _ById


@_source
class CallSource(_Derived):
    """``function(base)`` for a pure helper such as ``type`` or ``list``."""

    function: _ById
    label: str

    def code(self, base: str, constant: Any) -> str:
        return f"{constant(self.function.obj)}({base})"

    @property
    def name(self) -> str:
        return f"{self.label}({self.parent.name})"


@_source
class PlainSource(_Derived):
    """A tensor of a subclass without its class: another object on the same memory."""

    def code(self, base: str, constant: Any) -> str:
        return f"{constant(plain_alias)}({base})"

    @property
    def name(self) -> str:
        return self.parent.name


@_source
class SizeSource(_Derived):
    """The size of a tensor in one dimension."""

    dim: int

    def code(self, base: str, constant: Any) -> str:
        return f"{base}.size({self.dim})"


@_source
class ElementSource(_Derived):
    """The number that is a tensor's only element, or the one at a place."""

    path: tuple[int, ...]

    def code(self, base: str, constant: Any) -> str:
        return f"{base}[{', '.join(map(str, self.path))}].item()" if self.path else f"{base}.item()"

    @property
    def name(self) -> str:
        return self.code(self.parent.name, None)


@_source
class DerivedSizeSource(_Derived):
    """The number that a size is made of, where the size is declared to be ``scale*number + offset``."""

    dim: int
    scale: int
    offset: int

    def code(self, base: str, constant: Any) -> str:
        return f"(({base}.size({self.dim}) - {self.offset}) // {self.scale})"


@_source
class StrideSource(_Derived):
    """The stride of a tensor in one dimension."""

    dim: int

    def code(self, base: str, constant: Any) -> str:
        return f"{base}.stride({self.dim})"


@dataclass(frozen=True, slots=True)
class CalledSource(_Derived):
    """``base()`` for a weak reference."""

    def code(self, base: str, constant: Any) -> str:
        return f"{base}()"


def call_source(parent: Source, function: Any) -> CallSource:
    """Source of ``function(parent)``."""
    return CallSource(parent, _ById(function), getattr(function, "__name__", "call"))


def graph_input_name(source: Source) -> str:
    """A readable identifier for the graph input that comes from ``source``.

    >>> graph_input_name(AttrSource(LocalSource("self"), "weight"))
    'self_weight'
    """
    text = re.sub(r"[^0-9A-Za-z_]+", "_", source.name).strip("_")
    if not text or text[0].isdigit():
        text = "input_" + text
    return text
