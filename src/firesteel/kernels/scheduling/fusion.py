"""Which computations become one kernel.

Operations are taken in order. Each is first a group of its own; it then joins the groups that produce what it reads,
the latest first, and groups that read the same input, wherever

- nothing that is not in the group has to run in between,
- the loops can be shared: both are over the same rows, and what one reads of the other is made in the same row,
- it pays: memory traffic is saved, and the kernel keeps enough independent rows for the threads.

Decisions are in the log of kernels, with the reason for those that were not taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from heapq import heappop, heappush
from typing import Any

from ... import logs, torch_compat
from ...records import dataclass
from ...shapes import Const, Expr, Symbol
from ..ir import BufferRef, Computation, ExternCall
from . import costs
from .alignment import align, edges_between
from .groups import Group, Member, origins, single
from .indices import AxisPool, estimate
from .machines import CPU, Machine
from .splitting import is_column
from .values import expressions, loads

Operation = Computation | ExternCall


@dataclass
class Node:
    """A kernel or a call in the program, with what has to run before it."""

    content: Group | ExternCall
    before: int
    """All nodes that have to run earlier, as a set of bits."""
    direct: set[int]
    """Those of them whose results it needs itself."""


@dataclass
class Fusion:
    """The program while it is put into groups."""

    pool: AxisPool
    late: Mapping[Symbol, str] = field(default_factory=dict)
    """Sizes that are known only when a buffer is there."""
    machine: Machine = CPU
    apart: frozenset[Any] = frozenset()
    """Nodes of the graph whose computations get kernels of their own."""
    nodes: dict[int, Node] = field(default_factory=dict)
    _users: dict[int, set[int]] = field(default_factory=dict)
    """By node those that need its results themselves."""
    _writers: dict[str, list[int]] = field(default_factory=dict)
    _readers: dict[str, list[int]] = field(default_factory=dict)
    _moved: dict[int, int] = field(default_factory=dict)
    _last_random: int | None = None
    _in_order: list[int] = field(default_factory=list)
    """The last start of a collective, and what may raise or has an effect since: it comes before the next start."""
    _waits: int = 0
    """Calls that wait for other processes, as a set of bits."""
    _assertions: dict[Symbol, list[int]] = field(default_factory=dict)
    """The assertions about a number that data decides."""
    _deciding: dict[str, set[Symbol]] = field(default_factory=dict)
    """By buffer the numbers that data decides and that its size may depend on."""
    _tiny: dict[tuple[Expr, ...], int] = field(default_factory=dict)
    """By size the last kernel of very little work on inputs, such as the counters of a network's layers."""

    def where(self, node: int) -> int:
        """The node that another one has become part of."""
        while node in self._moved:
            node = self._moved[node]
        return node

    def add(self, position: int, operation: Operation) -> None:
        """Take the next operation of the program."""
        reads, writes = accesses(operation)
        stated: set[int] = set()
        if self.late:
            symbols = {symbol for symbol in _symbols(operation) if symbol in self.late}
            reads += [self.late[symbol] for symbol in symbols]
            # What the program states of a number is checked before anything computes an address from it. Once it is
            # stated to be 3, operations speak of 3, but of a buffer that is as long as the number.
            involved = symbols.union(*[self._deciding.get(name, ()) for name in reads])
            stated.update(*[self._assertions.get(symbol, ()) for symbol in involved])
            for name in writes:
                own = [symbol for symbol, buffer in self.late.items() if buffer == name]
                self._deciding[name] = involved.union(own)
            if isinstance(operation, ExternCall) and operation.target is torch_compat.assert_number:
                for symbol in symbols:
                    self._assertions.setdefault(symbol, []).append(position)
        direct = stated | {self.where(writer) for name in (*reads, *writes) for writer in self._writers.get(name, ())}
        # A second writer of a buffer must not overtake those who read what was there before.
        direct |= {self.where(reader) for name in writes for reader in self._readers.get(name, ())}
        content: Group | ExternCall
        if isinstance(operation, ExternCall):
            content = operation
            if is_random(operation):
                if self._last_random is not None:
                    direct.add(self._last_random)
                self._last_random = position
            if torch_compat.starts_collective(operation.target):
                direct.update(self._in_order)
                self._in_order = [position]
            elif operation.target is torch_compat.wait_for:
                self._waits |= 1 << position
            elif not any(operation.outputs):
                self._in_order.append(position)
        else:
            content = single(operation, position, self.pool)
        before = 0
        for earlier in direct:
            before |= 1 << earlier | self.nodes[earlier].before
        self.nodes[position] = Node(content, before, direct)
        self._users[position] = set()
        for earlier in direct:
            self._users[earlier].add(position)
        for name in reads:
            self._readers.setdefault(name, []).append(position)
        for name in writes:
            self._writers.setdefault(name, []).append(position)
        if isinstance(content, Group) and not content.alone:
            self._place(position, content)

    def _place(self, position: int, group: Group) -> None:
        node = self.nodes[position]
        current = position
        tried = sorted(node.direct, reverse=True)
        for earlier in tried:
            current = self._try(earlier, current)
        beside: dict[int, None] = {}
        for name in group.read:
            for reader in self._readers.get(name, ()):
                other = self.where(reader)
                if other != current and other < position and other not in tried:
                    beside.setdefault(other)
        for other in sorted(beside, reverse=True)[:4]:
            if not self._holds_up(other, self.where(current)):
                current = self._try(other, current)
        if self.machine.in_blocks and _is_small_reduction(group):
            for other in self._siblings(position, tried):
                current = self._try(other, current, beside=True)
        if self.machine.in_blocks and not node.before and _is_tiny(group):
            alike = tuple(group.sizes.values())
            if alike in self._tiny:
                current = self._try(self._tiny[alike], current, beside=True)
            self._tiny[alike] = current

    def _siblings(self, position: int, direct: Sequence[int]) -> list[int]:
        """Small reductions of what the same kernel has made, such as the parts of two sums; the latest first."""
        siblings: dict[int, None] = {}
        for earlier in direct:
            content = self.nodes[self.where(earlier)].content
            for member in content.members if isinstance(content, Group) else ():
                for reader in self._readers.get(member.buffer, ()):
                    other = self.where(reader)
                    read = self.nodes[other].content
                    if other < position and isinstance(read, Group) and _is_small_reduction(read):
                        siblings.setdefault(other)
        return sorted(siblings, reverse=True)[:2]

    def _holds_up(self, earlier: int, later: int) -> bool:
        """Whether a call that needs an earlier kernel would come later, behind other calls, if two kernels were one."""
        first = self.nodes[earlier].content
        if earlier >= later or not isinstance(first, Group):
            return False
        readers = [reader for member in first.members for reader in self._readers.get(member.buffer, ())
                   if reader < later and isinstance(self.nodes[self.where(reader)].content, ExternCall)]
        behind = self.nodes[later].before >> (earlier + 1)
        return bool(readers and behind) and any(
            behind >> (number - earlier - 1) & 1 and isinstance(node.content, ExternCall)
            for number, node in self.nodes.items() if number > earlier)

    def _try(self, other: int, current: int, beside: bool = False) -> int:
        """Join two nodes if that is possible and pays; the result is where the current one is now."""
        current = self.where(current)
        earlier, later = sorted((self.where(other), current))
        if earlier == later:
            return current
        first, second = self.nodes[earlier], self.nodes[later]
        if not isinstance(first.content, Group) or not isinstance(second.content, Group):
            return current
        reason = self._obstacle(earlier, later, first, second)
        joined: Group | None = None
        if reason is None:
            if edges_between(second.content, first.content):
                joined = align(second.content, first.content, self.pool)
            else:
                joined = align(first.content, second.content, self.pool, beside)
            if joined is None:
                reason = "their loops do not correspond"
            else:
                reason = self._unprofitable(first.content, second.content, joined)
        if logs.enabled("kernels"):
            verb = "fused with" if reason is None else "not fused with"
            note = f"over {describe_rows(joined)}" if joined is not None and reason is None else reason
            logs.log("kernels", "%s %s %s: %s", names(second.content), verb, names(first.content), note)
        if reason is not None or joined is None:
            return current
        self._merge(earlier, later, joined)
        return earlier

    def _obstacle(self, earlier: int, later: int, one: Node, other: Node) -> str | None:
        first, second = one.content, other.content
        assert isinstance(first, Group) and isinstance(second, Group)
        if first.alone or second.alone:
            return "one of them needs a kernel of its own"
        if self.apart and not self.apart.isdisjoint((*origins(first), *origins(second))):
            return "a kernel with one of them could not be made"
        bit = 1 << earlier
        if any(between != earlier and self.nodes[between].before & bit for between in self.nodes[later].direct):
            return "something else has to run in between"
        bit = 1 << later
        if any(between != later and self.nodes[between].before & bit for between in self.nodes[earlier].direct):
            return "something else has to run in between"
        if (one.before ^ other.before) & self._waits:
            return "one of them would have to wait for other processes first"
        both = first.written.keys() & second.written.keys()
        crossing = first.written.keys() & second.read | second.written.keys() & first.read
        if any(len(self._writers[name]) > 1 for name in crossing):
            return "what is read is written in several parts"
        if both and edges_between(first, second):
            return "they write to one buffer"
        if len(first.buffers | second.buffers) > costs.MAX_BUFFERS:
            return "too many buffers"
        return None

    def _unprofitable(self, first: Group, second: Group, joined: Group) -> str | None:
        if not _may_hold_product(first, second, joined):
            return "a product takes in what is computed from it point by point, and nothing else"
        values = [member.computation.value for member in joined.members]
        if costs.operation_count(values) > costs.MAX_OPERATIONS:
            return "the kernel would be too large"
        for size in joined.sizes.values():
            if not size.free_symbols & joined.sizes.keys() <= set(joined.rows):
                return "the parts of a long reduction have to stay apart"
        dependent = bool(edges_between(first, second))
        points = estimate(joined.points)
        rows = joined.size_of(joined.rows)
        if self.machine.in_blocks and any(member.reduced and len(member.kept) > len(joined.rows)
                                          for member in joined.members):
            return "a row of one of them would be reduced in many ways"
        if points > self.machine.small_kernel and isinstance(rows, Const):
            lost = max(_independent(first), _independent(second)) > int(rows)
            enough, short = self.machine.enough_rows, self.machine.short_row
            if self.machine.in_blocks and any(member.reduced and is_column(member.computation)
                                              for member in joined.members):
                # Rows that lie side by side are taken together, so that there are fewer to run at once.
                enough, short = enough * costs.COLUMNS_AT_ONCE, short // (4 * costs.COLUMNS_AT_ONCE)
            if int(rows) < enough and lost and points > int(rows) * short:
                return f"only {rows} rows would be left"
        if not joined.rows and points > costs.TINY and (first.rows or second.rows):
            return "they have no rows in common"
        if dependent and points > costs.SMALL and _reduces_columns(first, second):
            return "columns are reduced in parts, each of which keeps its own accumulators"
        if dependent and points > costs.TINY and joined.is_pointwise:
            small = min(estimate(first.points), estimate(second.points))
            if small * costs.READ_OFTEN <= points:
                return "one of them is small and stays in the cache"
        one_buffer = first.written.keys() & second.written.keys()
        single = self.machine.in_blocks and not joined.sizes
        if not dependent and not one_buffer and not single and not _same_space(first, second, joined):
            return "they are independent and run over different points"
        return None

    def _merge(self, earlier: int, later: int, joined: Group) -> None:
        first, second = self.nodes[earlier], self.nodes.pop(later)
        self._moved[later] = earlier
        direct = (first.direct | second.direct) - {earlier, later}
        gone = ~(1 << later | 1 << earlier)
        before = (first.before | second.before) & gone
        ordered = tuple(sorted(joined.members, key=lambda member: member.position))
        self.nodes[earlier] = Node(replace(joined, members=ordered), before, direct)
        for need in second.direct - {earlier}:
            self._users[need].discard(later)
        for need in direct:
            self._users[need].add(earlier)
        users = (self._users[earlier] | self._users.pop(later)) - {earlier, later}
        self._users[earlier] = users
        known, dropped = before | 1 << earlier, 1 << later
        behind, open_nodes = set(users), list(users)
        while open_nodes:
            number = open_nodes.pop()
            node = self.nodes[number]
            if node.before & known == known and not node.before & dropped:
                continue  # and so it is with all behind it, unless they are behind another user
            node.before = node.before & ~dropped | known
            if later in node.direct:
                node.direct = (node.direct - {later}) | {earlier}
            new = self._users[number] - behind
            behind |= new
            open_nodes += new

    def ordered(self) -> list[Node]:
        """The nodes in an order in which they can run, as near to the program's as possible."""
        waiting = {number: set(node.direct) for number, node in self.nodes.items()}
        users: dict[int, list[int]] = {}
        for number, needs in waiting.items():
            for need in needs:
                users.setdefault(need, []).append(number)
        ready = sorted(number for number, needs in waiting.items() if not needs)
        done: list[Node] = []
        while ready:
            number = heappop(ready)
            done.append(self.nodes[number])
            for user in users.get(number, ()):
                waiting[user].discard(number)
                if not waiting[user]:
                    heappush(ready, user)
        assert len(done) == len(self.nodes), "kernels wait for each other"
        return done


