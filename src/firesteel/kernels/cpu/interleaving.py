"""Stores that fill each other's gaps, as one.

    out[2*i] = a; out[2*i + 1] = b      ->      out[2*i : 2*i + 2*lanes] = a0 b0 a1 b1 ...
"""

from __future__ import annotations

from collections.abc import Sequence

from ...shapes import Const, Expr
from ..ir import Store
from .operands import Operand
from .values import ValueEmitter

STEPS = (2, 4)

Pending = tuple[Store, Operand, list[Operand]]


def store_together(e: ValueEmitter, pending: Sequence[Pending]) -> list[Pending]:
    """Write those stores that together fill stretches of memory; the others are returned."""
    if e.lanes == 1 or e.mask is not None or e.paired or e.stream or len(pending) < STEPS[0]:
        return list(pending)
    waiting = list(pending)
    for first in pending:
        buffer = first[0].place.buffer
        way = None if first not in waiting or _is_special(first[0]) else e.way(first[0].place.index, {})
        if way is None or way[0] not in STEPS:
            continue
        # Others to the same buffer could be to the same places.
        there = [one for one in waiting if one[0].place.buffer == buffer]
        step, rest = way[0], way[1]
        by_distance = {_distance(e, one[0], step, rest): one for one in there}
        if len(there) == step and set(by_distance) == set(range(step)):
            together = [e.splat(by_distance[distance][1], e.lanes) for distance in range(step)]
            _write(e, buffer, step, rest, together)
            waiting = [one for one in waiting if one not in there]
    return waiting


def _is_special(store: Store) -> bool:
    return store.mode != "set" or bool(store.args)


def _distance(e: ValueEmitter, store: Store, step: int | None, rest: Expr) -> int | None:
    """How many elements a store is behind one at ``step*axis + rest``, if that is known."""
    way = None if _is_special(store) else e.way(store.place.index, {})
    if way is None or way[0] != step:
        return None
    difference = way[1] - rest
    return int(difference.value) if isinstance(difference, Const) else None


def _write(e: ValueEmitter, buffer: str, step: int, rest: Expr, values: list[Operand]) -> None:
    while len(values) > 1:
        half = len(values) // 2
        values = [_interleaved(e, left, right) for left, right in zip(values[:half], values[half:], strict=True)]
    kind, text = e.to_memory(values[0])
    pointer = e.lane_address(buffer, rest, None, step)
    e.line(f"store {kind} {text}, ptr {pointer}, align {values[0].dtype.itemsize}")


def _interleaved(e: ValueEmitter, left: Operand, right: Operand) -> Operand:
    lanes = left.lanes
    return e.shuffle(left, right, [pick for lane in range(lanes) for pick in (lane, lanes + lane)])
