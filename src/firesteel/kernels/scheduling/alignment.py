"""Putting two groups over the same loop variables.

A consumer that reads what a producer writes at the same point shares the producer's axes. Where one of them runs along
two dimensions that the other sees as one, the one axis is split:

    producer  T[g0] = ...                 g0 < 24
    consumer  sum(g1 < 8) load(T, 8*g0 + g1)   g0 < 3
    together  T[8*g0 + g1] = ...          g0 < 3, g1 < 8
"""

from __future__ import annotations

from ...records import dataclass
from ...shapes import Call, Expr, Symbol
from ...shapes.expr import ZERO
from .groups import Group, Load, Member
from .indices import AxisPool, coordinates, digits, linear, product, substitute

Split = tuple[str, Symbol, tuple[Expr, ...]]
"""The first or second group, an axis of it, and the sizes to split that into."""


@dataclass(frozen=True)
class Edge:
    """A read in one member of what another member writes."""

    producer: Member
    consumer: Member
    load: Load


def edges_between(first: Group, second: Group) -> list[Edge]:
    """The reads of the second group in buffers that the first one writes."""
    written = first.written
    return [
        Edge(written[load.buffer], member, load)
        for member in second.members
        for load in member.loads
        if load.buffer in written
    ]


def align(first: Group, second: Group, pool: AxisPool, beside: bool = False) -> Group | None:
    """One group of both, the second reading from the first or both reading something in common.

    ``beside`` each other two groups run that read different buffers in the same way.
    """
    if beside and not first.sizes and not second.sizes:
        return _join(first, second, {}, pool)  # single elements
    for _ in range(4):  # every round splits one axis
        edges = edges_between(first, second)
        shared: dict[Symbol, Symbol] | Split | None
        if edges:
            shared = _from_reads(edges, first, second, pool)
        else:
            shared = _from_common_reads(first, second, pool, beside) or _from_common_writes(first, second, pool)
        if isinstance(shared, dict):
            return _join(first, second, shared, pool)
        if shared is None:
            return None
        which, axis, sizes = shared
        if not (first if which == "first" else second).can_split(axis):
            return None
        if which == "first":
            first = first.split(axis, sizes, pool)
        else:
            second = second.split(axis, sizes, pool)
    return None


def _from_reads(edges: list[Edge], first: Group, second: Group, pool: AxisPool) -> dict[Symbol, Symbol] | Split | None:
    """The second group's axes as axes of the first, or an axis that has to be split before."""
    shared: dict[Symbol, Symbol] = {}
    clear = False
    for edge in edges:
        producer, consumer = edge.producer, edge.consumer
        # The coordinates are over the consumer's axes; those of the two groups may have the same names.
        at = coordinates(producer.store, producer.kept, edge.load.index)
        if at is None:
            continue
        clear = True
        axes = consumer.kept + consumer.reduced
        for axis, where in at.items():
            if isinstance(where, Symbol) and where in axes:
                if pool.same(second.sizes[where], first.sizes[axis]):
                    if where not in shared and axis not in shared.values():
                        shared[where] = axis
                    continue
                split = _split_consumer(producer, at, axis, where, first, second, pool)
                if split is not None:
                    return split
            elif isinstance(where, Call) and where.op == "floordiv" and where.operands[0] in axes:
                # The producer is over blocks of the consumer's axis.
                whole, block = where.operands
                assert isinstance(whole, Symbol)
                if pool.same(first.sizes[axis] * block, second.sizes[whole]):
                    return "second", whole, (first.sizes[axis], block)
            elif not isinstance(where, Symbol) and where.free_symbols:
                parts = digits(where, axes, second.sizes)
                if parts and len(parts) > 1:
                    sizes = tuple([second.sizes[part] for part in parts])
                    if pool.same(product(sizes), first.sizes[axis]):
                        return "first", axis, sizes
    if clear:
        _match_common_reads(first, second, shared, pool)
    return shared if clear else None


def _match_common_reads(first: Group, second: Group, shared: dict[Symbol, Symbol], pool: AxisPool) -> None:
    """Share further axes where both groups go through an input in the same way: one variable for a row's elements."""
    reads: dict[str, list[Expr]] = {}
    for member in first.members:
        for load in member.loads:
            reads.setdefault(load.buffer, []).append(load.index)
    for member in second.members:
        free = [axis for axis in member.kept + member.reduced if axis not in shared]
        for load in member.loads:
            if not free or load.indirect or load.buffer not in reads:
                continue
            theirs = linear(load.index, frozenset(second.sizes)).strides
            for index in reads[load.buffer]:
                ours = linear(index, frozenset(first.sizes)).strides
                if len(ours) != len(theirs):
                    continue
                matched = _match(ours, theirs, first, second, pool)
                if len(matched) == len(theirs) and all(
                        shared.get(axis, other) is other for axis, other in matched.items()):
                    for axis in free:
                        if axis in matched and matched[axis] not in shared.values():
                            shared[axis] = matched[axis]
                    break