def fuse(operations: Sequence[Operation], pool: AxisPool, late: Mapping[Symbol, str],
         machine: Machine = CPU, apart: frozenset[Any] = frozenset()) -> list[Node]:
    """The program as kernels and calls, in order."""
    fusion = Fusion(pool, late, machine, apart)
    for position, operation in enumerate(operations):
        fusion.add(position, operation)
    return fusion.ordered()


def accesses(operation: Operation) -> tuple[list[str], list[str]]:
    """The buffers that an operation reads and those that it writes."""
    if isinstance(operation, Computation):
        reads: dict[str, None] = {}
        for value in operation.values():
            for node in loads(value):
                reads.setdefault(node.data.buffer)
        return list(reads), written(operation)
    buffers: dict[str, None] = {}
    _collect(operation.args, buffers)
    _collect(operation.kwargs, buffers)
    writes = written(operation)
    return [name for name in buffers if name not in writes], writes


def written(operation: Operation) -> list[str]:
    """The buffers that an operation fills."""
    if isinstance(operation, Computation):
        return [operation.buffer]
    return [name for name in operation.outputs if name is not None]


def _collect(argument: object, found: dict[str, None]) -> None:
    if isinstance(argument, BufferRef):
        found.setdefault(argument.buffer)
    elif isinstance(argument, list | tuple):
        for part in argument:
            _collect(part, found)
    elif isinstance(argument, dict):
        for part in argument.values():
            _collect(part, found)


