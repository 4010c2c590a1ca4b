"""``function.__dict__`` of a function that the captured program made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import Value
from .mappings import DictValue

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer
    from .functions import FunctionValue

# Attributes that functions have outside of their dictionary.
ELSEWHERE = frozenset({
    "__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__defaults__", "__kwdefaults__",
    "__type_params__", "__code__", "__closure__", "__globals__",
})


class FunctionDict(DictValue):
    """The attributes of a function as a dictionary; writes go to the function."""

    __slots__ = ("function",)

    def __init__(self, function: FunctionValue) -> None:
        super().__init__({})
        self.function = function

    def fill(self, tx: Tracer) -> dict[Any, tuple[Value, Value]]:
        """Always made anew: the function's attributes may have changed since the last time."""
        self.items = {name: (tx.constant(name), value) for name, value in self.function.attrs.items()
                      if value is not None and name not in ELSEWHERE}
        return self.items

    def lookup(self, tx: Tracer, key: Value) -> Value | None:
        self.fill(tx)
        return super().lookup(tx, key)

    def set_item(self, tx: Tracer, key: Value, value: Value) -> None:
        name = tx.constant_of(key)
        if not isinstance(name, str) or name in ELSEWHERE:
            self.unsupported("an unusual key")
        self.function.set_attr(tx, name, value)

    def del_item(self, tx: Tracer, key: Value) -> None:
        self.unsupported("deleting an item")

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        self.fill(tx)
        if name in ("popitem", "clear") or name == "pop" and (len(args) < 2 or super().lookup(tx, args[0]) is not None):
            self.unsupported(f"method {name!r}")
        return super().call_method(tx, name, args, kwargs)

    def emit_items(self, code: EntryCode) -> str:
        return f"{code.value(self.function)}.__dict__"