def _split_consumer(
    producer: Member, at: dict[Symbol, Expr], axis: Symbol, where: Symbol, first: Group, second: Group, pool: AxisPool
) -> Split | None:
    """A coordinate runs beyond its axis: the consumer counts through this and the next larger axes at once."""
    strides = linear(producer.store, frozenset(producer.kept)).strides
    parts = [first.sizes[axis]]
    current = axis
    while not pool.same(product(parts), second.sizes[where]):
        beyond = strides[current] * first.sizes[current]
        larger = [other for other, stride in strides.items() if stride is beyond and at[other] is ZERO]
        if not larger:
            return None
        current = larger[0]
        parts.append(first.sizes[current])
    return "second", where, tuple(reversed(parts))


def _from_common_reads(first: Group, second: Group, pool: AxisPool, beside: bool) -> dict[Symbol, Symbol] | None:
    """Axes that go through a common input in the same way, or ``beside`` through any; None unless all axes do."""
    best: dict[Symbol, Symbol] = {}
    for member in second.members:
        axes = frozenset(member.kept + member.reduced)
        for load in member.loads:
            if load.indirect or not axes <= load.index.free_symbols:
                continue
            theirs = linear(load.index, frozenset(second.sizes))
            for other in first.members:
                for candidate in other.loads:
                    if (candidate.buffer != load.buffer and not beside) or candidate.indirect:
                        continue
                    ours = linear(candidate.index, frozenset(first.sizes))
                    if ours.rest is not theirs.rest or len(ours.strides) != len(theirs.strides):
                        continue
                    matched = _match(ours.strides, theirs.strides, first, second, pool)
                    if len(matched) == len(theirs.strides) and len(matched) > len(best):
                        best = matched
    return best or None


def _from_common_writes(first: Group, second: Group, pool: AxisPool) -> dict[Symbol, Symbol] | None:
    """Axes that go through a buffer that both fill in part."""
    for member in second.members:
        for other in first.members:
            if other.buffer == member.buffer:
                ours = linear(other.store, frozenset(other.kept)).strides
                theirs = linear(member.store, frozenset(member.kept)).strides
                return _match(ours, theirs, first, second, pool) or None
    return None


def _match(
    ours: dict[Symbol, Expr], theirs: dict[Symbol, Expr], first: Group, second: Group, pool: AxisPool
) -> dict[Symbol, Symbol]:
    """Axes that go through something with the same steps, each with one of its own: windows step alike along two."""
    matched: dict[Symbol, Symbol] = {}
    for axis, stride in theirs.items():
        for other, its_stride in ours.items():
            if stride is its_stride and other not in matched.values() and \
                    pool.same(second.sizes[axis], first.sizes[other]):
                matched[axis] = other
                break
    return matched


def _join(first: Group, second: Group, shared: dict[Symbol, Symbol], pool: AxisPool) -> Group:
    sizes = dict(first.sizes)
    renamed: dict[Symbol, Expr] = dict(shared)
    used = {axis for member in second.members for axis in member.kept + member.reduced}
    for axis, size in second.sizes.items():
        if axis not in renamed and axis in used:
            size = substitute(size, renamed)
            new = pool.axis(len(sizes), size)
            sizes[new] = size
            renamed[axis] = new
    changed = {axis: new for axis, new in renamed.items() if axis is not new}
    members = first.members + tuple([member.substitute(changed, pool) for member in second.members])
    joined = Group(members, sizes, ())
    return Group(members, sizes, rows_of(joined, pool))


def rows_of(group: Group, pool: AxisPool) -> tuple[Symbol, ...]:
    """The axes that all members keep and along which every read of a member's result stays at its own point."""
    members = group.members
    common = [axis for axis in members[0].kept if all(axis in member.kept for member in members[1:])]
    written = group.written
    for member in members:
        for load in member.loads:
            producer = written.get(load.buffer)
            if producer is None or not common:
                continue
            at = coordinates(producer.store, producer.kept, load.index)
            # A coordinate beyond its axis would be a point of another row.
            if at is None or not all(pool.is_below(where, group.sizes[axis]) for axis, where in at.items()):
                return ()
            common = [axis for axis in common if at[axis] is axis]
    if len(written) < len(members):
        # Parts that lie side by side within a row are apart along the axes of the row only.
        while common and not all(_stays_in_row(member, common, pool) for member in members):
            common.pop()
    return tuple(common)


def _stays_in_row(member: Member, rows: list[Symbol], pool: AxisPool) -> bool:
    """Whether a member that fills part of a buffer writes nothing that belongs to another row."""
    parts = linear(member.store, frozenset(rows))
    strides = [parts.strides.get(axis) for axis in rows]
    return all(stride is not None and pool.is_below(parts.rest, stride) for stride in strides)
