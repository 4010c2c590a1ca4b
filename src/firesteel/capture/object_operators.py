"""Operators on objects of the program's classes: both sides are asked in the order that Python has."""

from __future__ import annotations

import collections
import sys
import types
from typing import TYPE_CHECKING, Any

from .call_signatures import refused
from .objects import call_special, find_on_class, has_special, special_method
from .signals import GraphBreak
from .values.base import Value
from .values.constants import ConstantValue, NumberValue, PythonObject
from .values.objects import ObjectValue
from .values.sequences import MOST_ITEMS, ListValue, SequenceValue, TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer

# Their + and * are those of sequences, which Python tries after the operators of numbers of both sides.
SEQUENCES: tuple[Any, ...] = (list, tuple, collections.deque, str, bytes)
SEQUENCE_METHODS = frozenset({"__add__", "__iadd__", "__mul__", "__rmul__", "__imul__"})


def not_implemented(value: Value) -> bool:
    """Whether a special method gave NotImplemented."""
    value = value.realize()
    return isinstance(value, (ConstantValue, PythonObject)) and value.as_constant() is NotImplemented


def binary(
    tx: Tracer, symbol: str, left: Value, right: Value, methods: tuple[str, str], augmented: str | None = None
) -> Value:
    """``left <symbol> right`` by the special methods `methods` (plain, reflected), or the augmented assignment."""
    if augmented is not None:
        result = _ask(tx, left, augmented, right)
        if result is not None:
            return result
    result = _numbers(tx, left, right, *methods)
    if result is None and symbol in ("+", "*"):
        result = _sequences(tx, symbol, left, right, augmented is not None)
    if result is not None:
        return result
    if all(isinstance(v, ObjectValue) and v.storage is None or isinstance(v, NumberValue) or
           isinstance(v, ConstantValue) and isinstance(v.value, (int, float, complex, type(None)))
           for v in (left, right)):
        shown = f"{symbol}=" if augmented else {"**": "** or pow()", "divmod": "divmod()"}.get(symbol, symbol)
        names = (left.python_type().__name__, right.python_type().__name__)
        raise tx.raised(TypeError(f"unsupported operand type(s) for {shown}: "
                                  f"{names[0]!r} and {names[1]!r}"))
    raise GraphBreak(f"operator {symbol} between {left.describe()} and {right.describe()} has no method that answers")


def _numbers(tx: Tracer, left: Value, right: Value, method: str, reflected: str) -> Value | None:
    order: list[tuple[Value, Value, str]] = [(left, right, method), (right, left, reflected)]
    left_type, right_type = left.python_type(), right.python_type()
    if right_type is not left_type and issubclass(right_type, left_type) and \
            find_on_class(right_type, reflected, tx)[0] is not find_on_class(left_type, reflected, tx)[0]:
        order.reverse()
    elif left_type is right_type:
        order.pop()
    for receiver, other, name in order:
        result = _ask(tx, receiver, name, other)
        if result is not None:
            return result
    return None


def _ask(tx: Tracer, receiver: Value, name: str, other: Value) -> Value | None:
    """What an operator of numbers answers; None when there is none or it is NotImplemented."""
    if isinstance(receiver, (TensorValue, ConstantValue, NumberValue)):
        return None  # they do not know objects of the program's
    raw, owner = find_on_class(receiver.python_type(), name, tx)
    if owner is None:
        return None
    if raw is None:
        raise tx.raised(TypeError("'NoneType' object is not callable"))
    if _of_sequence(raw, name) and not (isinstance(receiver, ObjectValue) and _also_of_numbers(receiver.cls, name)):
        return None
    method = special_method(tx, receiver, name)
    if method is None:
        return None
    result = tx.call(method, [other], {})
    return None if not_implemented(result) else result


def _also_of_numbers(cls: type, name: str) -> bool:
    """Whether a sequence's method takes part as one of numbers: a subclass has overridden its counterpart."""
    if name == "__iadd__":
        return True
    other = {"__add__": "__radd__", "__mul__": "__rmul__", "__rmul__": "__mul__"}.get(name, "")
    return isinstance(find_on_class(cls, other)[0], types.FunctionType)


