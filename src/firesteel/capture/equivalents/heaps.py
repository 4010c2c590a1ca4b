"""The heap functions that heapq takes from C; nlargest, nsmallest and merge are Python over these already."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from firesteel.capture.call_handlers import equivalent_of

Before = Callable[[Any, Any], Any]


def _smaller(a: Any, b: Any) -> Any:
    return a < b


def _larger(a: Any, b: Any) -> Any:
    return b < a


def _require_list(heap: Any, function: str, argument: str = "argument 1") -> None:
    if not isinstance(heap, list):
        raise TypeError(f"{function}() {argument} must be list, not {type(heap).__name__}")


def _require_unchanged(heap: list[Any], size: int) -> None:
    if len(heap) != size:
        raise RuntimeError("list changed size during iteration")


def _toward_root(heap: list[Any], start: int, position: int, before: Before) -> None:
    """Move the element at `position` up, not beyond `start`, while it goes before its parent."""
    size = len(heap)
    while position > start:
        parent = (position - 1) // 2
        is_before = before(heap[position], heap[parent])
        _require_unchanged(heap, size)
        if not is_before:
            return
        heap[position], heap[parent] = heap[parent], heap[position]
        position = parent


def _toward_leaf_and_back(heap: list[Any], position: int, before: Before) -> None:
    """Sink the element at `position` to a leaf along the children that go first, then move it up to its place."""
    start = position
    size = len(heap)
    while position < size // 2:
        child = 2 * position + 1
        if child + 1 < size:
            left_first = before(heap[child], heap[child + 1])
            if not left_first:
                child += 1
            _require_unchanged(heap, size)
        heap[position], heap[child] = heap[child], heap[position]
        position = child
    _toward_root(heap, start, position, before)


def _pop(heap: list[Any], before: Before) -> Any:
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    if not heap:
        return last
    first = heap[0]
    heap[0] = last
    _toward_leaf_and_back(heap, 0, before)
    return first


def _replace(heap: list[Any], item: Any, before: Before) -> Any:
    if not heap:
        raise IndexError("index out of range")
    first = heap[0]
    heap[0] = item
    _toward_leaf_and_back(heap, 0, before)
    return first


def _heapify(heap: list[Any], before: Before) -> None:
    for position in range(len(heap) // 2 - 1, -1, -1):
        _toward_leaf_and_back(heap, position, before)


@equivalent_of(heapq.heappush)
def heappush(heap: list[Any], item: Any, /) -> None:
    _require_list(heap, "heappush")
    heap.append(item)
    _toward_root(heap, 0, len(heap) - 1, _smaller)


@equivalent_of(heapq.heappop)
def heappop(heap: list[Any], /) -> Any:
    _require_list(heap, "heappop", "argument")
    return _pop(heap, _smaller)


@equivalent_of(heapq.heapify)
def heapify(heap: list[Any], /) -> None:
    _require_list(heap, "heapify", "argument")
    _heapify(heap, _smaller)


@equivalent_of(heapq.heapreplace)
def heapreplace(heap: list[Any], item: Any, /) -> Any:
    _require_list(heap, "heapreplace")
    return _replace(heap, item, _smaller)


@equivalent_of(heapq.heappushpop)
def heappushpop(heap: list[Any], item: Any, /) -> Any:
    _require_list(heap, "heappushpop")
    if not heap or not heap[0] < item:
        return item
    return _replace(heap, item, _smaller)


# The three that heapq's own nlargest and merge use for heaps with the largest element first.


@equivalent_of(heapq._heappop_max)  # type: ignore[attr-defined]
def heappop_max(heap: list[Any], /) -> Any:
    _require_list(heap, "_heappop_max", "argument")
    return _pop(heap, _larger)


@equivalent_of(heapq._heapreplace_max)  # type: ignore[attr-defined]
def heapreplace_max(heap: list[Any], item: Any, /) -> Any:
    _require_list(heap, "_heapreplace_max")
    return _replace(heap, item, _larger)


@equivalent_of(heapq._heapify_max)
def heapify_max(heap: list[Any], /) -> None:
    _require_list(heap, "_heapify_max", "argument")
    _heapify(heap, _larger)
