"""What happens in one row of a kernel, in which order, and where the values in between are kept.

Pieces that run over the rows only are scalars of the row. The others have inner axes: they become loops, and pieces
with the same inner axes share one where what they read of each other is at their own point. A value that is needed in
another loop is computed again if that is cheap, and otherwise kept in memory: in its own buffer if that is needed
outside anyway, or in scratch memory as long as the row.

    sum of exp(x - max) and then the quotient:
        a0 = max(i1) load(x)                         scalar
        for i1: row0[i1] = exp(load(x) - a0)         loop
        a1 = sum(i1) load(row0, i1)                  scalar
        for i1: out[...] = load(row0, i1) / a1       loop
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

import torch

from ... import shapes
from ...records import dataclass
from ...shapes import Const, Expr, Symbol
from ...shapes.expr import ZERO
from .. import ir
from ..ir import Place, Value
from . import costs
from .indices import AxisPool, coordinates, product
from .pieces import Piece
from .values import loads, rewrite

KEEP_UP_TO = 2.5
"""Values that cost no more than this are computed again rather than kept in scratch memory."""
READ_BACK_FROM = 1.3
"""The same for values that are in memory anyway."""

STORE_MODE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "max", "all": "min"}
"""How a reduction is done by stores into its result, for those where that is possible."""

Kind = Literal["scalar", "loop", "column"]


@dataclass
class Step:
    """A piece with what was decided about it."""

    piece: Piece
    number: int
    inner: tuple[Symbol, ...]
    cheap: bool = False
    """It is computed again by those who read it."""
    value: Value | None = None
    """The piece's value with cheap pieces put in."""
    phase: int = -1
    in_memory: bool = False
    """Another loop reads it back."""
    reads: int = 0
    """How often it is read in its own phase, or as a scalar."""

    @property
    def is_reduction(self) -> bool:
        return self.piece.reduce is not None

    @property
    def name(self) -> str:
        return f"a{self.number}"


@dataclass
class Phase:
    """One statement of the row, or one loop with several."""

    kind: Kind
    inner: tuple[Symbol, ...]
    steps: list[Step] = field(default_factory=list)


