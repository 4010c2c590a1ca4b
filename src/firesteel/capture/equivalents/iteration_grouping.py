"""The iterators of itertools that cut, group or share one source: islice, pairwise, batched, groupby, tee."""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from firesteel.capture.call_handlers import MISSING, equivalent_of
from firesteel.capture.equivalents.sequence_iterators import OwnIterator


class SliceIterator(OwnIterator):
    """What `itertools.islice` returns. `consumed` counts what was taken from the iterator, which is None at the end."""

    def __init__(self, iterator: Iterator[Any], start: int, stop: int | None, step: int) -> None:
        self.iterator: Iterator[Any] | None = iterator
        self.consumed = 0
        self.upcoming = start
        self.stop = stop
        self.step = step

    def __next__(self) -> Any:
        iterator = self.iterator
        if iterator is None:
            raise StopIteration
        try:
            while self.consumed < self.upcoming:
                next(iterator)
                self.consumed += 1
            if self.stop is not None and self.consumed >= self.stop:
                raise StopIteration
            element = next(iterator)
        except BaseException:
            self.iterator = None
            raise
        self.consumed += 1
        self.upcoming += self.step
        if self.stop is not None and self.upcoming > self.stop:
            self.upcoming = self.stop
        return element


_BAD_STOP = "Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize."
_BAD_INDICES = "Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize."
_BAD_STEP = "Step for islice() must be a positive integer or None."


def _index_or(value: Any, error_value: int) -> int:
    """`value` as an index, `error_value` where it has none: islice reports both with its own message."""
    try:
        index = operator.index(value)
    except Exception:
        return error_value
    return error_value if index > sys.maxsize else index


@equivalent_of(itertools.islice)
def islice(iterable: Iterable[Any], first: Any, second: Any = MISSING, step: Any = None, /) -> SliceIterator:
    start = 0
    stop = None
    if second is MISSING:
        stop_argument = first
    else:
        stop_argument = second
        if first is not None:
            start = _index_or(first, -1)
    if stop_argument is not None:
        stop = _index_or(stop_argument, -1)
        if stop == -1:
            raise ValueError(_BAD_STOP)
    if start < 0 or (stop is not None and stop < -1):
        raise ValueError(_BAD_INDICES)
    stride = 1 if step is None else _index_or(step, -1)
    if stride < 1:
        raise ValueError(_BAD_STEP)
    return SliceIterator(iter(iterable), start, stop, stride)


class PairwiseIterator(OwnIterator):
    """What `itertools.pairwise` returns."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self.iterator: Iterator[Any] | None = iterator
        self.previous = MISSING

    def __next__(self) -> tuple[Any, Any]:
        if self.iterator is None:
            raise StopIteration
        try:
            if self.previous is MISSING:
                self.previous = next(self.iterator)
            element = next(self.iterator)
        except BaseException:
            self.iterator = None
            self.previous = MISSING
            raise
        pair = (self.previous, element)
        self.previous = element
        return pair


@equivalent_of(itertools.pairwise)
def pairwise(iterable: Iterable[Any], /) -> PairwiseIterator:
    return PairwiseIterator(iter(iterable))


class BatchedIterator(OwnIterator):
    """What `itertools.batched` returns."""

    def __init__(self, iterator: Iterator[Any], size: int) -> None:
        self.iterator: Iterator[Any] | None = iterator
        self.size = size

    def __next__(self) -> tuple[Any, ...]:
        if self.iterator is None:
            raise StopIteration
        batch: list[Any] = []
        while len(batch) < self.size:
            try:
                batch.append(next(self.iterator))
            except StopIteration:
                break
            except BaseException:
                self.iterator = None
                raise
        if not batch:
            self.iterator = None
            raise StopIteration
        return tuple(batch)


def batched(iterable: Iterable[Any], n: Any) -> BatchedIterator:
    size = operator.index(n)
    if size < 1:
        raise ValueError("n must be at least one")
    return BatchedIterator(iter(iterable), size)


if sys.version_info >= (3, 12):
    equivalent_of(itertools.batched)(batched)


class GroupByIterator(OwnIterator):
    """What `itertools.groupby` returns. It and the current group draw from the iterator by turns."""

    def __init__(self, iterator: Iterator[Any], key: Callable[[Any], Any] | None) -> None:
        self.iterator = iterator
        self.key = key
        self.group_key = MISSING
        self.current_key = MISSING
        self.current_value = MISSING
        self.current_group: GroupIterator | None = None

    def __next__(self) -> tuple[Any, GroupIterator]:
        self.current_group = None
        while self.current_key is MISSING or (self.group_key is not MISSING and self._in_group(self.group_key)):
            self._step()
        self.group_key = self.current_key
        group = GroupIterator(self, self.group_key)
        self.current_group = group
        return self.current_key, group

    def _step(self) -> None:
        value = next(self.iterator, MISSING)
        if value is MISSING:
            raise StopIteration  # without the value that the iterator's own StopIteration may carry
        self.current_key = value if self.key is None else self.key(value)
        self.current_value = value

    def _in_group(self, group_key: Any) -> bool:
        return group_key is self.current_key or bool(group_key == self.current_key)


class GroupIterator(OwnIterator):
    """One group of a `GroupByIterator`; it ends early when the parent moves on."""

    def __init__(self, parent: GroupByIterator, key: Any) -> None:
        self.parent = parent
        self.key = key

    def __next__(self) -> Any:
        parent = self.parent
        if parent.current_group is not self:
            raise StopIteration
        if parent.current_value is MISSING:
            parent._step()
        if not parent._in_group(self.key):
            raise StopIteration
        value = parent.current_value
        parent.current_value = MISSING
        parent.current_key = MISSING
        return value


@equivalent_of(itertools.groupby)
def groupby(iterable: Iterable[Any], key: Callable[[Any], Any] | None = None) -> GroupByIterator:
    return GroupByIterator(iter(iterable), key)


class TeeSource:
    """The iterator that the branches of a tee share."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self.iterator = iterator
        self.running = False

    def draw(self) -> Any:
        if self.running:
            raise RuntimeError("cannot re-enter the tee iterator")
        self.running = True
        try:
            element = next(self.iterator, MISSING)
        finally:
            self.running = False
        if element is MISSING:
            raise StopIteration  # without the value that the iterator's own StopIteration may carry
        return element


class TeeLink:
    """One element drawn from a tee's source, and the link after it once that is drawn as well."""

    def __init__(self) -> None:
        self.element = MISSING
        self.following: TeeLink | None = None


class TeeIterator(OwnIterator):
    """One branch of what `itertools.tee` returns: a place in the chain of links that all branches share."""

    def __init__(self, source: TeeSource, link: TeeLink) -> None:
        self.source = source
        self.link = link

    def __next__(self) -> Any:
        link = self.link
        if link.following is None:
            link.element = self.source.draw()
            link.following = TeeLink()
        self.link = link.following
        return link.element

    def __copy__(self) -> TeeIterator:
        return TeeIterator(self.source, self.link)


@equivalent_of(itertools.tee)
def tee(iterable: Iterable[Any], n: Any = 2, /) -> tuple[Any, ...]:
    branches = operator.index(n)
    if branches < 0:
        raise ValueError("n must be >= 0")
    if branches == 0:
        return ()
    iterator = iter(iterable)
    copy = getattr(iterator, "__copy__", None)
    if copy is None:
        iterator = TeeIterator(TeeSource(iter(iterator)), TeeLink())  # the original calls `iter` twice as well
        copy = iterator.__copy__
    result = [iterator]
    while len(result) < branches:
        result.append(copy())
    return tuple(result)
