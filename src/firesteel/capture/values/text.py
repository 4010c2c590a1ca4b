"""Strings with numbers of the graph in them: ``f"step {n}"``; and with tensors, as messages of errors have them.

The entry puts a text with numbers together. One with tensors is never made: most of them are messages of exceptions
that are not raised. Where such a text is needed after all, the capture begins again with a break where it is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..signals import GraphBreak, Restart
from .base import Value
from .constants import ConstantValue, NumberValue, SliceValue
from .sequences import ListValue, TupleValue
from .tensors import TensorValue

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer

Part = str | tuple[NumberValue | TensorValue, str, str]
"""Text, or a number or a tensor with the conversion and the format of an f-string's field."""
PRINTING = ("__repr__", "__str__", "__format__")


class TextValue(Value):
    """A string that the entry puts together. To look into it the numbers must be constants."""

    __slots__ = ("tx", "parts", "known", "unmade")
    fixed_type = str
    native_methods = True

    def __init__(self, tx: Tracer, parts: list[Part], unmade: Restart | None = None) -> None:
        super().__init__(None)
        self.tx = tx
        self.parts = parts
        self.known: ConstantValue | None = None
        # what happens where a text with tensors is needed
        self.unmade = unmade
        if unmade is None and any(not isinstance(part, str) and isinstance(part[0], TensorValue) for part in parts):
            cause = GraphBreak("the text of a tensor needs its data")
            cause.frames = tx.user_frames()  # type: ignore[attr-defined]
            self.unmade = Restart(tx.root_step, cause)

    def __repr__(self) -> str:
        return f"TextValue({self.parts})"

    def realize(self) -> Value:
        return self if self.known is None else self.known

    def specialize(self) -> ConstantValue:
        """Make the numbers constants."""
        self.check_made()
        if self.known is None:
            self.known = ConstantValue("".join(
                part if isinstance(part, str) else _format(self.tx.constant_of(part[0]), *part[1:])
                for part in self.parts))
        return self.known

    def check_made(self) -> None:
        """Begin the capture again if this text cannot be made in the entry."""
        if self.unmade is not None:
            raise self.unmade

    def as_constant(self) -> Any:
        return self.specialize().value

    def get_attr(self, tx: Tracer, name: str) -> Value:
        return self.specialize().get_attr(tx, name)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.specialize().call_method(tx, name, args, kwargs)

    def truth(self, tx: Tracer) -> bool:
        return True  # a number has at least one digit, a tensor its name

    def length(self, tx: Tracer) -> Value:
        return self.specialize().length(tx)

    def get_item(self, tx: Tracer, key: Value) -> Value:
        return self.specialize().get_item(tx, key)

    def iterate(self, tx: Tracer) -> Value:
        return self.specialize().iterate(tx)

    def key(self, tx: Tracer) -> Any:
        return self.specialize().key(tx)

    def emit(self, code: EntryCode) -> str:
        self.check_made()
        texts = [repr(part) if isinstance(part, str) else
                 f"{code.constant(_format)}({code.value(part[0])}, {part[1]!r}, {part[2]!r})" for part in self.parts]
        return code.assign(self, f"''.join(({', '.join(texts)},))")


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"": lambda number: number, "s": str, "r": repr, "a": ascii}


def _format(number: Any, conversion: str, spec: str) -> str:
    return format(_CONVERSIONS[conversion](number), spec)


def join(tx: Tracer, pieces: list[Value]) -> Value:
    """The concatenation of strings."""
    pieces = [piece.realize() for piece in pieces]
    if not any(isinstance(piece, TextValue) for piece in pieces):
        return ConstantValue("".join(piece.as_constant() for piece in pieces))
    parts: list[Part] = []
    for piece in pieces:
        parts.extend(piece.parts if isinstance(piece, TextValue) else [piece.as_constant()])
    unmade = [piece.unmade for piece in pieces if isinstance(piece, TextValue) and piece.unmade is not None]
    return TextValue(tx, parts, min(unmade, key=lambda restart: restart.step, default=None))


def has_plain_text(tx: Tracer, value: TensorValue) -> bool:
    """Whether nothing of the program's runs when torch makes the text of a tensor."""
    return value.cls in {torch.Tensor, torch.nn.Parameter} and not tx.torch_functions.modes and all(
        getattr(getattr(value.cls, name), "__module__", None) in ("torch._tensor", "torch.nn.parameter")
        for name in PRINTING if name in vars(torch.Tensor))


def text_of_numbers(tx: Tracer, value: Value) -> list[Part] | None:
    """``repr(value)`` of a number or a tensor, or of sequences of these; None when there are none, or other things."""
    value = value.realize()
    if isinstance(value, NumberValue) or isinstance(value, TensorValue) and has_plain_text(tx, value):
        return [(value, "r", "")]
    if isinstance(value, SliceValue):
        return _enclosed(tx, "slice(", list(value.parts), ")")
    if isinstance(value, ListValue) and value.cls is list and value.items is not None:
        return _enclosed(tx, "[", value.items, "]")
    if isinstance(value, TupleValue) and value.cls is tuple:
        return _enclosed(tx, "(", value.items, ",)" if len(value.items) == 1 else ")")
    if isinstance(value, TupleValue) and value.cls.__module__ == "torch" and value.cls.__name__ == "Size":
        return _enclosed(tx, "torch.Size([", value.items, "])")
    return None


def _enclosed(tx: Tracer, before: str, items: list[Value], after: str) -> list[Part] | None:
    parts: list[Part] = [before]
    enclosed = False
    for position, item in enumerate(items):
        item = item.realize()
        inner = text_of_numbers(tx, item)
        if inner is None:
            if not isinstance(item, ConstantValue):
                return None
            inner = [repr(item.value)]
        else:
            enclosed = True
        parts.extend([", "] if position else [])
        parts.extend(inner)
    return [*parts, after] if enclosed else None