@dataclass
class Plan:
    """The phases of a row."""

    pieces: tuple[Piece, ...]
    rows: tuple[Symbol, ...]
    pool: AxisPool
    in_blocks: bool = False
    """Whether scratch memory is registers of lanes, see `Machine`: what is read in another way is put into memory."""
    every_step: list[Step] = field(default_factory=list)
    steps: dict[str, Step] = field(default_factory=dict)
    """The steps that others may read, by buffer."""
    phases: list[Phase] = field(default_factory=list)
    scratch: dict[str, ir.Scratch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        masked = {
            node.data.buffer
            for piece in self.pieces for value in piece.values() for node in loads(value) if node.data.masked
        }  # fmt: skip
        for number, piece in enumerate(self.pieces):
            inner = tuple([axis for axis in piece.kept if axis not in self.rows])
            step = Step(piece, number, inner)
            step.value = self._expand(piece.value)
            self.every_step.append(step)
            if piece.buffer not in self.steps:  # parts of a buffer that several pieces fill are never read here
                self.steps[piece.buffer] = step
            if inner and not step.is_reduction and piece.buffer not in masked:
                cost = costs.value_cost(step.value, frozenset(piece.kept + piece.reduced) - frozenset(self.rows))
                step.cheap = cost <= (READ_BACK_FROM if piece.external else KEEP_UP_TO)
        read = {node.data.buffer for step in self.every_step if not step.cheap or step.piece.external
                for node in loads(_value(step))}
        for step in self.every_step:
            if step.piece.external or step.piece.buffer in read:
                self._put(step)

    # Placing

    def point(self, step: Step, load: Value) -> dict[Symbol, Expr] | None:
        """Where a load reads in what a step writes; None when that is not clear."""
        place: Place = load.data
        at = coordinates(step.piece.place.index, step.piece.kept, place.index)
        # Only a point within the axes is the right one: an index can be taken apart in several ways.
        if at is None or not all(self.pool.is_below(where, self.pool.sizes[axis]) for axis, where in at.items()):
            return None
        return at

    def _expand(self, value: Value) -> Value:
        """The value with loads of cheap pieces replaced by what they compute."""

        def inlined(load: Value) -> Value | None:
            if load.op != "load":
                return None
            step = self.steps.get(load.data.buffer)
            if step is None or not step.cheap:
                return None
            at = self.point(step, load)
            if at is None or any(not where.free_symbols.isdisjoint(load.data.indirect) for where in at.values()):
                step.cheap = False  # a point that is not clear, or one that a computed index decides on
                return None
            moved = {axis: where for axis, where in at.items() if where is not axis}
            return ir.cast(rewrite(_value(step), moved, {}, self.pool), step.piece.dtype)

        return rewrite(value, {}, {}, None, inlined) if any(s.cheap for s in self.steps.values()) else value

    def _reads(self, step: Step) -> list[tuple[Step, Value]]:
        return [
            (self.steps[node.data.buffer], node) for node in loads(_value(step)) if node.data.buffer in self.steps
        ]

    def _is_here(self, source: Step, load: Value, step: Step) -> bool:
        """Whether a step reads another one at its own point, in a loop that they could share."""
        if step.is_reduction or frozenset(source.inner) != frozenset(step.inner) or source.is_reduction:
            return False
        at = self.point(source, load)
        return at is not None and all(axis is where for axis, where in at.items())

    def _put(self, step: Step) -> None:
        """Find the phase of a step."""
        first = self.steps[step.piece.buffer]
        # Parts of a buffer are written in the order of the program, in case they overlap.
        least = 0 if first is step else len(self.phases)
        for source, load in self._reads(step):
            if source.inner and self._is_here(source, load, step):
                least = max(least, source.phase)
            else:
                least = max(least, source.phase + 1)
        kind: Kind = "scalar" if not step.inner else "column" if step.is_reduction else "loop"
        step.phase = len(self.phases)
        if kind == "loop":
            for number in range(least, len(self.phases)):
                phase = self.phases[number]
                if phase.kind == "loop" and frozenset(phase.inner) == frozenset(step.inner):
                    step.phase = number
                    break
        if step.phase == len(self.phases):
            self.phases.append(Phase(kind, step.inner))
        self.phases[step.phase].steps.append(step)
        for source, load in self._reads(step):
            if not source.inner or (source.phase == step.phase and self._is_here(source, load, step)):
                source.reads += 1
            else:
                source.in_memory = True

    # Values

    def resolved(self, step: Step, assigned: set[str]) -> Value:
        """The value of a step with what it reads of other steps taken from where that is kept.

        ``assigned`` are the steps of the same loop that have a local.
        """

        def replacement(load: Value) -> Value | None:
            source = self.steps.get(load.data.buffer) if load.op == "load" else None
            if source is None:
                return None
            if not source.inner or (source.phase == step.phase and self._is_here(source, load, step)):
                if source.name in assigned:
                    local = ir.local(source.name, source.piece.dtype)
                else:
                    local = ir.cast(self.resolved(source, assigned), source.piece.dtype)
                return _under_mask(load, local)
            return self._from_memory(source, load)

        return rewrite(_value(step), {}, {}, None, replacement)

    def _from_memory(self, source: Step, load: Value) -> Value:
        place: Place = load.data
        name = self.memory_of(source)
        if name == source.piece.buffer:
            return load
        at = self.point(source, load)
        assert at is not None
        index = self.scratch_index(source, at)
        dtype = self.scratch[name].dtype
        kept = Place(name, index, tuple(s for s in place.indirect if s in index.free_symbols), place.masked)
        behind = dict(zip(place.indirect, load.args, strict=False))
        args = tuple([behind[symbol] for symbol in kept.indirect]) + (load.args[-1:] if place.masked else ())
        return ir.cast(Value("load", dtype, args, kept), load.dtype)

    def memory_of(self, step: Step) -> str:
        """The scratch memory or the buffer where a step's values can be read back."""
        piece = step.piece
        if not self._is_clear(step) or (piece.external and not step.is_reduction):
            return piece.buffer
        if step.is_reduction:
            return self.accumulators(step)
        if self.in_blocks and not self._is_along_lanes(step):
            return piece.buffer
        bytes_ = product([self.pool.sizes[axis] for axis in step.inner]) * piece.dtype.itemsize
        if isinstance(bytes_, Const) and int(bytes_) > costs.ROW_BYTES:
            return piece.buffer
        return self._new_scratch(f"row{step.number}", step, piece.dtype)

    def accumulators(self, step: Step) -> str:
        """The scratch memory in which a reduction with inner axes is carried out."""
        return self._new_scratch(f"acc{step.number}", step, accumulator(step.piece))

    def _new_scratch(self, name: str, step: Step, dtype: torch.dtype) -> str:
        if name not in self.scratch:
            self.scratch[name] = ir.Scratch(name, dtype, product([self._bound(axis) for axis in step.inner]))
        return name

    def _is_clear(self, step: Step) -> bool:
        """Whether it is known at which point of a step its readers read."""
        return all(
            self.point(step, node) is not None
            for reader in self.every_step for source, node in self._reads(reader) if source is step
        )  # fmt: skip

    def _is_along_lanes(self, step: Step) -> bool:
        """Whether all that read a row read element by element what was written there, in loops as long as its own."""
        if len(step.inner) != 1:
            return False
        size = self.pool.sizes[step.inner[0]]
        for reader in self.every_step:
            lanes = (*reader.inner, *reader.piece.reduced)
            for source, load in self._reads(reader):
                if source is step:
                    at = self.point(step, load)
                    if at is None or len(lanes) != 1 or at[step.inner[0]] is not lanes[0] \
                            or self.pool.sizes[lanes[0]] is not size:
                        return False
        return True

    def stores(self, step: Step) -> list[Place]:
        """Where the values of a step with inner axes go; not its accumulators."""
        places = [step.piece.place] if step.piece.external else []
        if step.in_memory:
            name = self.memory_of(step)
            if name != step.piece.buffer:
                places.append(Place(name, self.scratch_index(step, {axis: axis for axis in step.inner})))
            elif not step.piece.external:
                places.append(step.piece.place)
        return places

    def _bound(self, axis: Symbol) -> Expr:
        """How much memory an axis needs: for the blocks of a longer one, a whole block."""
        size = self.pool.sizes[axis]
        upper = self.pool.facts.interval(size).upper
        if size.free_symbols & self.pool.sizes.keys():
            return shapes.const(int(upper))
        return size

    def scratch_index(self, step: Step, at: Mapping[Symbol, Expr]) -> Expr:
        """The place of a point in scratch memory."""
        index: Expr = ZERO
        for axis in step.inner:
            index = index * self._bound(axis) + at[axis]
        return index


def accumulator(piece: Piece) -> torch.dtype:
    """The dtype in which a reduction is carried out."""
    return piece.dtype if piece.reduce in ("argmax", "argmin") else piece.value.dtype


def _value(step: Step) -> Value:
    assert step.value is not None
    return step.value


def _under_mask(load: Value, found: Value) -> Value:
    place: Place = load.data
    return ir.op("where", load.args[-1], found, ir.const(0, found.dtype)) if place.masked else found
