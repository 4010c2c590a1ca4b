"""The iterators of itertools that pass elements through, one source after or beside another."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from firesteel.capture.call_handlers import MISSING, equivalent_of
from firesteel.capture.equivalents.sequence_iterators import OwnIterator


class AccumulateIterator(OwnIterator):
    """What `itertools.accumulate` returns."""

    def __init__(self, iterator: Iterator[Any], function: Callable[[Any, Any], Any] | None, initial: Any) -> None:
        self.iterator = iterator
        self.function = function
        self.initial = initial
        self.total = MISSING

    def __next__(self) -> Any:
        if self.initial is not None:
            self.total = self.initial
            self.initial = None
            return self.total
        element = next(self.iterator)
        if self.total is MISSING:
            self.total = element
        elif self.function is None:
            self.total = self.total + element
        else:
            self.total = self.function(self.total, element)
        return self.total


@equivalent_of(itertools.accumulate)
def accumulate(
    iterable: Iterable[Any], func: Callable[[Any, Any], Any] | None = None, *, initial: Any = None
) -> AccumulateIterator:
    return AccumulateIterator(iter(iterable), func, initial)


class ChainIterator(OwnIterator):
    """What `itertools.chain` returns. An error from `source` ends the chain, one from an element of it does not."""

    def __init__(self, source: Iterator[Any]) -> None:
        self.source: Iterator[Any] | None = source
        self.active: Iterator[Any] | None = None

    def __next__(self) -> Any:
        while self.source is not None:
            if self.active is None:
                source = self.source
                self.source = None
                try:
                    iterable = next(source)
                except StopIteration:
                    break
                self.active = iter(iterable)
                self.source = source
            try:
                return next(self.active)
            except StopIteration:
                self.active = None
        raise StopIteration


@equivalent_of(itertools.chain)
def chain(*iterables: Iterable[Any]) -> ChainIterator:
    return ChainIterator(iter(iterables))


@equivalent_of(itertools.chain.from_iterable)
def chain_from_iterable(iterable: Iterable[Iterable[Any]], /) -> ChainIterator:
    return ChainIterator(iter(iterable))


class CompressIterator(OwnIterator):
    """What `itertools.compress` returns."""

    def __init__(self, data: Iterator[Any], selectors: Iterator[Any]) -> None:
        self.data = data
        self.selectors = selectors

    def __next__(self) -> Any:
        while True:
            element = next(self.data)
            if next(self.selectors):
                return element


@equivalent_of(itertools.compress)
def compress(data: Iterable[Any], selectors: Iterable[Any]) -> CompressIterator:
    return CompressIterator(iter(data), iter(selectors))


class CycleIterator(OwnIterator):
    """What `itertools.cycle` returns."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self.iterator: Iterator[Any] | None = iterator
        self.saved: list[Any] = []
        self.index = 0

    def __next__(self) -> Any:
        if self.iterator is not None:
            try:
                element = next(self.iterator)
            except StopIteration:
                self.iterator = None
            else:
                self.saved.append(element)
                return element
        if not self.saved:
            raise StopIteration
        element = self.saved[self.index]
        self.index = (self.index + 1) % len(self.saved)
        return element


@equivalent_of(itertools.cycle)
def cycle(iterable: Iterable[Any], /) -> CycleIterator:
    return CycleIterator(iter(iterable))


class PredicateIterator(OwnIterator):
    """Base of those with a predicate; `refused` says whether it has refused an element yet."""

    def __init__(self, predicate: Callable[[Any], Any], iterator: Iterator[Any]) -> None:
        self.predicate = predicate
        self.iterator = iterator
        self.refused = False


class DropWhileIterator(PredicateIterator):
    """What `itertools.dropwhile` returns."""

    def __next__(self) -> Any:
        while True:
            element = next(self.iterator)
            if self.refused:
                return element
            if not self.predicate(element):
                self.refused = True
                return element


