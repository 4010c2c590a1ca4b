"""Values: what symbolic execution knows about each Python object that the program handles.

A `Value` stands for one Python object. Values with a `source` existed before the call; the others are made by the
captured program and are built by the generated entry only if they outlive it. Two variables hold the same Value exactly
when they hold the same object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ..effects import forget_any_attribute
from ..signals import GraphBreak, NotConstant
from ..source import Source, StorageSource

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer


def inherits_method(cls: type, name: str, base: type) -> bool:
    """Whether the special method that a class has under `name` is the one that `base` defines."""
    return getattr(cls, name) is getattr(base, name)


class Value:
    """Base class. An operation that a subclass does not model breaks the graph."""

    __slots__ = ("source",)
    fixed_type: ClassVar[type | None] = None
    """The class of the objects, where this kind of value stands for objects of one class only."""

    def __init__(self, source: Source | None = None) -> None:
        self.source = source

    def realize(self) -> Value:
        """The value itself; a lazily wrapped input becomes known (and guarded) here."""
        return self

    def python_type(self) -> type:
        if self.fixed_type is None:
            raise NotImplementedError(type(self).__name__)
        return self.fixed_type

    def describe(self) -> str:
        """For messages: what kind of object this is."""
        try:
            return f"{self.python_type().__module__}.{self.python_type().__qualname__} object".replace("builtins.", "")
        except NotImplementedError:
            return type(self).__name__

    def unsupported(self, what: str, hint: str = "") -> NoReturn:
        raise GraphBreak(f"{what} on {self.describe()} is not captured", hint)

    def is_constant(self) -> bool:
        return False

    def as_constant(self) -> Any:
        raise NotConstant(self.describe())

    def get_attr(self, tx: Tracer, name: str) -> Value:
        return tx.objects.generic_get_attr(tx, self, name)

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        self.unsupported(f"setting attribute {name!r}")

    def del_attr(self, tx: Tracer, name: str) -> None:
        self.unsupported(f"deleting attribute {name!r}")

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tx.objects.call_dunder(tx, self, "__call__", args, kwargs, f"calling {self.describe()}")

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Call a method implemented in C on a value modelled natively (``list.append`` and the like)."""
        self.unsupported(f"method {name!r}")

    @property
    def native_methods(self) -> bool:
        """Whether C-implemented methods of this value's type are modelled by `call_method`."""
        return False

    def truth(self, tx: Tracer) -> bool:
        return tx.objects.generic_truth(tx, self)

    def length(self, tx: Tracer) -> Value:
        length = tx.objects.call_dunder(tx, self, "__len__", [], {}, "len()").realize()
        if length.is_constant() and isinstance(length.as_constant(), bool):
            return tx.constant(int(length.as_constant()))
        return length

    def get_item(self, tx: Tracer, key: Value) -> Value:
        return tx.objects.call_dunder(tx, self, "__getitem__", [key], {}, "subscripting")

    def set_item(self, tx: Tracer, key: Value, value: Value) -> None:
        tx.objects.call_dunder(tx, self, "__setitem__", [key, value], {}, "item assignment")

    def del_item(self, tx: Tracer, key: Value) -> None:
        tx.objects.call_dunder(tx, self, "__delitem__", [key], {}, "item deletion")

    def iterate(self, tx: Tracer) -> Value:
        """``iter(self)``: a value with `next_item`."""
        return tx.objects.generic_iter(tx, self)

    def next_item(self, tx: Tracer) -> Value | None:
        """``next(self)``; None when exhausted."""
        return tx.objects.generic_next(tx, self)

    def key(self, tx: Tracer) -> Any:
        """A hashable Python object that is equal for equal dictionary keys."""
        raise GraphBreak(f"{self.describe()} as a dictionary key or set element is not captured")

    def as_index(self, tx: Tracer) -> Any:
        """The int, slice or other constant that stands for this object as an index into a Python sequence."""
        return tx.constant_of(self)

    def attribute_setter(self, name: str) -> Callable[[Any, str, Any], None]:
        """What sets an attribute of the real object when Python code for that has been executed symbolically."""
        return setattr

    def attribute_deleter(self, name: str) -> Callable[[Any, str], None]:
        """What deletes an attribute of the real object when Python code for that has been executed symbolically."""
        return forget_any_attribute

    def emit(self, code: EntryCode) -> str:
        """Make the generated entry build this object; returns an expression. Only for values without a source."""
        self.unsupported("rebuilding after a graph")


class ContainerValue(Value):
    """A builtin container. It may be what an object of a subclass, `owner`, keeps its items in."""

    __slots__ = ("owner",)

    def __init__(self, source: Source | None = None) -> None:
        super().__init__(source)
        self.owner: Value | None = None

    def emit(self, code: EntryCode) -> str:
        return self.emit_items(code) if self.owner is None else code.value(self.owner)

    def emit_items(self, code: EntryCode) -> str:
        """Make the generated entry build the container itself."""
        raise NotImplementedError

    def emit_method(self, code: EntryCode, name: str) -> str:
        """An expression for a bound method of the builtin's, also where a subclass overrides it."""
        if self.owner is None and not isinstance(self.source, StorageSource):
            return f"{code.value(self)}.{name}"
        return f"{code.constant(getattr(self.python_type(), name))}.__get__({code.value(self)})"


