"""Sorting of elements whose comparison is Python code, and functools.cmp_to_key."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from firesteel.capture.call_handlers import equivalent_of


def sorted_pairs(pairs: list[tuple[Any, Any]], descending: bool) -> list[Any]:
    """The second of each (key, element), in the order of their keys."""
    # Reversing before and after keeps equal elements in their order.
    if descending:
        pairs.reverse()
    pairs = _merge_runs(_sorted_runs(pairs))
    if descending:
        pairs.reverse()
    return [element for _, element in pairs]


def _sorted_runs(pairs: list[tuple[Any, Any]]) -> list[list[tuple[Any, Any]]]:
    """Cut `pairs` into sorted runs. Below 64 elements this is one run, by the very comparisons CPython makes."""
    shortest = len(pairs)
    rounding = 0
    while shortest >= 64:
        rounding |= shortest & 1
        shortest >>= 1
    shortest += rounding

    runs = []
    start = 0
    while start < len(pairs):
        run = (_natural_run if sys.version_info >= (3, 13) else _strict_run)(pairs[start:])
        end = start + len(run)
        while end < len(pairs) and len(run) < shortest:
            _insert(run, pairs[end])
            end += 1
        runs.append(run)
        start = end
    return runs


def _strict_run(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The sorted run that `pairs` begins with, turned round if it strictly descends: until Python 3.12."""
    end = 1
    if end == len(pairs):
        return pairs
    descending = bool(pairs[1][0] < pairs[0][0])
    end = _end_of(pairs, 2, descending)
    run = pairs[:end]
    if descending:
        run.reverse()
    return run


def _end_of(pairs: list[tuple[Any, Any]], end: int, descending: bool) -> int:
    while end < len(pairs) and bool(pairs[end][0] < pairs[end - 1][0]) == descending:
        end += 1
    return end


def _natural_run(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The sorted run that `pairs` begins with, turned round if it descends, equal ones allowed: from Python 3.13 on."""
    end = _end_of(pairs, 1, False)
    if end == len(pairs):
        return pairs
    if end > 1:
        if pairs[0][0] < pairs[end - 1][0]:
            return pairs[:end]
        pairs = pairs[:end][::-1] + pairs[end:]  # all of them are equal: what follows descends
    end += 1
    equal = 0
    while end < len(pairs):
        if pairs[end][0] < pairs[end - 1][0]:
            pairs = _last_turned(pairs, end, equal)
            equal = 0
        elif pairs[end - 1][0] < pairs[end][0]:
            break
        else:
            equal += 1
        end += 1
    pairs = _last_turned(pairs, end, equal)
    pairs = pairs[:end][::-1] + pairs[end:]
    return pairs[:_end_of(pairs, end, False)]


def _last_turned(pairs: list[tuple[Any, Any]], end: int, equal: int) -> list[tuple[Any, Any]]:
    """Equal ones in a descending run are turned round beforehand, to be in their order when the run has been."""
    if not equal:
        return pairs
    start = end - equal - 1
    return pairs[:start] + pairs[start:end][::-1] + pairs[end:]


def _insert(run: list[tuple[Any, Any]], pair: tuple[Any, Any]) -> None:
    low, high = 0, len(run)
    while low < high:
        middle = (low + high) // 2
        if pair[0] < run[middle][0]:
            high = middle
        else:
            low = middle + 1
    run.insert(low, pair)


def _merge_runs(runs: list[list[tuple[Any, Any]]]) -> list[tuple[Any, Any]]:
    if not runs:
        return []
    while len(runs) > 1:
        merged = []
        for i in range(0, len(runs) - 1, 2):
            merged.append(_merge(runs[i], runs[i + 1]))
        if len(runs) % 2:
            merged.append(runs[-1])
        runs = merged
    return runs[0]


def _merge(left: list[tuple[Any, Any]], right: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    merged = []
    i = j = 0
    while i < len(left) and j < len(right):
        if right[j][0] < left[i][0]:
            merged.append(right[j])
            j += 1
        else:
            merged.append(left[i])
            i += 1
    return merged + left[i:] + right[j:]


class KeyWrapper:
    """A sort key that compares by a three-way comparison function."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, compare: Callable[[Any, Any], Any], obj: Any) -> None:
        self.compare = compare
        self.obj = obj

    def __lt__(self, other: Any) -> Any:
        return self._order(other) < 0

    def __le__(self, other: Any) -> Any:
        return self._order(other) <= 0

    def __eq__(self, other: Any) -> Any:
        return self._order(other) == 0

    def __ne__(self, other: Any) -> Any:
        return self._order(other) != 0

    def __gt__(self, other: Any) -> Any:
        return self._order(other) > 0

    def __ge__(self, other: Any) -> Any:
        return self._order(other) >= 0

    def _order(self, other: Any) -> Any:
        if not isinstance(other, KeyWrapper):
            raise TypeError("other argument must be K instance")
        return self.compare(self.obj, other.obj)


@equivalent_of(functools.cmp_to_key)
def cmp_to_key(mycmp: Callable[[Any, Any], Any]) -> Callable[[Any], KeyWrapper]:
    def key(obj: Any) -> KeyWrapper:
        return KeyWrapper(mycmp, obj)

    return key