@equivalent_of(itertools.dropwhile)
def dropwhile(predicate: Callable[[Any], Any], iterable: Iterable[Any], /) -> DropWhileIterator:
    return DropWhileIterator(predicate, iter(iterable))


class TakeWhileIterator(PredicateIterator):
    """What `itertools.takewhile` returns."""

    def __next__(self) -> Any:
        if self.refused:
            raise StopIteration
        element = next(self.iterator)
        if self.predicate(element):
            return element
        self.refused = True
        raise StopIteration


@equivalent_of(itertools.takewhile)
def takewhile(predicate: Callable[[Any], Any], iterable: Iterable[Any], /) -> TakeWhileIterator:
    return TakeWhileIterator(predicate, iter(iterable))


class FilterFalseIterator(OwnIterator):
    """What `itertools.filterfalse` returns."""

    def __init__(self, function: Callable[[Any], Any] | None, iterator: Iterator[Any]) -> None:
        self.function = function
        self.iterator = iterator

    def __next__(self) -> Any:
        while True:
            element = next(self.iterator)
            if self.function is None or self.function is bool:
                verdict = element
            else:
                verdict = self.function(element)
            if not verdict:
                return element


@equivalent_of(itertools.filterfalse)
def filterfalse(function: Callable[[Any], Any] | None, iterable: Iterable[Any], /) -> FilterFalseIterator:
    return FilterFalseIterator(function, iter(iterable))


class RepeatIterator(OwnIterator):
    """What `itertools.repeat` returns."""

    def __init__(self, element: Any, remaining: int | None) -> None:
        self.element = element
        self.remaining = remaining

    def __next__(self) -> Any:
        if self.remaining is not None:
            if self.remaining == 0:
                raise StopIteration
            self.remaining -= 1
        return self.element

    def __length_hint__(self) -> int:
        if self.remaining is None:
            raise TypeError("len() of unsized object")
        return self.remaining

    def __repr__(self) -> str:
        if self.remaining is None:
            return f"repeat({self.element!r})"
        return f"repeat({self.element!r}, {self.remaining})"


@equivalent_of(itertools.repeat)
def repeat(object: Any, times: Any = MISSING) -> RepeatIterator:
    if times is MISSING:
        return RepeatIterator(object, None)
    remaining = operator.index(times)
    return RepeatIterator(object, remaining if remaining > 0 else 0)


class StarMapIterator(OwnIterator):
    """What `itertools.starmap` returns."""

    def __init__(self, function: Callable[..., Any], iterator: Iterator[Any]) -> None:
        self.function = function
        self.iterator = iterator

    def __next__(self) -> Any:
        arguments = tuple(next(self.iterator))
        return self.function(*arguments)


@equivalent_of(itertools.starmap)
def starmap(function: Callable[..., Any], iterable: Iterable[Any], /) -> StarMapIterator:
    return StarMapIterator(function, iter(iterable))


class ZipLongestIterator(OwnIterator):
    """What `itertools.zip_longest` returns. An iterator that ended is replaced by None."""

    def __init__(self, iterators: list[Iterator[Any] | None], fillvalue: Any) -> None:
        self.iterators = iterators
        self.active = len(iterators)
        self.fillvalue = fillvalue

    def __next__(self) -> tuple[Any, ...]:
        if self.active == 0:
            raise StopIteration
        elements = []
        for position in range(len(self.iterators)):
            iterator = self.iterators[position]
            element = self.fillvalue
            if iterator is not None:
                try:
                    element = next(iterator)
                except StopIteration:
                    self.active -= 1
                    self.iterators[position] = None
                except BaseException:
                    self.active = 0  # an error ends the whole iteration
                    raise
            if self.active == 0:
                raise StopIteration
            elements.append(element)
        return tuple(elements)


@equivalent_of(itertools.zip_longest)
def zip_longest(*iterables: Iterable[Any], fillvalue: Any = None) -> ZipLongestIterator:
    iterators: list[Iterator[Any] | None] = []
    for iterable in iterables:
        iterators.append(iter(iterable))
    return ZipLongestIterator(iterators, fillvalue)
