"""Bound methods, written in C or in Python, and super()."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from ..call_signatures import call_native_method
from ..source import Source
from .base import ContainerValue, Value

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer


class NativeMethod(Value):
    """A bound method implemented in C of a natively modelled value: ``items.append``."""

    __slots__ = ("receiver", "name")
    fixed_type = types.BuiltinFunctionType

    def __init__(self, receiver: Value, name: str) -> None:
        super().__init__(None)
        self.receiver = receiver
        self.name = name

    def describe(self) -> str:
        return f"method {self.name!r} of {self.receiver.describe()}"

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "__self__":
            return self.receiver
        if name in ("__name__", "__qualname__"):
            return tx.constant(self.name)
        return super().get_attr(tx, name)

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return call_native_method(tx, self.receiver, self.name, args, kwargs)

    def emit(self, code: EntryCode) -> str:
        storage = getattr(self.receiver, "storage", None)
        if isinstance(storage, ContainerValue):  # past what a subclass overrides
            return storage.emit_method(code, self.name)
        if storage is not None:
            return f"{code.constant(getattr(storage.python_type(), self.name))}.__get__({code.value(self.receiver)})"
        receiver = code.value(self.receiver)
        return f"{receiver}.{self.name}" if receiver.isidentifier() else f"({receiver}).{self.name}"


# methods written in C, and what they become when they are bound
C_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)
BOUND_TYPES = (types.BuiltinMethodType, types.MethodWrapperType)


class MethodValue(Value):
    """A bound method."""

    __slots__ = ("receiver", "function")

    def __init__(self, receiver: Value, function: Value, source: Source | None = None) -> None:
        super().__init__(source)
        self.receiver = receiver
        self.function = function

    def __repr__(self) -> str:
        return f"MethodValue({self.receiver!r}, {self.function!r})"

    def describe(self) -> str:
        return f"method {self.function.describe()}"

    def python_type(self) -> type:
        kind = self.function.python_type()
        return types.MethodType if kind not in C_METHODS else BOUND_TYPES[C_METHODS.index(kind)]

    def key(self, tx: Tracer) -> Any:
        return (MethodValue, self.receiver.key(tx), self.function.key(tx))

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tx.call(self.function, [self.receiver, *args], kwargs)

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "__self__":
            return self.receiver
        if name == "__func__":
            return self.function
        return self.function.get_attr(tx, name)

    def emit(self, code: EntryCode) -> str:
        function = self.function.realize()
        if function.python_type() in C_METHODS:  # bound, such a method is no `types.MethodType`
            return code.assign(self, f"{code.value(function)}.__get__({code.value(self.receiver)})")
        method_type = code.constant(types.MethodType)
        return code.assign(self, f"{method_type}({code.value(self.function)}, {code.value(self.receiver)})")


class SuperValue(Value):
    """``super(cls, obj)``."""

    __slots__ = ("after", "receiver")
    fixed_type = super

    def __init__(self, after: type, receiver: Value) -> None:
        super().__init__(None)
        self.after = after
        self.receiver = receiver

    def get_attr(self, tx: Tracer, name: str) -> Value:
        return tx.objects.super_get_attr(tx, self, name)

    def emit(self, code: EntryCode) -> str:
        return code.assign(self, f"super({code.constant(self.after)}, {code.value(self.receiver)})")
