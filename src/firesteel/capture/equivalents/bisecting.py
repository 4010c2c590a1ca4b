"""The functions of the bisect module."""

from __future__ import annotations

import bisect
import operator
from collections.abc import Callable
from typing import Any

from firesteel.capture.call_handlers import equivalent_of

Key = Callable[[Any], Any] | None


def _bounds(a: Any, lo: Any, hi: Any) -> tuple[int, int]:
    low = operator.index(lo)
    high = -1 if hi is None else operator.index(hi)
    if low < 0:
        raise ValueError("lo must be non-negative")
    # The original represents None by -1, so that an explicit -1 means the whole length as well.
    return low, len(a) if high == -1 else high


@equivalent_of(bisect.bisect_right)
def bisect_right(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Key = None) -> int:
    low, high = _bounds(a, lo, hi)
    while low < high:
        middle = (low + high) // 2
        element = a[middle] if key is None else key(a[middle])
        if x < element:
            high = middle
        else:
            low = middle + 1
    return low


@equivalent_of(bisect.bisect_left)
def bisect_left(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Key = None) -> int:
    low, high = _bounds(a, lo, hi)
    while low < high:
        middle = (low + high) // 2
        element = a[middle] if key is None else key(a[middle])
        if element < x:
            low = middle + 1
        else:
            high = middle
    return low


@equivalent_of(bisect.insort_right)
def insort_right(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Key = None) -> None:
    position = bisect_right(a, x if key is None else key(x), lo, hi, key=key)
    a.insert(position, x)


@equivalent_of(bisect.insort_left)
def insort_left(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Key = None) -> None:
    position = bisect_left(a, x if key is None else key(x), lo, hi, key=key)
    a.insert(position, x)
