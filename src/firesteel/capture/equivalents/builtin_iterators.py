"""The iterators among the builtins: map, filter, zip, enumerate, reversed, iter with a sentinel, next."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from firesteel.capture.equivalents.registry import MISSING, equivalent_of


class MapIterator:
    """What `map` returns."""

    def __init__(self, function: Callable[..., Any], iterators: list[Iterator[Any]]) -> None:
        self.function = function
        self.iterators = iterators

    def __iter__(self) -> MapIterator:
        return self

    def __next__(self) -> Any:
        arguments = []
        for iterator in self.iterators:
            arguments.append(next(iterator))
        return self.function(*arguments)


@equivalent_of(map)
def map_(*arguments: Any) -> MapIterator:
    if len(arguments) < 2:
        raise TypeError("map() must have at least two arguments.")
    iterators = []
    for iterable in arguments[1:]:
        iterators.append(iter(iterable))
    return MapIterator(arguments[0], iterators)


class FilterIterator:
    """What `filter` and `itertools.filterfalse` return: the elements whose verdict is `wanted`."""

    def __init__(self, function: Callable[[Any], Any] | None, iterator: Iterator[Any], wanted: bool) -> None:
        self.function = function
        self.iterator = iterator
        self.wanted = wanted

    def __iter__(self) -> FilterIterator:
        return self

    def __next__(self) -> Any:
        while True:
            element = next(self.iterator)
            if self.function is None or self.function is bool:
                verdict = element
            else:
                verdict = self.function(element)
            if self.wanted:
                if verdict:
                    return element
            elif not verdict:
                return element


@equivalent_of(filter)
def filter_(function: Callable[[Any], Any] | None, iterable: Iterable[Any], /) -> FilterIterator:
    return FilterIterator(function, iter(iterable), True)


class ZipIterator:
    """What `zip` returns."""

    def __init__(self, iterators: list[Iterator[Any]], strict: bool) -> None:
        self.iterators = iterators
        self.strict = strict

    def __iter__(self) -> ZipIterator:
        return self

    def __next__(self) -> tuple[Any, ...]:
        if not self.iterators:
            raise StopIteration
        elements: list[Any] = []
        for iterator in self.iterators:
            try:
                elements.append(next(iterator))
            except StopIteration:
                if not self.strict:
                    raise
                break
        if len(elements) == len(self.iterators):
            return tuple(elements)
        if elements:
            raise ValueError(_unequal_lengths(len(elements), "shorter"))
        # The first iterator ended, so all the others must end here as well.
        for position in range(1, len(self.iterators)):
            if next(self.iterators[position], MISSING) is not MISSING:
                raise ValueError(_unequal_lengths(position, "longer"))
        raise StopIteration


def _unequal_lengths(position: int, how: str) -> str:
    others = "argument 1" if position == 1 else f"arguments 1-{position}"
    return f"zip() argument {position + 1} is {how} than {others}"


@equivalent_of(zip)
def zip_(*iterables: Iterable[Any], strict: Any = False) -> ZipIterator:
    is_strict = bool(strict)
    iterators = []
    for iterable in iterables:
        iterators.append(iter(iterable))
    return ZipIterator(iterators, is_strict)


class EnumerateIterator:
    """What `enumerate` returns."""

    def __init__(self, iterator: Iterator[Any], index: int) -> None:
        self.iterator = iterator
        self.index = index

    def __iter__(self) -> EnumerateIterator:
        return self

    def __next__(self) -> tuple[int, Any]:
        element = next(self.iterator)
        index = self.index
        self.index = index + 1
        return index, element


@equivalent_of(enumerate)
def enumerate_(iterable: Iterable[Any], start: Any = 0) -> EnumerateIterator:
    index = operator.index(start)
    return EnumerateIterator(iter(iterable), index)


class ReversedIterator:
    """What `reversed` returns for a sequence without `__reversed__`."""

    def __init__(self, sequence: Any, index: int) -> None:
        self.sequence = sequence
        self.index = index

    def __iter__(self) -> ReversedIterator:
        return self

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


@equivalent_of(reversed)
def reversed_(sequence: Any, /) -> Any:
    cls = type(sequence)
    method = getattr(cls, "__reversed__", MISSING)
    if method is not MISSING and method is not None:
        return method(sequence)
    if method is None or not hasattr(cls, "__getitem__"):
        raise TypeError(f"'{cls.__name__}' object is not reversible")
    return ReversedIterator(sequence, len(sequence) - 1)


class SentinelIterator:
    """What `iter(function, sentinel)` returns."""

    def __init__(self, function: Callable[[], Any], sentinel: Any) -> None:
        self.function = function
        self.sentinel = sentinel
        self.ended = False

    def __iter__(self) -> SentinelIterator:
        return self

    def __next__(self) -> Any:
        if not self.ended:
            try:
                value = self.function()
            except StopIteration:
                self.ended = True
            else:
                if not (self.sentinel is value or self.sentinel == value):
                    return value
                self.ended = True
        raise StopIteration


_NOT_CALLABLE = (
    "iter(object, sentinel): object must be callable"
    if sys.version_info[:2] == (3, 12)
    else "iter(v, w): v must be callable"
)


@equivalent_of(iter)
def iter_(source: Any, sentinel: Any = MISSING, /) -> Any:
    if sentinel is MISSING:
        return iter(source)
    if not callable(source):
        raise TypeError(_NOT_CALLABLE)
    return SentinelIterator(source, sentinel)


@equivalent_of(next)
def next_(iterator: Any, default: Any = MISSING, /) -> Any:
    if default is MISSING:
        return next(iterator)
    try:
        return next(iterator)
    except StopIteration:
        return default


class SequenceIterator:
    """What `iter` returns for an object that has `__getitem__` but no `__iter__`."""

    def __init__(self, sequence: Any) -> None:
        self.sequence = sequence
        self.index = 0

    def __iter__(self) -> SequenceIterator:
        return self

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