def _symbols(operation: Operation) -> set[Symbol]:
    """The symbols of sizes and indices in an operation."""
    symbols: set[Symbol] = set()
    if isinstance(operation, Computation):
        for axis in (*operation.axes, *operation.reduce_axes):
            symbols |= axis.size.free_symbols
        for expr in [operation.place.index, *[e for value in operation.values() for e in expressions(value)]]:
            symbols |= expr.free_symbols
        numbers = [node.data for value in operation.values() for node in value.walk() if node.op == "number"]
        return symbols.union(*[number.free_symbols for number in numbers])
    waiting: list[object] = [operation.args, operation.kwargs]
    while waiting:
        argument = waiting.pop()
        if isinstance(argument, Expr):
            symbols |= argument.free_symbols
        elif isinstance(argument, BufferRef):
            waiting += [argument.shape, argument.strides, argument.offset]
        elif isinstance(argument, list | tuple):
            waiting += argument
        elif isinstance(argument, dict):
            waiting += argument.values()
    return symbols


def is_random(call: ExternCall) -> bool:
    """Whether a call draws random numbers: such calls keep their order."""
    return "nondeterministic_seeded" in map(str, map(_tag_name, getattr(call.target, "tags", ())))


def _tag_name(tag: object) -> str:
    return str(getattr(tag, "name", tag))


