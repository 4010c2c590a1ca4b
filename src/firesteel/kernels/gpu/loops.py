"""Loops of a row that can be run as one, when a row is longer than a block of lanes.

    for i1 < n:                                for each block of i1:
        out0[i1] = v                               out0[i1] = v
    a0 = sum(i1 < n) load(out0, i1)                a0 += v
    out1[] = a0                                    a1 += w
    a1 = sum(i1 < n) w                         out1[] = a0

What is done once for a row waits until the loop is over. What a loop writes is handed on in registers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ..ir import Assign, Axis, Loop, Place, Reduce, Statement, Store, Value
from .statements import loaded, nest_of, stored, values_of


@dataclass(frozen=True)
class Together:
    """Loops and reductions over the same axes."""

    axes: tuple[Axis, ...]
    members: tuple[Loop | Reduce, ...]
    later: tuple[Statement, ...]
    """What stands between them."""
    handed: frozenset[str]
    """Buffers that one of them writes and another reads."""


def find_together(body: Sequence[Statement], at: int, kinds: Collection[str],
                  scratch: Collection[str]) -> Together | None:
    """The loops from a statement on that can be one; ``kinds``: the reductions that can be done block by block."""
    first = body[at]
    axes = _axes(first, kinds, scratch)
    if axes is None or not isinstance(first, Loop | Reduce):
        return None
    members: list[Loop | Reduce] = [first]
    later: list[Statement] = []
    waiting: list[Statement] = []
    for statement in body[at + 1:]:
        if isinstance(statement, Assign | Store):
            waiting.append(statement)
            continue
        if (not isinstance(statement, Loop | Reduce) or _axes(statement, kinds, scratch) != axes
                or not _may_join(statement, members, [*later, *waiting])):
            break
        members.append(statement)
        later += waiting
        waiting = []
    if len(members) < 2:
        return None
    handed = {place.buffer for place in stored(members)} & {place.buffer for place in loaded(members)}
    if handed and len(axes) > 1:
        return None  # registers are kept along one axis only
    return Together(axes, tuple(members), tuple(later), frozenset(handed))


def _axes(statement: Statement, kinds: Collection[str], scratch: Collection[str]) -> tuple[Axis, ...] | None:
    """The axes of a loop that does nothing but store, or of a reduction."""
    if isinstance(statement, Reduce):
        return statement.axes if statement.kind in kinds else None
    if not isinstance(statement, Loop):
        return None
    axes, body = nest_of(statement)
    plain = all(isinstance(s, Store) and s.mode == "set" and not s.args and s.place.buffer not in scratch for s in body)
    return tuple(axes) if plain else None


def _may_join(statement: Loop | Reduce, members: Sequence[Loop | Reduce], between: Sequence[Statement]) -> bool:
    assigned = {s.name for s in (*members, *between) if isinstance(s, Reduce | Assign)}
    if any(node.op == "local" and node.data in assigned for node in _nodes(statement)):
        return False
    before, own = list(stored(members)), list(stored([statement]))
    row_writes = {place.buffer for place in stored(between)}
    if any(place.buffer in row_writes for place in (*loaded([statement]), *own)):
        return False
    if any(place.buffer in {one.buffer for one in (*before, *own)} for place in loaded(between)):
        return False
    return (_same_places(loaded([statement]), before) and _same_places(own, before)
            and _same_places(own, list(loaded(members))))


def _same_places(places: Iterator[Place] | Sequence[Place], others: Sequence[Place]) -> bool:
    """Whether accesses to the same buffers are at the same points of the loop."""
    return all(place.index is other.index and not place.indirect and not place.masked
               for place in places for other in others if place.buffer == other.buffer)


def _nodes(statement: Statement) -> Iterator[Value]:
    for value in values_of([statement]):
        yield from value.walk()