def _of_sequence(raw: Any, name: str) -> bool:
    return name in SEQUENCE_METHODS and isinstance(raw, types.WrapperDescriptorType) and raw.__objclass__ in SEQUENCES


def _sequences(tx: Tracer, symbol: str, left: Value, right: Value, in_place: bool) -> Value | None:
    ours, theirs = sequence_in(left), sequence_in(right)
    augmented = "__iadd__" if symbol == "+" else "__imul__"
    if ours is not None and in_place and _of_sequence(find_on_class(left.python_type(), augmented)[0], augmented):
        return tx.call(special_method(tx, left, augmented), [right], {})
    if ours is not None and _is_sequence(left.python_type(), symbol):
        return concatenated(tx, left, right) if symbol == "+" else repeated(tx, left, right)
    if ours is None and symbol == "*" and issubclass(left.python_type(), (str, bytes)):
        raise GraphBreak(f"{left.describe()} * {right.describe()}")  # it repeats itself, if anything does
    if theirs is not None and symbol == "*" and _is_sequence(right.python_type(), symbol):
        return repeated(tx, right, left)
    return None


def _is_sequence(cls: type, symbol: str) -> bool:
    names = ("__add__",) if symbol == "+" else ("__mul__", "__rmul__")
    return all(_of_sequence(find_on_class(cls, name)[0], name) for name in names)


def sequence_in(value: Value) -> SequenceValue | None:
    """The list, tuple or deque that a value is or keeps its items in."""
    if isinstance(value, ObjectValue) and value.storage is not None:
        value = value.storage
    return value if isinstance(value, SequenceValue) else None


def concatenated(tx: Tracer, left: Value, right: Value) -> Value:
    """``left + right`` of sequences."""
    ours, theirs = sequence_in(left), sequence_in(right.realize())
    assert ours is not None
    kind = ours.builtin
    if theirs is None or theirs.builtin is not kind:
        raise refused(f"{kind.__name__} +")
    if kind is collections.deque:
        joined = left.call_method(tx, "copy", [], {})
        tx.call(tx.python_object(collections.deque.extend), [joined, right], {})
        return joined
    if isinstance(ours, TupleValue) and isinstance(theirs, TupleValue):
        import torch

        if not theirs.items and left.python_type() is tuple and ours.owner is None:
            return left
        if not ours.items and right.python_type() is tuple:
            return right
        return TupleValue(ours.items + theirs.items, torch.Size if torch.Size in (ours.cls, theirs.cls) else tuple)
    return ListValue(ours.elements(tx) + theirs.elements(tx))


def repeated(tx: Tracer, sequence: Value, count: Value) -> Value:
    """``sequence * count``."""
    items = sequence_in(sequence)
    assert items is not None
    count = count.realize()
    if isinstance(count, ObjectValue) and has_special(count, "__index__"):
        count = call_special(tx, count, "__index__")
    if not isinstance(count, (ConstantValue, NumberValue)):
        raise GraphBreak(f"{items.builtin.__name__} * {count.describe()}")
    times = tx.constant_of(count)
    if not isinstance(times, int):
        raise refused(f"{items.builtin.__name__} *")
    if times * len(items.elements(tx)) > MOST_ITEMS or times > sys.maxsize:
        raise GraphBreak(f"a {items.builtin.__name__} of more than a million items")
    if isinstance(items, TupleValue):
        if times == 1 and sequence.python_type() is tuple and items.owner is None:
            return sequence
        return items.like(items.elements(tx) * times)
    assert isinstance(items, ListValue)
    if items.cls is collections.deque:
        copied = sequence.call_method(tx, "copy", [], {})
        return tx.call(tx.python_object(collections.deque.__imul__), [copied, ConstantValue(times)], {})
    return ListValue(items.elements(tx) * times)
