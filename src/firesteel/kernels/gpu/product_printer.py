"""A matrix product of the loop IR, with what is computed from its result, as Triton source for the matrix units.

    parallel for i0 < 512:                         pm, pn = the tile of this program
        parallel for i1 < 768:                     a0_float32 = tl.zeros([128, 128], tl.float32)
            a0_float32 = dot(i2 < 64)              for i2_start in range(0, 64, 64):
                mul(load(x), load(w))                  t0 = tl.load(x + ...)     128 x 64
            out[...] = relu(a0_float32)                t1 = tl.load(w + ...)      64 x 128
                                                       a0_float32 = tl.dot(t0, t1, a0_float32)
                                                   tl.store(out + ..., ...)

Axes that only the left operand knows are rows of the result, those of the right one its columns; those of both are
batches. Operands are short floats, their products are added up in float32.

A tile that reaches beyond the matrix reads its last row or column again, or zeros where elements lie side by side
along that side; what it computes there is not stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from ... import shapes
from ...functional.graph import Unsupported
from ...records import dataclass
from ...shapes import Const, Expr, Symbol
from ...shapes.expr import ONE
from .. import ir
from ..ir import Axis, Kernel, Loop, Reduce, Value
from ..scheduling.indices import linear
from .blocks import LIKELY, Blocks
from .lanes import size_of as _size
from .product import tile_product
from .statements import bound_of, rows_of
from .tiles import Tiles, choose_tiles, read_tiles
from .triton_printer import TritonKernel, _Printer
from .values import types_of

MOST_UNROLLED = 4
"""Iterations that the assembler may unroll."""
Side = Literal["left", "right", "result"]


@dataclass(frozen=True)
class Product:
    """The parts of a kernel that is a matrix product."""

    sum: Reduce
    left: Value
    right: Value
    batch: list[Axis]
    rows: list[Axis]
    columns: list[Axis]
    rest: Sequence[ir.Statement]
    """What is done with the result."""

    @property
    def inner(self) -> Axis:
        return self.sum.axes[0]

    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns and the length of the sums; a large number for what is not known."""
        m, n, k = [bound_of(_size(axes)) or LIKELY for axes in (self.rows, self.columns, [self.inner])]
        return m, n, k


def is_product(kernel: Kernel) -> bool:
    """Whether a kernel is a matrix product."""
    return any(isinstance(statement, Reduce) and statement.kind == "dot" for statement in rows_of(kernel.body)[1])


def product_of(kernel: Kernel) -> Product:
    """The parts of a product. Raises `Unsupported` for one that does more than `print_product` can print."""
    axes, body = rows_of(kernel.body)
    sums = [statement for statement in body if isinstance(statement, Reduce)]
    rest = [statement for statement in body if not isinstance(statement, Reduce)]
    if len(sums) != 1 or len(sums[0].axes) != 1 or any(isinstance(statement, Loop | ir.Scan) for statement in rest):
        raise Unsupported("a product among other loops")
    value = sums[0].value
    if value.op != "mul" or value.dtype is not torch.float32:
        raise Unsupported(f"a product of {value.op}")
    left, right = map(_narrow, value.args)
    of_left, of_right = _symbols(left), _symbols(right)
    batch = [axis for axis in axes if axis.symbol in of_left and axis.symbol in of_right]
    rows = [axis for axis in axes if axis not in batch and axis.symbol not in of_right]
    columns = [axis for axis in axes if axis not in batch and axis.symbol in of_right]
    if not columns:
        raise Unsupported("a product with a vector")
    return Product(sums[0], left, right, batch, rows, columns, rest)


def _narrow(operand: Value) -> Value:
    """An operand as the matrix units take it: before it is made longer."""
    if operand.op != "cast" or operand.args[0].dtype not in (torch.float16, torch.bfloat16):
        raise Unsupported(f"a product of {operand.dtype}")
    if any(node.op == "local" for node in operand.walk()):
        raise Unsupported("a product of what its own row computes")
    return operand.args[0]


def _symbols(value: Value) -> set[Symbol]:
    symbols: set[Symbol] = set()
    for node in value.walk():
        if node.op in ("load", "index"):
            symbols |= (node.data.index if node.op == "load" else node.data).free_symbols
    return symbols


def print_product(kernel: Kernel, tiles: Tiles | None = None, narrow: bool = False) -> TritonKernel:
    """Print a product. Raises `Unsupported` for what has no Triton here."""
    product = product_of(kernel)
    tiles = tiles or _measured(kernel) or choose_tiles(*product.sizes())
    printer = _ProductPrinter(kernel, product, tiles, False if narrow else None)
    programs = printer.program()
    types = types_of(kernel, "i32" if narrow else "i64")
    return TritonKernel(kernel.name, printer.source(), programs, types, tiles.warps, stages=tiles.stages)


def _measured(kernel: Kernel) -> Tiles | None:
    """The tiles that the operator names which the kernel was made from."""
    for node in kernel.origins:
        if getattr(node, "target", None) is tile_product and len(node.args) == 4:
            return read_tiles(node.args[3])
    return None


