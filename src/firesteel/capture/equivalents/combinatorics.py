"""The combinatoric iterators of itertools: product, permutations, combinations, combinations_with_replacement."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable
from typing import Any

from firesteel.capture.call_handlers import equivalent_of
from firesteel.capture.equivalents.sequence_iterators import OwnIterator


class ProductIterator(OwnIterator):
    """What `itertools.product` returns. `positions` is where the last tuple's elements lie in their pools."""

    def __init__(self, pools: list[tuple[Any, ...]]) -> None:
        self.pools = pools
        self.positions: list[int] | None = None
        self.ended = False

    def __next__(self) -> tuple[Any, ...]:
        if not self.ended:
            self._advance()
        if self.ended or self.positions is None:
            raise StopIteration
        elements = []
        for pool, position in zip(self.pools, self.positions, strict=True):
            elements.append(pool[position])
        return tuple(elements)

    def _advance(self) -> None:
        if self.positions is None:
            self.positions = [0] * len(self.pools)
            for pool in self.pools:
                if not pool:
                    self.ended = True
            return
        for i in range(len(self.pools) - 1, -1, -1):
            self.positions[i] += 1
            if self.positions[i] < len(self.pools[i]):
                return
            self.positions[i] = 0
        self.ended = True


@equivalent_of(itertools.product)
def product(*iterables: Iterable[Any], repeat: Any = 1) -> ProductIterator:
    times = operator.index(repeat)
    if times < 0:
        raise ValueError("repeat argument cannot be negative")
    pools = []
    if times > 0:  # with repeat=0 the original does not even look at the iterables
        for iterable in iterables:
            pools.append(tuple(iterable))
    return ProductIterator(pools * times)


class SelectionIterator(OwnIterator):
    """What the other three return: tuples of `pool` elements at `positions`, with `_advance` to the next positions."""

    def __init__(self, pool: tuple[Any, ...], positions: list[int], ended: bool) -> None:
        self.pool = pool
        self.positions = positions
        self.started = False
        self.ended = ended

    def __next__(self) -> tuple[Any, ...]:
        if self.started and not self.ended:
            self.ended = not self._advance()
        self.started = True
        if self.ended:
            raise StopIteration
        elements = []
        for position in self.positions:
            elements.append(self.pool[position])
        return tuple(elements)

    def _advance(self) -> bool:
        raise NotImplementedError


class CombinationsIterator(SelectionIterator):
    """Positions strictly increase."""

    def _advance(self) -> bool:
        positions = self.positions
        slack = len(self.pool) - len(positions)
        for i in range(len(positions) - 1, -1, -1):
            if positions[i] < i + slack:
                position = positions[i]
                for j in range(i, len(positions)):
                    position += 1
                    positions[j] = position
                return True
        return False


class CombinationsWithReplacementIterator(SelectionIterator):
    """Positions never decrease."""

    def _advance(self) -> bool:
        positions = self.positions
        for i in range(len(positions) - 1, -1, -1):
            if positions[i] < len(self.pool) - 1:
                position = positions[i] + 1
                for j in range(i, len(positions)):
                    positions[j] = position
                return True
        return False


class PermutationsIterator(SelectionIterator):
    """Positions are all different."""

    def _advance(self) -> bool:
        positions = self.positions
        for i in range(len(positions) - 1, -1, -1):
            following = self._smallest_free(i, positions[i] + 1)
            if following is not None:
                positions[i] = following
                for j in range(i + 1, len(positions)):
                    free = self._smallest_free(j, 0)
                    if free is not None:
                        positions[j] = free
                return True
        return False

    def _smallest_free(self, end: int, lowest: int) -> int | None:
        """The smallest position from `lowest` on that is not among the first `end` positions."""
        for candidate in range(lowest, len(self.pool)):
            if candidate not in self.positions[:end]:
                return candidate
        return None


def _length(r: Any) -> int:
    if r < 0:
        raise ValueError("r must be non-negative")
    return int(r)


@equivalent_of(itertools.combinations)
def combinations(iterable: Iterable[Any], r: Any) -> CombinationsIterator:
    index = operator.index(r)
    pool = tuple(iterable)
    length = _length(index)
    return CombinationsIterator(pool, list(range(length)), length > len(pool))


@equivalent_of(itertools.combinations_with_replacement)
def combinations_with_replacement(iterable: Iterable[Any], r: Any) -> CombinationsWithReplacementIterator:
    index = operator.index(r)
    pool = tuple(iterable)
    length = _length(index)
    return CombinationsWithReplacementIterator(pool, [0] * length, length > 0 and not pool)


@equivalent_of(itertools.permutations)
def permutations(iterable: Iterable[Any], r: Any = None) -> PermutationsIterator:
    pool = tuple(iterable)
    if r is None:
        length = len(pool)
    elif isinstance(r, int):
        length = _length(r)
    else:
        raise TypeError("Expected int as r")
    return PermutationsIterator(pool, list(range(length)), length > len(pool))