def _may_hold_product(first: Group, second: Group, joined: Group) -> bool:
    """Whether a matrix product, if there is one, stays in tiles: the rest is done once for each of its points."""
    products = [member for member in joined.members if member.computation.reduce == "dot"]
    if not products:
        return True
    others = [member for member in joined.members if member not in products]
    alike = all(member.is_pointwise and set(member.kept) == set(joined.rows) for member in others)
    return len(products) == 1 and alike and bool(edges_between(first, second) or edges_between(second, first))


def _is_small_reduction(group: Group) -> bool:
    """Whether it is short work that reduces, for which a launch counts."""
    return any(member.reduced for member in group.members) and estimate(group.points) <= 4 * costs.LONG_REDUCTION


def _is_tiny(group: Group) -> bool:
    """Whether it is done point by point for so few points that nothing counts but the launch."""
    return group.is_pointwise and all(isinstance(size, Const) for size in group.sizes.values()) \
        and estimate(group.points) <= costs.TINY


def _independent(group: Group) -> int:
    return estimate(group.size_of(group.rows))


def _reduces_columns(first: Group, second: Group) -> bool:
    """Whether the second group reduces what the first one has reduced already, along results that lie side by side."""
    columns = {member.buffer for member in first.members if not member.is_pointwise and is_column(member.computation)}
    return any(load.buffer in columns and load.index.free_symbols & set(member.reduced)
               for member in second.members for load in member.loads)


def _same_space(first: Group, second: Group, joined: Group) -> bool:
    """Whether two groups that only share inputs run through the same points, so that an input is read once."""
    half = len(first.members)

    def largest(members: tuple[Member, ...]) -> frozenset[Symbol]:
        def extent(axes: tuple[Symbol, ...]) -> tuple[int, int]:
            return len(axes), estimate(joined.size_of(axes))

        # Parts of a concatenation run through spaces of as many axes, the longest of which counts.
        longest = max([member.kept + member.reduced for member in members], key=extent)
        return frozenset(longest)

    return bool(joined.rows) and largest(joined.members[:half]) == largest(joined.members[half:])


def names(group: Group) -> str:
    """A group in the log."""
    return "+".join(member.buffer for member in group.members)


def describe_rows(group: Group) -> str:
    """The rows of a group in the log."""
    rows = " × ".join(str(group.sizes[axis]) for axis in group.rows)
    size: Expr = group.points
    return f"{rows or 'no'} rows, {size} points"
