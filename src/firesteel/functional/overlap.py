"""Writes that eager refuses because memory overlaps, such as ``x.add_(x.t())``.

Without mutation they would be harmless, and the error would be lost. So the graph is left to eager, which raises.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from ..fake import FakeTensor
from ..fake.dims import layout_of, offset_of
from .graph import Unsupported


def refuse_overlap(name: str, target: FakeTensor, others: Iterable[FakeTensor]) -> None:
    """Raise `Unsupported` for a write to a tensor part of whose memory is also another element of it, or of ``others``.

    ``others`` share the target's memory. Sizes that are symbols are taken not to overlap.
    """
    size, stride = layout_of(target)
    if any(_is(step, 0) and not _is(length, 1) for length, step in zip(size, stride, strict=True)):
        raise Unsupported(f"{name} writes to elements that share memory")
    if _may_share_elements(size, stride):
        raise Unsupported(f"{name} writes to elements that may share memory, one after the other")
    span = _dense_span(target)
    if span is None:
        return
    for other in others:
        taken = _dense_span(other)
        if taken is None or taken[1] <= span[0] or span[1] <= taken[0]:
            continue
        if taken != span or layout_of(other)[1] != stride:
            raise Unsupported(f"{name} reads and writes memory that overlaps")


def _may_share_elements(size: Any, stride: Any) -> bool:
    """Whether rows of a layout reach into each other, as those of a window that moves over a row do; where sizes are
    symbols, as they are now."""
    numbers = [number if type(number) is int else number.node.hint for number in (*size, *stride)]
    if None in numbers or 0 in numbers[:len(size)]:
        return False
    reach = 0
    dims = zip(numbers[len(size):], numbers[:len(size)], strict=True)
    for step, length in sorted((step, length) for step, length in dims if length != 1):
        if step <= reach:
            return True
        reach += step * (length - 1)
    return False


def meet(entries: Iterable[tuple[int, FakeTensor, bool]]) -> bool:
    """Whether tensors of one storage may have elements in common, one of them written to, at different places of lists.

    An entry is the place of a tensor, the tensor, and whether it is written to.
    """
    spans = [(*(_dense_span(fake) or (0, sys.maxsize)), place, written) for place, fake, written in entries]
    open_spans: list[tuple[int, int, int, bool]] = []
    for begin, end, place, written in sorted(spans):
        open_spans = [span for span in open_spans if span[1] > begin]
        if any(place != other and (written or other_written) for _, _, other, other_written in open_spans):
            return True
        open_spans.append((begin, end, place, written))
    return False


def _dense_span(fake: FakeTensor) -> tuple[int, int] | None:
    """Where a tensor without gaps begins and ends, in bytes; None for others."""
    size, stride = layout_of(fake)
    offset = offset_of(fake)
    if not all(type(number) is int for number in (*size, *stride, offset)):
        return None
    expected = 1
    for length, step in sorted(zip(size, stride, strict=True), key=lambda dim: (dim[1], dim[0])):
        if length == 0:
            return None
        if length != 1:
            if step != expected:
                return None
            expected *= length
    begin = offset * fake.dtype.itemsize
    return begin, begin + expected * fake.dtype.itemsize


def _is(number: Any, value: int) -> bool:
    return type(number) is int and number == value
