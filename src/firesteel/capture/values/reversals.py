"""What ``reversed()`` gives: of builtin containers, each of a type of its own, and of objects of the program's."""

from __future__ import annotations

import collections
import types
from typing import TYPE_CHECKING, Any

from ..equivalents import sequence_iterators
from ..signals import UserRaise
from .base import Value
from .iterators import IteratorValue

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer


def reversed_list(items: list[Any]) -> Any:
    """``reversed()`` of the list whose items come in this order."""
    return reversed(items[::-1])


def reversed_tuple(items: list[Any]) -> Any:
    """``reversed()`` of the tuple whose items come in this order."""
    return reversed((*items[::-1],))


def reversed_deque(items: list[Any]) -> Any:
    """``reversed()`` of the deque whose items come in this order."""
    return reversed(collections.deque(items[::-1]))


def reversed_keys(items: list[Any]) -> Any:
    """``reversed()`` of the dictionary whose keys come in this order."""
    return reversed(dict.fromkeys(items[::-1]))


def reversed_values(items: list[Any]) -> Any:
    """``reversed()`` of the dictionary's values that come in this order."""
    return reversed(dict(enumerate(items[::-1])).values())


def reversed_items(items: list[Any]) -> Any:
    """``reversed()`` of the dictionary's items that come in this order."""
    return reversed(dict(items[::-1]).items())


def reversed_ordered_keys(items: list[Any]) -> Any:
    """``reversed()`` of the OrderedDict whose keys come in this order."""
    return reversed(collections.OrderedDict.fromkeys(items[::-1]))


def resume_reversed(sequence: Any, index: int) -> Any:
    """``reversed(sequence)`` that gives the item at `index` next; the sequence's own ``__len__`` has been asked."""
    if isinstance(getattr(type(sequence), "__len__", None), types.FunctionType):
        return sequence_iterators.ReversedIterator(sequence, index)
    iterator = reversed(sequence)
    iterator.__setstate__(index)  # type: ignore[attr-defined]
    return iterator


class ReversedIterator(IteratorValue):
    """``reversed()`` of an object of the program's, which is asked for one item after the other."""

    __slots__ = ("sequence", "index")
    fixed_type = reversed

    def __init__(self, sequence: Value, index: int) -> None:
        super().__init__(None)
        self.sequence: Value | None = sequence  # None: exhausted
        self.index = index

    def next_item(self, tx: Tracer) -> Value | None:
        sequence, index = self.sequence, self.index
        if sequence is None:
            return None
        tx.effects.stepped(self)
        self.sequence = None  # an exception ends it for good
        if index < 0:
            return None
        try:
            item = tx.get_item(sequence, tx.constant(index))
        except UserRaise as raised:
            if issubclass(raised.value.python_type(), (IndexError, StopIteration)):
                return None
            raise
        self.sequence, self.index = sequence, index - 1
        return item

    def emit(self, code: EntryCode) -> str:
        if self.sequence is None:
            return code.assign(self, "reversed(())")
        return code.assign(self, f"{code.constant(resume_reversed)}({code.value(self.sequence)}, {self.index})")
