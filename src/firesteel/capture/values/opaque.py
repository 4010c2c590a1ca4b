"""Objects that capture cannot look into."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from ..break_reasons import hint_for_object, not_known, written_name
from ..signals import GraphBreak
from ..source import AttrSource, Source
from .base import Value, identity_key, inherits_method

if TYPE_CHECKING:
    from ..tracer import Tracer


class OpaqueValue(Value):
    """An object that capture cannot look into: it may be passed along, anything else runs in Python."""

    __slots__ = ("real", "reason")

    def __init__(self, real: Any, source: Source, reason: str = "") -> None:
        super().__init__(source)
        self.real = real
        self.reason = reason

    def python_type(self) -> type:
        return type(self.real)

    def why(self) -> str:
        """The reason in brackets, for messages."""
        return f" ({self.reason})" if self.reason else ""

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "__class__":
            return tx.python_object(type(self.real))
        if type(self.real) is property and self.source is not None and name in ("fget", "fset", "fdel", "__doc__"):
            return tx.looked_up(getattr(self.real, name), AttrSource(self.source, name))
        if isinstance(self.real, (types.UnionType, types.GenericAlias)) and \
                name in ("__args__", "__origin__") and hasattr(self.real, name):
            tx.guard(self.source, "identity", "{0} is {k[0]}", (self.real,))  # it cannot be changed
            return tx.python_object(getattr(self.real, name))
        self.unsupported(f"reading attribute {name!r}" + self.why(),
                         hint_for_object(self.real))

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if isinstance(self.real, types.BuiltinFunctionType):
            raise not_known(self.real, self.describe())
        if written_name(self.real):
            raise GraphBreak(f"a call of {written_name(self.real)} is not captured", hint_for_object(self.real))
        self.unsupported("a call")

    def truth(self, tx: Tracer) -> bool:
        self.unsupported("the truth value" + self.why())

    def length(self, tx: Tracer) -> Value:
        self.unsupported("len()" + self.why())

    def get_item(self, tx: Tracer, key: Value) -> Value:
        self.unsupported("subscripting" + self.why())

    def set_item(self, tx: Tracer, key: Value, value: Value) -> None:
        self.unsupported("item assignment" + self.why())

    def iterate(self, tx: Tracer) -> Value:
        self.unsupported("iteration" + self.why())

    def next_item(self, tx: Tracer) -> Value | None:
        self.unsupported("next()", hint_for_object(self.real))

    def key(self, tx: Tracer) -> Any:
        if inherits_method(type(self.real), "__hash__", object):
            return identity_key(tx, self)
        return super().key(tx)


class OpaqueIterator(OpaqueValue):
    """A real iterator from outside: stepping it happens in Python."""

    __slots__ = ()

    def __init__(self, real: Any, source: Source) -> None:
        super().__init__(real, source, "an iterator that was made outside")

    def iterate(self, tx: Tracer) -> Value:
        return self

    def truth(self, tx: Tracer) -> bool:
        return True
