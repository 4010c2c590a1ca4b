"""Iterators of objects that have ``__getitem__`` and say nothing about how they are iterated."""

from __future__ import annotations

from typing import Any


class OwnIterator:
    """Base of iterators: ``iter()`` of one is the iterator itself."""

    def __iter__(self) -> Any:
        return self


class ReversedIterator(OwnIterator):
    """What `reversed` returns for a sequence without `__reversed__`."""

    def __init__(self, sequence: Any, index: int) -> None:
        self.sequence = sequence
        self.index = index

    def __next__(self) -> Any:
        index = self.index
        if index >= 0:
            self.index = -1  # any exception ends the iteration for good
            try:
                element = self.sequence[index]
            except (IndexError, StopIteration):
                pass  # the sequence shrank meanwhile
            else:
                self.index = index - 1
                return element
        raise StopIteration

    def __length_hint__(self) -> int:
        remaining = self.index + 1
        return 0 if len(self.sequence) < remaining else remaining


class SequenceIterator(OwnIterator):
    """What `iter` returns for an object that has `__getitem__` but no `__iter__`."""

    def __init__(self, sequence: Any) -> None:
        self.sequence = sequence
        self.index = 0

    def __next__(self) -> Any:
        if self.index < 0:
            raise StopIteration
        try:
            element = self.sequence[self.index]
        except (IndexError, StopIteration):
            self.index = -1
            raise StopIteration from None
        self.index += 1
        return element


def sequence_iterator(sequence: Any) -> SequenceIterator:
    """``iter(sequence)`` through ``__getitem__``."""
    return SequenceIterator(sequence)
