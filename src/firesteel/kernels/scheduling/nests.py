"""From a recipe to a kernel: the order of loops, which of them are parallel, and the statements inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch

from ... import shapes
from ...records import dataclass
from ...shapes import Const, Expr, Product, Sum, Symbol
from ...shapes.expr import ONE, ZERO
from .. import ir
from ..ir import Axis, Place, Value
from . import costs
from .indices import AxisPool, estimate, linear, product
from .machines import CPU, Machine
from .phases import STORE_MODE, Phase, Plan, Step, accumulator
from .pieces import ORDERED, Piece, Recipe
from .values import expressions, loads, rewrite

NEAR = 4
"""Elements so far apart count as lying in order, where nothing lies nearer: they share cache lines."""
TILE = 32
SCATTER_BLOCK = 128
"""So many columns of a table are written by one thread at a time, for all rows."""
ENOUGH_PARALLEL = 256
LIKELY_ROWS = 8
"""How many iterations a loop of unknown length is counted on for threads."""


@dataclass(frozen=True)
class Nest:
    """The body of a kernel."""

    body: list[ir.Statement]
    scratch: list[ir.Scratch]


class NestBuilder:
    """Builds the loops of one recipe."""

    def __init__(self, recipe: Recipe, pool: AxisPool, machine: Machine = CPU) -> None:
        self.pool = pool
        self.machine = machine
        self.pieces = recipe.pieces
        self.rows = recipe.rows
        self.near = contiguous_axis(self.pieces, pool)
        if not machine.in_blocks and self.near is not None:
            reduced = contiguous_reduction(self.pieces, self.near, pool)
            self.near = self.near if reduced is None else reduced
        self.blocks: Symbol | None = None
        """The loop over blocks of the contiguous axis, if that was cut."""
        self.flat = all(piece.reduce is None and len(piece.kept) == len(self.rows) for piece in self.pieces)

    def build(self) -> Nest:
        """The kernel's body."""
        if self.pieces[0].reduce in ir.SCANS:
            return self._scan(self.pieces[0])
        if self.pieces[0].args or self.pieces[0].mode != "set":
            return self._scatter(self.pieces[0])
        if self.machine.in_blocks:
            pass
        elif not self.flat and self.near in self.rows and self._can_be_columns():
            self._make_columns(self.near)
        elif self.flat:
            self._make_parallel_blocks()
        rows = self._ordered(self.rows)
        plan = Plan(self.pieces, tuple(rows), self.pool, self.machine.in_blocks)
        body = [statement for phase in plan.phases for statement in self._phase(plan, phase)]
        return Nest(self._rows(rows, body), list(plan.scratch.values()))

    # Loops

    def _ordered(self, axes: Iterable[Symbol]) -> list[Symbol]:
        """Axes from the farthest apart in memory to the nearest."""
        everything = frozenset(axis for piece in self.pieces for axis in piece.kept + piece.reduced)
        tables = [linear(expr, everything) for expr in self._by_importance()]

        def key(axis: Symbol) -> tuple[int, tuple[float, ...]]:
            strides = [table.stride(axis) for table in tables]
            last = 2 if axis is self.near else 1 if axis is self.blocks else 0
            return last, tuple([0.0 if s is None else -float(estimate(s)) for s in strides])

        return sorted(axes, key=key)

    def _by_importance(self) -> list[Expr]:
        stores = [piece.place.index for piece in self.pieces if piece.external]
        loads = [expr for piece in self.pieces for expr in expressions(piece.value)]
        longest = sorted([*stores, *loads], key=lambda expr: -len(expr.free_symbols))
        return list(dict.fromkeys(longest))[:6]

    def _rows(self, rows: Sequence[Symbol], body: list[ir.Statement]) -> list[ir.Statement]:
        """The row loops around the body of a row, outermost first."""
        parallel = self._parallel(rows)
        tile = self._tile(rows)
        for axis in reversed(rows):
            loop = ir.Loop(Axis(axis, self.pool.sizes[axis]), body, axis in parallel, TILE if axis is tile else 0)
            body = [loop]
        if not rows and len(body) == 1 and isinstance(body[0], ir.Loop) and _stores_only(body[0]):
            body[0].parallel = True
        return body

    def _parallel(self, rows: Sequence[Symbol]) -> set[Symbol]:
        if self.machine.in_blocks:
            return set(rows[:-1] if self._has_long_rows(rows) else rows)
        parallel: set[Symbol] = set()
        reached = 1
        for axis in rows:
            if parallel and reached >= ENOUGH_PARALLEL:
                break
            if parallel and self.flat and axis is rows[-1] and reached >= costs.ENOUGH_ROWS:
                break  # the innermost loop is for vectors
            if parallel and self.pool.sizes[axis].free_symbols & parallel:
                break
            parallel.add(axis)
            size = self.pool.sizes[axis]
            reached *= max(1, int(size)) if isinstance(size, Const) else LIKELY_ROWS
        return parallel

    def _has_long_rows(self, rows: Sequence[Symbol]) -> bool:
        """Whether points run row by row, so that what all points of a row have in common is had once."""
        if not self.flat or len(rows) < 2 or rows[-1] is not self.near:
            return False
        count, length = product([self.pool.sizes[axis] for axis in rows[:-1]]), self.pool.sizes[rows[-1]]
        if not (isinstance(count, Const) and isinstance(length, Const)):
            return False
        shared = {load.data for piece in self.pieces for load in loads(piece.value)
                  if rows[-1] not in load.data.index.free_symbols and load.data.index.free_symbols}
        return int(count) >= self.machine.enough_rows and int(length) > costs.LONG_ROW and len(shared) >= 2

    def _tile(self, rows: list[Symbol] | Sequence[Symbol]) -> Symbol | None:
        """The second innermost loop, if something is contiguous along it and not along the innermost one."""
        if not self.flat or len(rows) < 2:
            return None
        near, second = rows[-1], rows[-2]
        if self.pool.sizes[near].free_symbols & set(rows):
            return None
        axes = frozenset(rows)
        for piece in self.pieces:
            for expr in [piece.place.index, *_loaded(piece)]:
                table = linear(expr, axes)
                if table.stride(second) is ONE and table.stride(near) not in (ZERO, ONE, None):
                    return second
        return None

    def _split(self, axis: Symbol, block: int) -> tuple[Symbol, Symbol]:
        """Cut an axis into blocks; the last one may be shorter."""
        size = self.pool.sizes[axis]
        number = 40 + len(self.rows)
        if self.pool.facts.known_multiple(size, block):
            blocks, rest = self.pool.axis(number, size // block), shapes.const(block)
            inside = self.pool.axis(number + 20, rest)
        else:
            blocks = self.pool.axis(number, (size + (block - 1)) // block)
            inside = self.pool.axis(number + 20, shapes.minimum(block, size - blocks * block))
        whole: dict[Symbol, Expr] = {axis: blocks * block + inside}
        self.pieces = tuple([piece.substitute(whole, self.pool, {axis: (blocks, inside)}) for piece in self.pieces])
        self.rows = tuple([new for row in self.rows for new in ((blocks, inside) if row is axis else (row,))])
        if axis is self.near:
            self.near, self.blocks = inside, blocks
        return blocks, inside

    def _make_parallel_blocks(self) -> None:
        """Cut a long innermost loop under too few outer iterations, so that there is something for every thread."""
        if self.near not in self.rows or len(self.rows) < 2:
            return
        outer = [self.pool.sizes[axis] for axis in self.rows if axis is not self.near]
        known = product([size for size in outer if isinstance(size, Const)])
        length = self.pool.sizes[self.near]
        long = not isinstance(length, Const) or int(length) >= 2 * costs.PARALLEL_BLOCK
        if long and estimate(known) < costs.ENOUGH_ROWS and self._tile(self._ordered(self.rows)) is None:
            self._split(self.near, costs.PARALLEL_BLOCK)

    # Columns

    def _can_be_columns(self) -> bool:
        axes = {axis for piece in self.pieces for axis in piece.kept + piece.reduced}
        if any(self.near in self.pool.sizes[axis].free_symbols for axis in axes):
            return False
        return all(piece.reduce is None or piece.reduce in STORE_MODE for piece in self.pieces)

    def _make_columns(self, axis: Symbol) -> None:
        """Run along a kept axis innermost, and reduce with accumulators for a block of it."""
        size = self.pool.sizes[axis]
        others = product([self.pool.sizes[row] for row in self.rows if row is not axis])
        enough = isinstance(others, Const) and int(others) >= costs.ENOUGH_ROWS
        block = costs.WIDE_COLUMN_BLOCK if enough else costs.COLUMN_BLOCK
        for piece in self.pieces:
            if piece.reduce is None and len(piece.kept) > len(self.rows):
                # A block of what is kept for every reduced point should stay in the cache.
                inner = product([self.pool.sizes[other] for other in piece.kept if other not in self.rows])
                while block > costs.LEAST_BLOCK and estimate(inner) * block * piece.dtype.itemsize > costs.ROW_BYTES:
                    block //= 2
        if not isinstance(size, Const) or int(size) > block:
            _, axis = self._split(axis, block)
        self.rows = tuple([row for row in self.rows if row is not axis])

    # Statements

    def _phase(self, plan: Plan, phase: Phase) -> list[ir.Statement]:
        if phase.kind == "scalar":
            return self._scalar(plan, phase.steps[0])
        if phase.kind == "column":
            return self._column(plan, phase.steps[0])
        statements: list[ir.Statement] = []
        assigned = _scalars(plan)
        for step in phase.steps:
            value = ir.cast(plan.resolved(step, assigned), step.piece.dtype)
            stores = plan.stores(step)
            if step.reads + len(stores) > 1 and value.op not in ("load", "const", "local"):
                statements.append(ir.Assign(step.name, value))
                value = ir.local(step.name, value.dtype)
                assigned.add(step.name)
            statements.extend([ir.Store(place, value) for place in stores])
        return self._inner(phase.inner, statements)

    def _inner(self, axes: Iterable[Symbol], body: list[ir.Statement]) -> list[ir.Statement]:
        for axis in reversed(self._ordered(axes)):
            body = [ir.Loop(Axis(axis, self.pool.sizes[axis]), body)]
        return body

    def _scalar(self, plan: Plan, step: Step) -> list[ir.Statement]:
        piece = step.piece
        value = plan.resolved(step, _scalars(plan))
        statements: list[ir.Statement] = []
        stores = [piece.place] if piece.external else []
        if piece.reduce is not None:
            order = piece.reduced if piece.reduce in ORDERED else tuple(self._ordered(piece.reduced))
            axes = tuple([Axis(axis, self.pool.sizes[axis]) for axis in order])
            dtype = accumulator(piece)
            name = step.name if dtype is piece.dtype else f"{step.name}_{_short(dtype)}"
            statements.append(ir.Reduce(name, piece.reduce, axes, value, dtype))
            value = ir.cast(ir.local(name, dtype), piece.dtype)
            if name != step.name and step.reads:
                statements.append(ir.Assign(step.name, value))
                value = ir.local(step.name, piece.dtype)
        elif step.name in _scalars(plan):
            value = ir.cast(value, piece.dtype)
            statements.append(ir.Assign(step.name, value))
            value = ir.local(step.name, piece.dtype)
        else:
            value = ir.cast(value, piece.dtype)
        statements.extend([ir.Store(place, value) for place in stores])
        return statements

    def _column(self, plan: Plan, step: Step) -> list[ir.Statement]:
        """Reduce into a row of accumulators."""
        piece = step.piece
        assert piece.reduce is not None
        if self.near in piece.reduced or piece.reduce not in STORE_MODE:
            return self._rowwise(plan, step)
        dtype = accumulator(piece)
        name = plan.accumulators(step)
        place = Place(name, plan.scratch_index(step, {axis: axis for axis in step.inner}))
        start = ir.const(identity(piece.reduce, dtype), dtype)
        value = plan.resolved(step, _scalars(plan))
        order = self._ordered(piece.reduced)
        statements: list[ir.Statement] = [*self._inner(step.inner, [ir.Store(place, start)])]
        if piece.reduce == "sum" and dtype.is_floating_point:
            statements += self._sums(plan, step, order, value, place)
        else:
            body = self._inner(step.inner, [ir.Store(place, value, mode=STORE_MODE[piece.reduce])])
            statements += self._around(order, body)
        result = ir.cast(ir.load(name, place.index, dtype), piece.dtype)
        stores: list[ir.Statement] = [ir.Store(at, result) for at in plan.stores(step) if at.buffer != name]
        return statements + (self._inner(step.inner, stores) if stores else [])

    def _sums(self, plan: Plan, step: Step, order: list[Symbol], value: Value, place: Place) -> list[ir.Statement]:
        """Add up rows, in levels: short sums first and then sums of those, for the accuracy of pairwise summation.

            for k: part = 0; for r: part += ...; acc += part
        """
        cut = max(order, key=lambda axis: estimate(self.pool.sizes[axis]))
        size = self.pool.sizes[cut]
        longest = self.pool.facts.interval(size).upper
        blocks = [1]
        while blocks[-1] * 2 * costs.ACCUMULATE < longest and len(blocks) < 3:
            blocks.append(blocks[-1] * costs.ACCUMULATE)
        before, after = order[: order.index(cut)], order[order.index(cut) + 1 :]
        dtype = value.dtype
        zero = ir.const(0, dtype)

        def level(number: int, target: Place, base: Expr, rest: Expr) -> list[ir.Statement]:
            block = blocks[number]
            if block == 1:
                axis = self.pool.axis(80, rest) if base is not ZERO else cut
                moved = value if base is ZERO else rewrite(value, {cut: base + axis}, {}, self.pool)
                body = self._inner(step.inner, [ir.Store(target, moved, mode="add")])
                return self._around([axis, *after], body)
            axis = self.pool.axis(80 + number, (rest + (block - 1)) // block)
            left = shapes.minimum(block, rest - axis * block)
            if self.pool.facts.known_multiple(rest, block):
                left = shapes.const(block)
            name = f"part{step.number}_{number}"
            plan.scratch[name] = ir.Scratch(name, dtype, plan.scratch[place.buffer].size)
            part = Place(name, place.index)
            sums = ir.load(name, place.index, dtype)
            return self._around([axis], [
                *self._inner(step.inner, [ir.Store(part, zero)]),
                *level(number - 1, part, base + axis * block, left),
                *self._inner(step.inner, [ir.Store(target, sums, mode="add")]),
            ])  # fmt: skip

        return self._around(before, level(len(blocks) - 1, place, ZERO, size))

    def _rowwise(self, plan: Plan, step: Step) -> list[ir.Statement]:
        """Reduce one result after the other into a row of results."""
        piece, dtype = step.piece, accumulator(step.piece)
        assert piece.reduce is not None
        order = piece.reduced if piece.reduce in ORDERED else tuple(self._ordered(piece.reduced))
        axes = tuple([Axis(axis, self.pool.sizes[axis]) for axis in order])
        body: list[ir.Statement] = [
            ir.Reduce(step.name, piece.reduce, axes, plan.resolved(step, _scalars(plan)), dtype)
        ]
        for place in plan.stores(step):
            value = ir.local(step.name, dtype)
            own = place.buffer in plan.scratch
            body.append(ir.Store(place, value if own else ir.cast(value, piece.dtype)))
        return self._inner(step.inner, body)

    def _around(self, axes: Sequence[Symbol], body: list[ir.Statement]) -> list[ir.Statement]:
        for axis in reversed(axes):
            body = [ir.Loop(Axis(axis, self.pool.sizes[axis]), body)]
        return body

    # Kernels of one piece

    def _scan(self, piece: Piece) -> Nest:
        assert piece.reduce is not None
        axis = piece.reduced[0]
        along = Axis(axis, self.pool.sizes[axis])
        scan = ir.Scan(piece.reduce, along, piece.value, piece.place, piece.dtype, piece.args)
        rows = self._ordered(piece.kept)
        return Nest(self._rows(rows, [scan]), [])

    def _scatter(self, piece: Piece) -> Nest:
        """Stores that may meet.

        Points that differ in an axis that is a dimension of the result by itself go to different places, so such axes
        can be parallel; along all others the order is kept. Where all points run at once there is no order: stores that
        combine are atomic there, and of several that replace any may be the last, as in eager.
        """
        if self.machine.in_blocks:
            store = ir.Store(piece.place, piece.value, piece.args, piece.mode)
            return Nest(self._rows(self._ordered(piece.kept), [store]), [])
        strides = linear(piece.place.index, frozenset(piece.kept)).strides
        near = next((axis for axis, stride in strides.items() if stride is ONE and self._is_apart(piece, axis)), None)
        if near is not None and len(strides) == 1 and self._is_wide(near):
            # Columns of a table: blocks of them for the threads, all rows in order for each.
            self.near = near
            blocks, near = self._split(near, SCATTER_BLOCK)
            piece = self.pieces[0]
            rows = [blocks]
        else:
            rows = self._ordered([axis for axis in strides if axis is not near and self._is_apart(piece, axis)])
        others = self._ordered([axis for axis in piece.kept if axis not in rows and axis is not near])
        stores: list[ir.Statement] = [ir.Store(piece.place, piece.value, piece.args, piece.mode)]
        body = self._around([*others, *([near] if near is not None else [])], stores)
        return Nest(self._rows(rows, body) if rows else body, [])

    def _is_wide(self, axis: Symbol) -> bool:
        size = self.pool.sizes[axis]
        return not isinstance(size, Const) or int(size) >= 2 * SCATTER_BLOCK

    def _is_apart(self, piece: Piece, axis: Symbol) -> bool:
        """Whether an element's place tells the axis: the other parts of it are multiples of what the axis covers, or
        are together less than one of its steps."""
        table = linear(piece.place.index, frozenset(piece.kept))
        if axis in table.rest.free_symbols:
            return False
        step = table.strides[axis]
        covered = step * self.pool.sizes[axis]
        less: Expr = ZERO
        for other, stride in table.strides.items():
            if other is not axis and not self._is_multiple(stride, covered):
                less = less + stride * (self.pool.sizes[other] - 1)
        bounds = {symbol: _upper(value) for symbol, value in zip(piece.place.indirect, piece.args, strict=False)}
        for monomial, factor in _terms(table.rest):
            parts = (monomial * factor, _coefficient(monomial, factor, bounds))
            if any(self._is_multiple(part, covered) for part in parts):
                continue
            bound = bounds.get(monomial) if isinstance(monomial, Symbol) else None
            if bound is None or factor < 0:
                return False
            less = less + bound * factor
        return self.pool.facts.decide(less < step) is True

    def _is_multiple(self, whole: Expr, part: Expr) -> bool:
        return part is not ZERO and self.pool.simplify(whole % part) is ZERO


def _terms(expr: Expr) -> list[tuple[Expr, int]]:
    """A sum as products of symbols with numbers, without the constant."""
    if isinstance(expr, Sum):
        return list(expr.terms)
    return [] if isinstance(expr, Const) else [(expr, 1)]


def _coefficient(monomial: Expr, factor: int, indirect: Mapping[Symbol, Expr | None]) -> Expr:
    """What a computed index is multiplied with."""
    result: Expr = shapes.const(factor)
    for base, exponent in monomial.factors if isinstance(monomial, Product) else ((monomial, 1),):
        if base not in indirect:
            result = result * base**exponent
    return result if any(symbol in indirect for symbol in monomial.free_symbols) else ONE


def _upper(value: Value) -> Expr | None:
    """The most that a computed index can be, where it was clamped."""
    if value.op != "max" or value.args[1].op != "const" or value.args[1].data != 0:
        return None
    inner = value.args[0]
    last = inner.args[1] if inner.op == "min" else None
    if last is None or last.op not in ("const", "index"):
        return None
    return shapes.as_expr(last.data)


LEAST_REDUCED = 8
"""Elements from which on a reduction is worth vectors of its own."""


def contiguous_axis(pieces: Sequence[Piece], pool: AxisPool) -> Symbol | None:
    """The axis along which most of memory is read and written in order."""
    votes: dict[Symbol, float] = {}
    everything = frozenset(axis for piece in pieces for axis in piece.kept + piece.reduced)
    own = {piece.buffer for piece in pieces}
    for piece in pieces:
        read = dict.fromkeys([_reach(node.data, node.args, everything) for value in piece.values()
                              for node in loads(value) if node.data.buffer not in own])
        accesses = [(access, 1.0) for access in read]
        if piece.external:
            accesses.append((_reach(piece.place, piece.args, everything), 1.5))
        for (expr, along), weight in accesses:
            table = linear(expr, everything)
            steps = {axis: abs(int(stride)) for axis, stride in table.strides.items()
                     if isinstance(stride, Const) and axis not in table.rest.free_symbols}
            nearest = min(steps.values(), default=0)
            if not 1 <= nearest <= NEAR:
                continue
            points = 1.0
            for other in along:
                points *= max(1, estimate(pool.sizes[other]))
            for axis, step in steps.items():
                if step == nearest:
                    votes[axis] = votes.get(axis, 0.0) + weight * points / step
    if not votes:
        last = [piece.kept[-1] for piece in pieces if piece.kept]
        return last[-1] if last else None
    return max(votes, key=lambda axis: votes[axis])


def _reach(place: Place, args: Sequence[Value], axes: frozenset[Symbol]) -> tuple[Expr, frozenset[Symbol]]:
    """An index, and the axes along which it reaches other elements, also by what was computed for it."""
    used = place.index.free_symbols
    for value in args[: len(place.indirect)]:
        used = used.union(*[expr.free_symbols for expr in expressions(value)])
    return place.index, used & axes


def contiguous_reduction(pieces: Sequence[Piece], near: Symbol, pool: AxisPool) -> Symbol | None:
    """A reduced axis along which a reduction reads everything in order, where along ``near`` it would read single
    elements: small tables that are read again and again, as for the distances of all pairs of their rows."""
    for piece in pieces:
        if piece.reduce is None or near not in piece.kept or any(
                other is not piece and set(piece.reduced) & {*other.kept, *other.reduced} for other in pieces):
            continue
        tables = [linear(expr, frozenset(piece.kept + piece.reduced)) for expr in _loaded(piece)]
        for axis in piece.reduced:
            steps = [table.stride(axis) for table in tables]
            if ONE in steps and estimate(pool.sizes[axis]) >= LEAST_REDUCED \
                    and all(step in (ZERO, ONE) for step in steps) \
                    and any(table.stride(near) not in (ZERO, ONE) for table in tables):
                return axis
    return None


def _loaded(piece: Piece, without: set[str] | None = None) -> list[Expr]:
    indices: dict[Expr, None] = {}
    for value in piece.values():
        for node in loads(value):
            if not (without and node.data.buffer in without):
                indices.setdefault(node.data.index)
    return list(indices)


def identity(kind: str, dtype: torch.dtype) -> bool | int | float:
    """What a reduction starts from."""
    if kind in ("sum", "any", "xor"):
        return 0
    if kind in ("prod", "all"):
        return 1
    if dtype is torch.bool:
        return kind == "min"
    if dtype.is_floating_point:
        return float("-inf") if kind == "max" else float("inf")
    limits = torch.iinfo(dtype)
    return limits.min if kind == "max" else limits.max


def _scalars(plan: Plan) -> set[str]:
    """The steps that have a local for the whole row."""
    single_use = len(plan.phases) == sum(phase.kind == "scalar" for phase in plan.phases)
    names = set()
    for step in plan.steps.values():
        if not step.inner and step.phase >= 0 and step.reads:
            uses = step.reads + step.piece.external
            if step.is_reduction or not single_use or uses > 1 or _feeds_reduction(plan, step):
                names.add(step.name)
    return names


def _feeds_reduction(plan: Plan, step: Step) -> bool:
    return any(other.is_reduction and other.phase > step.phase for other in plan.steps.values())


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _stores_only(loop: ir.Loop) -> bool:
    return all(
        _stores_only(statement) if isinstance(statement, ir.Loop) else isinstance(statement, ir.Store | ir.Assign)
        for statement in loop.body
    )
