"""Generators of random numbers, of Python's and of NumPy's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..signals import GraphBreak
from ..source import Source
from .base import Value, identity_key
from .methods import MethodValue, NativeMethod

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer


class RandomGenerator(Value):
    """A generator from outside, one that the process has for all, or one that the entry makes in a `variable`."""

    native_methods = True
    __slots__ = ("real", "variable")

    def __init__(self, real: Any, source: Source | None, variable: str | None = None) -> None:
        super().__init__(source)
        self.real = real
        self.variable = variable

    def python_type(self) -> type:
        return type(self.real)

    def text(self, code: EntryCode) -> str:
        """The expression for the generator in an entry."""
        if self.variable is not None:
            return self.variable
        return code.source(self.source) if self.source is not None else code.constant(self.real)

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "__class__":
            return tx.python_object(type(self.real))
        attribute, owner = tx.objects.find_on_class(type(self.real), name)
        if name not in tx.draws.primitive and type(attribute).__name__ == "function" and owner is not None:
            return MethodValue(self, tx.python_object(attribute))
        if not callable(getattr(self.real, name, None)):
            raise GraphBreak(f"attribute {name!r} of a generator of random numbers")
        return NativeMethod(self, name)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tx.draws.draw(self, name, args, kwargs)

    def truth(self, tx: Tracer) -> bool:
        return True

    def key(self, tx: Tracer) -> Any:
        return identity_key(tx, self)

    def emit(self, code: EntryCode) -> str:
        return self.text(code)
