"""Groups of computations that are to become one kernel, over loop variables that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from ...records import dataclass
from ...shapes import Expr, Symbol
from ...shapes.expr import ONE, ZERO
from ..ir import SCANS, Computation, Place
from . import values
from .indices import AxisPool, estimate, linear, product, substitute


@dataclass(frozen=True)
class Load:
    """A read of a computation, its index over the axes of the group."""

    buffer: str
    index: Expr
    indirect: bool


@dataclass(frozen=True)
class Member:
    """A computation within a group.

    ``axes`` maps the computation's own axes to expressions over those of the group.
    """

    computation: Computation
    position: int
    axes: dict[Symbol, Expr]
    kept: tuple[Symbol, ...]
    reduced: tuple[Symbol, ...]
    store: Expr
    loads: tuple[Load, ...]

    @property
    def buffer(self) -> str:
        return self.computation.place.buffer

    @property
    def is_pointwise(self) -> bool:
        return self.computation.reduce is None

    @property
    def alone(self) -> bool:
        """Whether it has to have a kernel of its own: scans, and stores whose place or effect depends on values."""
        computation = self.computation
        return computation.reduce in SCANS or computation.mode != "set" or bool(computation.args)

    def substitute(self, axes: Mapping[Symbol, Expr], pool: AxisPool) -> Member:
        """The member over other axes; an axis that becomes several is replaced by them, in order."""
        if not any(axis in axes for axis in (*self.kept, *self.reduced)):
            return self

        def renamed(old: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
            new: dict[Symbol, None] = {}
            for axis in old:
                for part in _digits(axes.get(axis, axis)):
                    new.setdefault(part)
            return tuple(new)

        def index(expr: Expr) -> Expr:
            return pool.simplify(substitute(expr, axes))

        return replace(
            self,
            axes={axis: substitute(expr, axes) for axis, expr in self.axes.items()},
            kept=renamed(self.kept),
            reduced=renamed(self.reduced),
            store=index(self.store),
            loads=tuple([Load(load.buffer, index(load.index), load.indirect) for load in self.loads]),
        )


def _digits(expr: Expr) -> list[Symbol]:
    """The loop variables in the expression that an axis is replaced by, most significant first."""
    if isinstance(expr, Symbol):
        return [expr]
    symbols = [symbol for symbol in expr.free_symbols if symbol.name.startswith("g")]
    strides = linear(expr, frozenset(symbols)).strides
    # The stride of a digit is the product of the sizes below it, so of two strides the longer product is the larger.
    return sorted(symbols, key=lambda axis: -_magnitude(strides[axis]))


def _magnitude(expr: Expr) -> int:
    return int(expr.evaluate(dict.fromkeys(expr.free_symbols, 1 << 20)))


@dataclass(frozen=True)
class Group:
    """Computations in the order in which they run."""

    members: tuple[Member, ...]
    sizes: dict[Symbol, Expr]
    rows: tuple[Symbol, ...]
    """The axes that all members keep and along which nothing flows from one point to another."""

    @cached_property
    def buffers(self) -> frozenset[str]:
        """Everything that is read or written."""
        return self.read.union([member.buffer for member in self.members])

    @cached_property
    def read(self) -> frozenset[str]:
        return frozenset([load.buffer for member in self.members for load in member.loads])

    @cached_property
    def written(self) -> dict[str, Member]:
        return {member.buffer: member for member in self.members}

    @cached_property
    def alone(self) -> bool:
        return any([member.alone for member in self.members])

    @cached_property
    def is_pointwise(self) -> bool:
        return all([member.is_pointwise for member in self.members])

    def size_of(self, axes: tuple[Symbol, ...]) -> Expr:
        return product([self.sizes[axis] for axis in axes])

    @cached_property
    def points(self) -> Expr:
        """The number of points of the largest member."""
        counts = dict.fromkeys([self.size_of(member.kept + member.reduced) for member in self.members])
        return max(counts, key=estimate)

    def next_axis(self) -> int:
        """A number that no axis has."""
        return len(self.sizes)

    def can_split(self, axis: Symbol) -> bool:
        """Whether no other axis depends on an axis, and it on none."""
        return not any(axis in size.free_symbols for size in self.sizes.values()) and not (
            self.sizes[axis].free_symbols & self.sizes.keys()
        )

    def split(self, axis: Symbol, sizes: tuple[Expr, ...], pool: AxisPool) -> Group:
        """The group with an axis as several, of the given sizes, most significant first."""
        first = self.next_axis()
        new = [pool.axis(first + number, size) for number, size in enumerate(sizes)]
        whole: Expr = ZERO
        for symbol, size in zip(new, sizes, strict=True):
            whole = whole * size + symbol
        members = tuple([member.substitute({axis: whole}, pool) for member in self.members])
        # The old axis stays in the table, so that its number is not given again.
        kept = {**self.sizes, **dict(zip(new, sizes, strict=True))}
        rows = tuple(part for row in self.rows for part in (new if row is axis else [row]))
        return Group(members, kept, rows)


def single(computation: Computation, position: int, pool: AxisPool) -> Group:
    """The group of one computation. Axes of size 1 are dropped."""
    axes: dict[Symbol, Expr] = {}
    sizes: dict[Symbol, Expr] = {}
    kinds: list[list[Symbol]] = []
    for kind in (computation.axes, computation.reduce_axes):
        kinds.append([])
        for axis in kind:
            if axis.size is ONE:
                axes[axis.symbol] = ZERO
                continue
            size = substitute(axis.size, axes)  # that of a part may depend on which part it is
            new = pool.axis(len(sizes), size)
            axes[axis.symbol] = new
            sizes[new] = size
            kinds[-1].append(new)
    loads: dict[Load, None] = {}
    for value in computation.values():
        for node in values.loads(value):
            place: Place = node.data
            loads.setdefault(Load(place.buffer, pool.simplify(substitute(place.index, axes)), bool(place.indirect)))
    kept, reduced = tuple(kinds[0]), tuple(kinds[1])
    store = pool.simplify(substitute(computation.place.index, axes))
    member = Member(computation, position, axes, kept, reduced, store, tuple(loads))
    return Group((member,), sizes, kept)


def origins(group: Group) -> tuple[Any, ...]:
    """The graph nodes that a group computes."""
    nodes: dict[Any, None] = {}
    for member in group.members:
        for origin in member.computation.origins:
            nodes.setdefault(origin)
    return tuple(nodes)