class LazyValue(Value):
    """An input that nothing has looked at yet: no guard exists for it. The first question makes it known."""

    __slots__ = ("tx", "real", "known")

    def __init__(self, tx: Tracer, real: object, source: Source) -> None:
        super().__init__(source)
        self.tx = tx
        self.real = real
        self.known: Value | None = None

    def realize(self) -> Value:
        if self.known is None:
            self.known = self.tx.wrap(self.real, self.source)
        return self.known

    @property
    def native_methods(self) -> bool:
        return self.realize().native_methods


def _ask_realized(name: str) -> Callable[..., Any]:
    def ask(self: LazyValue, *args: Any) -> Any:
        return getattr(self.realize(), name)(*args)

    return ask


for _name in ("python_type", "describe", "is_constant", "as_constant", "get_attr", "set_attr", "del_attr", "call",
              "call_method", "truth", "length", "get_item", "set_item", "del_item", "iterate", "next_item", "key"):
    setattr(LazyValue, _name, _ask_realized(_name))


class IdentityKey:
    """Dictionary key of an object that hashes by identity: equal only for the same Value."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def identity_key(tx: Tracer, value: Value) -> IdentityKey:
    """The key of an object that hashes by identity; the capture relies on such objects being distinct."""
    tx.reliance.hashed_by_identity.append(value)
    return IdentityKey(value)


class NumberKey(IdentityKey):
    """Dictionary key of ``id(obj)``: equal to that of the same Value, and to the number itself, which the program may
    have kept from an earlier call or from before a graph break."""

    __slots__ = ("tx", "number")

    def __init__(self, tx: Tracer, value: Value) -> None:
        super().__init__(value)
        self.tx = tx
        real = getattr(value, "real", None)
        self.number = None if value.source is None or real is None else id(real)

    def __eq__(self, other: object) -> bool:
        if type(other) is int and other == self.number:
            self.tx.guard(self.value.source, "same object", f"id({{0}}) == {other}")
            return True
        return isinstance(other, NumberKey) and other.value is self.value

    def __hash__(self) -> int:
        return hash(id(self.value) if self.number is None else self.number)


ATOMIC = frozenset({int, float, complex, bool, str, bytes, type(None), type(...), type(NotImplemented)})


class IdentityNumber(Value):
    """``id(obj)``: may be compared, used as a key and passed on; arithmetic on it needs the real number."""

    __slots__ = ("of",)
    fixed_type = int

    def __init__(self, of: Value) -> None:
        super().__init__(None)
        self.of = of

    def key(self, tx: Tracer) -> Any:
        if self.of.python_type() in ATOMIC:  # equal ones may well be the same object
            return ("id", id(tx.constant_of(self.of)))
        tx.reliance.hashed_by_identity.append(self.of)
        tx.reliance.numbers_of.append(self.of)
        return NumberKey(tx, self.of)

    def truth(self, tx: Tracer) -> bool:
        return True

    def emit(self, code: EntryCode) -> str:
        return f"id({code.value(self.of)})"


class IdentityHash(Value):
    """``hash(obj)`` of an object that hashes by identity: may be compared with another one and passed on."""

    __slots__ = ("of",)

    def __init__(self, of: Value) -> None:
        super().__init__(None)
        self.of = of

    def python_type(self) -> type:
        return int

    def key(self, tx: Tracer) -> Any:
        return ("hash", identity_key(tx, self.of))

    def emit(self, code: EntryCode) -> str:
        return f"hash({code.value(self.of)})"


class UserKey(IdentityKey):
    """Dictionary key of an object with its own ``__hash__``: compared by running its ``__eq__`` symbolically."""

    __slots__ = ("tx", "number")

    def __init__(self, tx: Tracer, value: Value, number: int) -> None:
        super().__init__(value)
        self.tx = tx
        self.number = number

    def __eq__(self, other: object) -> bool:
        if isinstance(other, IdentityKey):
            if other.value is self.value:
                return True
            compared = other.value
        else:
            compared = self.tx.python_object(other)
        return without_effects(self.tx, lambda: self.tx.truth(self.tx.compare("==", self.value, compared)))

    def __hash__(self) -> int:
        return self.number


def user_key(tx: Tracer, value: Value) -> UserKey:
    """The key of an object whose class defines ``__hash__``."""
    number = without_effects(tx, lambda: tx.constant_of(tx.objects.call_special(tx, value, "__hash__")))
    return UserKey(tx, value, hash(number))


def without_effects(tx: Tracer, run: Callable[[], Any]) -> Any:
    """Run a user's method that dictionaries call as often as they like: it must not change anything."""
    before = tx.effects.version
    result = run()
    if tx.effects.version != before:
        raise GraphBreak("a __hash__ or __eq__ that changes something")
    return result