class _ProductPrinter(_Printer):
    def __init__(self, kernel: Kernel, product: Product, tiles: Tiles, wide: bool | None) -> None:
        super().__init__(kernel, Blocks(tiles.m, tiles.n, 0, tiles.warps), wide)
        self.product = product
        self.tiles = tiles

    def program(self) -> Expr:
        """All lines; the number of programs."""
        product, tiles = self.product, self.tiles
        m, n, k = _size(product.rows), _size(product.columns), product.inner.size
        high, across = (m + (tiles.m - 1)) // tiles.m, (n + (tiles.n - 1)) // tiles.n
        self._place_of_program(high, across)
        self.line(f"m = pm * {tiles.m} + tl.arange(0, {tiles.m})[:, None]")
        self.line(f"n = pn * {tiles.n} + tl.arange(0, {tiles.n})[None, :]")
        whole = {"m": _divides(tiles.m, m), "n": _divides(tiles.n, n), "k": _divides(tiles.k, k)}
        for side, size, axes in (("m", m, product.rows), ("n", n, product.columns)):
            if axes and not whole[side]:
                self.line(f"{side}_mask = {side} < {self.indices.print(size)}")
                self.line(f"{side}_inside = tl.minimum({side}, {self.indices.wrap(size, 13)} - 1)")
                self._name(axes, f"{side}_inside", "_inside")
            self._name(axes, side, "")
        name, inner = product.sum.name, product.inner.symbol.name
        self.line(f"{name} = tl.zeros([{tiles.m}, {tiles.n}], tl.float32)")
        end = self.indices.print(k)
        if isinstance(k, Const) and int(k) > MOST_UNROLLED * tiles.k:
            # There is one program along this side. The assembler does not know that, and so does not unroll the loop
            # to the end, which takes three times as long and gains nothing.
            end = f"{end} + {tiles.k} * tl.program_id(1)"
        with self.block(f"for {inner}_start in range(0, {end}, {tiles.k}):"):
            self.line(f"{inner} = {inner}_start + tl.arange(0, {tiles.k})")
            left = self._operand("left", product.left, whole)
            right = self._operand("right", product.right, whole)
            self.line(f"{name} = tl.dot({left}, {right}, {name})")
        if not product.rows:
            self.line(f"{name} = tl.sum(tl.where(m == 0, {name}, 0), 0)[None, :]")  # all rows of the tile are this one
        self._enter("result", {}, None if whole["m"] or not product.rows else "m_mask",
                    None if whole["n"] else "n_mask")
        self.lane_locals.add(name)
        self.statements(product.rest)
        return high * across * _size(product.batch)

    def _place_of_program(self, high: Expr, across: Expr) -> None:
        """Which tile a program computes: those of some rows of tiles one column after the other, then the next rows."""
        group, rows, columns = self.tiles.group, self.indices.wrap(high, 13), self.indices.wrap(across, 13)
        self.line(f"p = {self._program()}")
        if self.product.batch:
            self.line(f"batch = p // ({rows} * {columns})")
            self.line(f"p = p % ({rows} * {columns})")
            self._digits("batch", self.product.batch)
        if isinstance(high, Const) and int(high) <= group:
            self.line(f"pm = p % {rows}")
            self.line(f"pn = p // {rows}")
            return
        self.line(f"first = p // ({group} * {columns}) * {group}")
        self.line(f"high = tl.minimum({rows} - first, {group})")
        self.line(f"pm = first + p % ({group} * {columns}) % high")
        self.line(f"pn = p % ({group} * {columns}) // high")

    def _name(self, axes: Sequence[Axis], whole: str, ending: str) -> None:
        """The loop variables of one side of the result, from the row or column."""
        if axes:
            self._digits(whole, [Axis(shapes.symbol(axis.symbol.name + ending), axis.size) for axis in axes])

    def _enter(self, side: Side, names: dict[Symbol, str], rows: str | None, lanes: str | None) -> None:
        """What follows is of the shape of an operand or of the result."""
        product, tiles = self.product, self.tiles
        high = tiles.m if product.rows else 1
        shape = {"left": (tiles.m, tiles.k), "right": (tiles.k, tiles.n), "result": (high, tiles.n)}[side]
        down = [product.inner] if side == "right" else product.rows
        along = [product.inner] if side == "left" else product.columns
        self.names.clear()
        self.names.update(names)
        self.known = {}
        self.row_axes, self.lane_axes = frozenset([axis.symbol for axis in down]), [axis.symbol for axis in along]
        self.row_mask, self.lane_mask = rows, lanes
        self.lanes = f"[{shape[0]}, {shape[1]}]"

    def _operand(self, side: Literal["left", "right"], value: Value, whole: dict[str, bool]) -> str:
        """A tile of an operand."""
        product, own = self.product, "m" if side == "left" else "n"
        axes = product.rows if side == "left" else product.columns
        inner = product.inner.symbol
        lying = "[None, :]" if side == "left" else "[:, None]"
        names = {inner: f"{inner.name}{lying}"}
        beyond = None
        if not whole[own]:
            if _is_near(value, axes):
                beyond = f"{own}_mask"
            else:
                names.update({axis.symbol: f"{axis.symbol.name}_inside" for axis in axes})
        ends = None if whole["k"] else f"({inner.name} < {self.indices.print(product.inner.size)}){lying}"
        masks = (beyond, ends) if side == "left" else (ends, beyond)
        self._enter(side, names, *masks)
        text = self.value(value)
        if not axes or value.op != "load":
            text = f"tl.broadcast_to({text}, {self.lanes})"
            if value.op != "load" and ends is not None:
                text = f"tl.where({ends}, {text}, 0)"
        return text


def _divides(tile: int, size: Expr) -> bool:
    return isinstance(size, Const) and int(size) % tile == 0


def _is_near(value: Value, axes: Sequence[Axis]) -> bool:
    """Whether elements lie side by side along the last of these axes."""
    everything = frozenset(_symbols(value))
    return any(linear(node.data.index, everything).strides.get(axes[-1].symbol) is ONE
               for node in value.walk() if node.op == "load") if axes else False
