"""``types.MappingProxyType`` around a mapping that the program holds: it shows what becomes of the mapping."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

from .base import Value

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer

PASSED_ON = frozenset({"get", "keys", "values", "items", "copy", "__getitem__", "__contains__", "__len__", "__iter__",
                       "__reversed__"})


class MappingProxyValue(Value):
    """A proxy made by the program."""

    __slots__ = ("mapping",)
    fixed_type = types.MappingProxyType
    native_methods = True

    def __init__(self, mapping: Value) -> None:
        super().__init__(None)
        self.mapping = mapping

    def truth(self, tx: Tracer) -> bool:
        return tx.truth(self.length(tx))

    def length(self, tx: Tracer) -> Value:
        return self.mapping.length(tx)

    def get_item(self, tx: Tracer, key: Value) -> Value:
        return self.mapping.get_item(tx, key)

    def set_item(self, tx: Tracer, key: Value, value: Value) -> None:
        raise tx.raised(TypeError("'mappingproxy' object does not support item assignment"))

    def iterate(self, tx: Tracer) -> Value:
        return self.mapping.iterate(tx)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in PASSED_ON:
            return tx.call_method(self.mapping, name, args, kwargs)
        self.unsupported(f"method {name!r}")

    def emit(self, code: EntryCode) -> str:
        return code.assign(self, f"{code.constant(types.MappingProxyType)}({code.value(self.mapping)})")
