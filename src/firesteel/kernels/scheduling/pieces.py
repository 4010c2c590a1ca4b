"""A group in its final form: values over shared loop variables and numbered buffers, and adjacent axes joined.

Groups that look the same give equal pieces, whatever their buffers are called, and so share one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from ... import shapes
from ...records import dataclass
from ...shapes import Call, Const, Expr, Symbol
from ...shapes.expr import ZERO
from ..ir import SCANS, Buffer, Place, Value
from .groups import Group, Member
from .indices import AxisPool, Linear, linear, substitute
from .values import expressions, rename_place, rewrite

ORDERED = frozenset({"argmax", "argmin"})
"""Reductions whose result depends on the order of the axes."""


@dataclass(frozen=True)
class Piece:
    """A computation with everything named by its place in the group."""

    place: Place
    dtype: torch.dtype
    kept: tuple[Symbol, ...]
    reduced: tuple[Symbol, ...]
    value: Value
    reduce: str | None
    args: tuple[Value, ...]
    mode: str
    external: bool
    """Whether the buffer is needed outside the group."""

    @property
    def buffer(self) -> str:
        return self.place.buffer

    def values(self) -> tuple[Value, ...]:
        return (self.value, *self.args)

    def expressions(self) -> list[Expr]:
        """All index expressions."""
        return [self.place.index, *[expr for value in self.values() for expr in expressions(value)]]

    def substitute(self, axes: dict[Symbol, Expr], pool: AxisPool, renamed: dict[Symbol, tuple[Symbol, ...]]) -> Piece:
        """The piece over other axes; ``renamed`` says what the axes in its lists become."""
        memo: dict[Value, Value] = {}
        index = pool.simplify(substitute(self.place.index, axes))

        def listed(old: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
            return tuple([new for axis in old for new in renamed.get(axis, (axis,))])

        return replace(
            self,
            place=Place(self.place.buffer, index, self.place.indirect, self.place.masked),
            kept=listed(self.kept),
            reduced=listed(self.reduced),
            value=rewrite(self.value, axes, memo, pool),
            args=tuple([rewrite(value, axes, memo, pool) for value in self.args]),
        )


@dataclass(frozen=True)
class Recipe:
    """All pieces of a kernel and the axes along which they are independent: equal recipes are equal kernels."""

    pieces: tuple[Piece, ...]
    rows: tuple[Symbol, ...]


@dataclass(frozen=True)
class Binding:
    """What the names in a recipe stand for."""

    buffers: dict[str, str]
    """Name in the recipe to buffer."""
    numbers: dict[Symbol, Expr]


def recipe_of(
    group: Group, buffers: dict[str, Buffer], is_external: Callable[[Member], bool], pool: AxisPool
) -> tuple[Recipe, Binding]:
    """A group without the names of its buffers."""
    names: dict[str, str] = {}
    counts = {"in": 0, "out": 0, "tmp": 0}
    numbers: dict[Expr, Symbol] = {}
    external = {member.buffer: is_external(member) for member in group.members}

    def name_of(buffer: str) -> str:
        name = names.get(buffer)
        if name is None:
            kind = "in" if buffer not in external else "out" if external[buffer] else "tmp"
            name = names[buffer] = f"{kind}{counts[kind]}"
            counts[kind] += 1
        return name

    def renamed(value: Value) -> Value | None:
        if value.op == "number":
            number = numbers.get(value.data)
            if number is None:
                number = numbers[value.data] = shapes.symbol(f"n{len(numbers)}", "float")
            return Value("number", value.dtype, (), number)
        place = rename_place(value.data, name_of(value.data.buffer))
        return Value("load", value.dtype, value.args, place)

    pieces = []
    for member in group.members:
        computation = member.computation
        memo: dict[Value, Value] = {}
        value = rewrite(computation.value, member.axes, memo, pool, renamed)
        args = tuple([rewrite(arg, member.axes, memo, pool, renamed) for arg in computation.args])
        place = computation.place
        place = rename_place(Place(place.buffer, member.store, place.indirect, place.masked), name_of(place.buffer))
        pieces.append(
            Piece(place, buffers[member.buffer].element, member.kept, member.reduced, value, computation.reduce, args,
                  computation.mode, external[member.buffer])
        )  # fmt: skip
    return Recipe(tuple(pieces), group.rows), Binding(
        {name: buffer for buffer, name in names.items()}, {symbol: expr for expr, symbol in numbers.items()}
    )


LEAST_INNER = 16
"""A loop that is cut out of a longer one is to have some vectors of work."""


def cut(recipe: Recipe, pool: AxisPool) -> Recipe:
    """Cut axes in two where indices take them apart, so that vectors read what lies side by side.

    before: out[g0] = load(in, g0 % 8 + 16*(g0//8))    g0 < 24
    after:  out[8*g0 + g1] = load(in, 16*g0 + g1)      g0 < 3, g1 < 8
    """
    for number in range(3):
        parted = _parted(recipe, pool)
        if parted is None:
            break
        axis, inner = parted
        outer = pool.axis(24 + number, pool.sizes[axis] // inner)
        inside = pool.axis(28 + number, shapes.const(inner))
        whole: dict[Symbol, Expr] = {axis: outer * inner + inside}
        renamed: dict[Symbol, tuple[Symbol, ...]] = {axis: (outer, inside)}
        rows = tuple([new for row in recipe.rows for new in renamed.get(row, (row,))])
        recipe = Recipe(tuple([piece.substitute(whole, pool, renamed) for piece in recipe.pieces]), rows)
    return recipe


def _parted(recipe: Recipe, pool: AxisPool) -> tuple[Symbol, int] | None:
    """An axis of which indices take the rest of a division by a number that its size is a multiple of."""
    ordered = {axis for piece in recipe.pieces if piece.reduce in ORDERED or piece.reduce in SCANS
               for axis in piece.reduced}
    used = {axis for piece in recipe.pieces for axis in piece.kept + piece.reduced} - ordered
    needed = frozenset[Symbol]().union(*[pool.sizes[axis].free_symbols for axis in used])
    for expr in dict.fromkeys([e for piece in recipe.pieces for e in piece.expressions()]):
        for call in _rests(expr):
            axis, divisor = call.operands
            if isinstance(axis, Symbol) and axis in used and axis not in needed and isinstance(divisor, Const):
                size, inner = pool.sizes[axis], int(divisor)
                if isinstance(size, Const) and inner >= LEAST_INNER and int(size) % inner == 0 and int(size) > inner:
                    return axis, inner
    return None


def _rests(expr: Expr) -> Iterator[Call]:
    if isinstance(expr, Call) and expr.op == "mod":
        yield expr
    for part in expr.args:
        yield from _rests(part)


def collapse(recipe: Recipe, pool: AxisPool) -> Recipe:
    """Join axes that every index steps through as if they were one.

    before: out[8*g0 + g1] = load(in, 8*g0 + g1)    g0 < 3, g1 < 8
    after:  out[g2] = load(in, g2)                  g2 < 24
    """
    pieces = recipe.pieces
    axes = list(dict.fromkeys([axis for piece in pieces for axis in piece.kept + piece.reduced]))
    if len(axes) < 2:
        return recipe
    everything = frozenset(axes)
    tables = [linear(expr, everything) for expr in dict.fromkeys([e for piece in pieces for e in piece.expressions()])]
    replaced: dict[Symbol, Expr] = {}
    renamed: dict[Symbol, tuple[Symbol, ...]] = {}
    size = {axis: pool.sizes[axis] for axis in axes}
    # An axis that the sizes of others depend on stays as it is.
    needed = frozenset[Symbol]().union(*[extent.free_symbols for extent in size.values()])
    axes = [axis for axis in axes if axis not in needed]
    # A joined axis keeps the symbol of its innermost part until all joins are known.
    joined = {axis: [axis] for axis in axes}
    changed = True
    while changed:
        changed = False
        for outer in list(joined):
            for inner in list(joined):
                if outer is not inner and _joins(outer, inner, recipe, tables, size, joined, pool):
                    joined[inner] = joined.pop(outer) + joined[inner]
                    size[inner] = size[outer] * size[inner]
                    changed = True
                    break
    number = len(axes) + 8
    for axis, parts in joined.items():
        if len(parts) > 1:
            new = pool.axis(number, size[axis])
            number += 1
            replaced.update({part: ZERO for part in parts})
            renamed.update({part: () for part in parts})
            replaced[axis], renamed[axis] = new, (new,)
    if not replaced:
        return recipe
    new_pieces = tuple([piece.substitute(replaced, pool, renamed) for piece in pieces])
    rows = tuple([new for axis in recipe.rows for new in renamed.get(axis, (axis,))])
    return Recipe(new_pieces, rows)


def _joins(
    outer: Symbol, inner: Symbol, recipe: Recipe, tables: list[Linear], size: dict[Symbol, Expr],
    joined: dict[Symbol, list[Symbol]], pool: AxisPool,
) -> bool:  # fmt: skip
    if (outer in recipe.rows) != (inner in recipe.rows) or size[inner].free_symbols & pool.sizes.keys():
        return False
    for table in tables:
        near, far = table.stride(inner), table.stride(outer)
        if near is None or far is None or (near is ZERO) != (far is ZERO):
            return False
        if near is not ZERO and not pool.same(far, near * size[inner]):
            return False
    for piece in recipe.pieces:
        if (outer in piece.kept) != (inner in piece.kept) or (outer in piece.reduced) != (inner in piece.reduced):
            return False
        if piece.reduce in ORDERED and outer in piece.reduced:
            places = [piece.reduced.index(part) for part in joined[outer] + joined[inner]]
            if places != list(range(places[0], places[0] + len(places))):
                return False
    return True
