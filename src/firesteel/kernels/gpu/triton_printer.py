"""A kernel of the loop IR as Triton source.

    kernel k0(in0: f32, out0: f32):            @triton.jit
        parallel for i0 < 128:                 def k0(in0, out0):
            a0 = max(i1 < 64) load(...)            x = tl.program_id(0) * 16 + tl.arange(0, 16)[:, None]
            for i1 < 64:                           i0 = x
                out0[...] = ...                    i1 = tl.arange(0, 64)[None, :]
                                                   t0 = tl.load(in0 + (64*i0 + i1))
                                                   a0 = tl.reduce(t0, 1, maximum)[:, None]
                                                   ...
                                                   tl.store(out0 + (64*i0 + i1), ...)

The parallel loops are the rows: a program takes a block of them. Inside, what is done once for a row has the shape
[rows, 1], and a loop or reduction has lanes, [rows, lanes]: all at once where its length is known and short enough,
block after block where it is not. What one loop keeps in memory for the next (a scratch row, an output that is read
again) stays in registers when the loop is one block; a scratch row that is longer is computed again.

A kernel that does nothing but store at every point has one long row index, or, for transposed access, two.

Not handled: scratch memory read at other places than where it was written.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import replace

import torch

from ... import shapes
from ...functional.graph import Unsupported
from ...records import dataclass
from ...shapes import Const, Expr, Symbol
from .. import ir
from ..ir import Axis, Kernel, Loop, Place, Reduce, Store, Value
from .blocks import Blocks, choose_blocks
from .divisions import exponential_beside_one
from .lanes import LanePrinter
from .lanes import size_of as _size
from .loops import Together, find_together
from .operation_rules import DTYPES
from .pairs import Pair, end_lines, find_pair, start_lines, step_lines
from .scans import carried, scanning
from .scatters import atomic
from .short_floats import at_once, loose_values, shortcut
from .statements import axes_of, flat_nest, is_wide, loaded, nest_of, renamed, rows_of, stored
from .values import HELPERS, TritonIndexPrinter, constant, identity, operation, types_of

_COMBINE = {
    "sum": "{a} + {b}", "prod": "{a} * {b}", "max": "maximum({a}, {b})", "min": "minimum({a}, {b})",
    "xor": "{a} ^ {b}", "any": "{a} | {b}", "all": "{a} & {b}",
}  # fmt: skip
_FUNCTION = {"prod": "product", "max": "maximum", "min": "minimum", "xor": "exclusive", "any": "either", "all": "both"}
_LANE = shapes.symbol("lane")
_WHOLE = shapes.symbol("x")


@dataclass(frozen=True)
class TritonKernel:
    """Source and what a launch needs."""

    name: str
    source: str
    programs: Expr
    """How many programs run."""
    types: tuple[str, ...]
    """The parameters in Triton's notation: buffers, then sizes, then numbers."""
    warps: int
    stages: int = 3
    """How many iterations ahead a loop loads what it multiplies."""
    even: tuple[int, ...] = ()
    """The parameters, by their positions, that are taken to be multiples of 16 beside the addresses of buffers."""
    wide: TritonKernel | None = None
    """Of a kernel whose indices have 32 bits and whose sizes are not known: the one with 64 bits."""
    extent: Expr | None = None
    """How far the indices of such a kernel reach: the other one is needed from `versions.LIMIT` on."""


def called(kernel: TritonKernel, name: str) -> TritonKernel:
    """The same kernel under another name, which profilers of the GPU show."""
    wide = None if kernel.wide is None else called(kernel.wide, name)
    return replace(kernel, name=name, source=kernel.source.replace(f"def {kernel.name}(", f"def {name}("), wide=wide)


def print_triton(kernel: Kernel, blocks: Blocks | None = None, narrow: bool = False) -> TritonKernel:
    """Print a kernel, with ``narrow`` for indices of 32 bits whatever its sizes. Raises `Unsupported` for what has no
    Triton here."""
    from .product_printer import is_product, print_product

    if is_product(kernel):
        return print_product(kernel, narrow=narrow)
    printer = _Printer(kernel, blocks or choose_blocks(kernel), False if narrow else None)
    nest = flat_nest(kernel.body)
    if nest is not None:
        programs = printer.flat(*nest)
    else:
        programs = printer.rows()
    types = types_of(kernel, "i32" if narrow else "i64")
    return TritonKernel(kernel.name, printer.source(), programs, types, printer.blocks.warps)


@dataclass(frozen=True)
class _Kept:
    """What a loop stored, for the next one: in registers, or how to compute it again."""

    index: Expr
    """Where, with `_LANE` in the place of the loop's variable."""
    value: Value
    axis: Symbol
    register: str | None
    lanes: str | None = None
    """The shape of the register."""


class _Printer(LanePrinter):
    def __init__(self, kernel: Kernel, blocks: Blocks, wide: bool | None = None) -> None:
        super().__init__(kernel, blocks, is_wide(kernel) if wide is None else wide)
        self.lane_locals: set[str] = set()
        self.handed: frozenset[str] = frozenset()
        """What one loop of several that are run as one hands on to the next."""
        self.whole_index: Expr | None = None
        """Of a flat kernel, the one long index as its loop variables make it."""
        self.scratch = {part.name: part for part in kernel.scratch}
        self.loose = loose_values(kernel.body)
        self.kept: dict[str, _Kept] = {}
        # What is computed with sizes as values may be larger than any index.
        sizes = {} if self.wide else {size: f"{size.name}.to(tl.int64)" for size in kernel.sizes}
        self.long_indices = TritonIndexPrinter(ChainMap(sizes, self.names), self.helper, kernel.signed)
        writes = {place.buffer for place in stored(kernel.body)}
        self.read_again = {place.buffer for place in loaded(kernel.body)} & writes

    def source(self) -> str:
        parameters = [buffer.name for buffer in self.kernel.buffers]
        parameters += [symbol.name for symbol in (*self.kernel.sizes, *self.kernel.numbers)]
        head = ["import triton", "import triton.language as tl", "from triton.language.extra import libdevice"]
        for name in self.used:
            parts, text = HELPERS[name]
            head += ["", "", "@triton.jit", f"def {name}({parts}):", f"    {text}"]
        head += ["", "", "@triton.jit", f"def {self.kernel.name}({', '.join(parameters)}):"]
        return "\n".join([*head, *self.lines]) + "\n"

    # The forms

    def flat(self, axes: Sequence[Axis], body: Sequence[ir.Statement], tiled: bool) -> Expr:
        if tiled and self.blocks.second:
            return self._tiles(axes, body)
        total = _size(axes)
        block = self.blocks.rows
        self.line(f"x = {self._program()} * {block} + tl.arange(0, {block})")
        self._rows_end(total, block)
        self.lanes, self.lane_mask, self.row_mask = f"[{block}]", self.row_mask, None
        self.lane_axes = [axis.symbol for axis in axes]
        self._digits("x", axes)
        if len(axes) > 1:
            self.whole_index = shapes.const(0)
            for axis in axes:
                self.whole_index = self.whole_index * axis.size + axis.symbol
        self.statements(body)
        return (total + (block - 1)) // block

    def _tiles(self, axes: Sequence[Axis], body: Sequence[ir.Statement]) -> Expr:
        """Blocks of two axes, both of which are near in some memory."""
        *outer, second, near = axes
        down, across = self.blocks.second, self.blocks.rows
        columns, rows = (near.size + (across - 1)) // across, (second.size + (down - 1)) // down
        self.line(f"p = {self._program()}")
        self.line(f"q = p // {self.indices.wrap(columns, 13)}")
        self.line(f"{near.symbol.name} = (p % {self.indices.wrap(columns, 13)}) * {across} + "
                  f"tl.arange(0, {across})[None, :]")
        part = "q" if not outer else f"(q % {self.indices.wrap(rows, 13)})"
        self.line(f"{second.symbol.name} = {part} * {down} + tl.arange(0, {down})[:, None]")
        if outer:
            self.line(f"outer = q // {self.indices.wrap(rows, 13)}")
            self._digits("outer", outer)
        for axis, name, block in ((near, "lane_mask", across), (second, "row_mask", down)):
            if not (isinstance(axis.size, Const) and int(axis.size) % block == 0):
                self.line(f"{name} = {axis.symbol.name} < {self.indices.print(axis.size)}")
                setattr(self, name, name)
        self.lanes, self.lane_axes = f"[{down}, {across}]", [near.symbol]
        self.row_axes = frozenset({second.symbol})
        self.statements(body)
        return columns * rows * _size(outer)

    def rows(self) -> Expr:
        axes, body = rows_of(self.kernel.body)
        total = _size(axes)
        if total.free_symbols & {axis.symbol for axis in axes}:
            raise Unsupported("a number of programs that depends on the program")
        block = self.blocks.rows
        near = axes[-1] if axes else None
        if near is not None and len(axes) > 1 and block > 1 and isinstance(near.size, Const) \
                and int(near.size) % block == 0:
            # Rows of one program differ in the innermost axis only: what depends on the others is one number.
            self.line(f"x = {self._program()} * {block}")
            self.line(f"{near.symbol.name} = tl.multiple_of(x % {int(near.size)}, {block}) + "
                      f"tl.arange(0, {block})[:, None]")
            self.line(f"x_above = x // {int(near.size)}")
            self._digits("x_above", axes[:-1])
            self.row_axes = frozenset([near.symbol])
        elif axes:
            self.line(f"x = {self._program()} * {block} + tl.arange(0, {block})[:, None]")
            self._rows_end(total, block)
            self._digits("x", axes)
            self.row_axes = frozenset([axis.symbol for axis in axes])
        self._begin_row()
        self.statements(body)
        return (total + (block - 1)) // block if axes else total

    # Statements

    def statements(self, body: Sequence[ir.Statement]) -> None:
        done: list[ir.Statement] = []
        for number, statement in enumerate(body):
            if any(statement is one for one in done):
                continue
            pair = find_pair(body, number, self.scratch) if isinstance(statement, Reduce) else None
            if pair is not None and self.lanes is None and not self._is_whole(pair.first.axes):
                self._reduce_pair(pair)
                done.append(pair.second)
                continue
            group = find_together(body, number, _COMBINE, self.scratch) if self.lanes is None else None
            if group is not None and not self._is_whole(group.axes):
                self._run_together(group, body)
                done += [*group.members, *group.later]
                continue
            match statement:
                case ir.Assign():
                    text = self.value(statement.value)
                    self.line(f"{statement.name} = {text}")
                    if self.lanes is not None:
                        self.lane_locals.add(statement.name)
                case Store():
                    self.store(statement)
                case Reduce():
                    self.reduce(statement)
                case ir.Scan():
                    self.scan(statement)
                case Loop():
                    self.loop(statement)
                case _:
                    raise Unsupported(type(statement).__name__)

    def loop(self, loop: Loop) -> None:
        if self.lanes is not None:
            raise Unsupported("a loop inside a block of lanes")
        axes, body = nest_of(loop)
        if any(isinstance(inner, Loop | Reduce | ir.Scan) for inner in body):
            raise Unsupported("several loops inside a row's loop")
        body = self._not_computed_again(axes, body)
        if not body:
            return
        for _ in self.passes(axes):
            self.statements(body)
        if any(place.buffer in self.read_again and not self._in_registers(place, loop) for place in stored(body)):
            self.line("tl.debug_barrier()")  # others of this program read what was written

    def _not_computed_again(self, axes: Sequence[Axis], body: Sequence[ir.Statement]) -> Sequence[ir.Statement]:
        """A loop without those scratch rows it fills that are longer than a block: who reads them computes them."""
        stores = [s for s in body if isinstance(s, Store) and s.place.buffer in self.scratch and s.mode == "set"]
        if self._is_whole(axes) or len(axes) != 1 or any(isinstance(s, ir.Assign) for s in body):
            return body
        axis = axes[0].symbol
        for store in stores:
            index = store.place.index.substitute({axis: _LANE})
            self.kept[store.place.buffer] = _Kept(index, store.value, axis, None)
        return [statement for statement in body if not any(statement is store for store in stores)]

    def _in_registers(self, place: Place, loop: Loop) -> bool:
        """Whether all that is read of a buffer outside of the loop that fills it is in registers."""
        kept = self.kept.get(place.buffer)
        if place.buffer in self.scratch or kept is None or kept.register is None:
            return place.buffer in self.scratch
        axes = nest_of(loop)[0]
        for other in rows_of(self.kernel.body)[1]:
            reads = [read for read in loaded([other]) if read.buffer == place.buffer] if other is not loop else []
            along = axes_of(other)
            if reads and (len(along) != 1 or along[0].size is not axes[0].size or any(
                    read.index.substitute({along[0].symbol: _LANE}) is not kept.index for read in reads)):
                return False
        return True

    # Reductions

    def reduce(self, reduce: Reduce) -> None:
        if self.lanes is not None:
            raise Unsupported(f"{reduce.kind} inside a block of lanes")
        if reduce.kind in ("argmax", "argmin"):
            return self._find(reduce)
        if reduce.kind not in _COMBINE:
            raise Unsupported(reduce.kind)
        self._start(reduce)
        for lanes in self.passes(reduce.axes):
            self._step(reduce, lanes)
        self._end(reduce)
        return None

    def _start(self, reduce: Reduce) -> None:
        if not self._is_whole(reduce.axes):
            rows = self.blocks.rows if self._has_rows() else 1
            nothing = identity(reduce.kind, reduce.dtype)
            self.line(f"{reduce.name}_lanes = tl.full([{rows}, {self.blocks.lanes}], {nothing}, {_number(reduce)})")

    def _step(self, reduce: Reduce, lanes: str) -> None:
        total = f"{reduce.name}_lanes"
        value = self.value(ir.cast(reduce.value, reduce.dtype))
        if reduce.dtype is torch.bool:
            value = f"{value}.to({_number(reduce)})"
        if not self._varies(reduce.value):
            value = f"tl.broadcast_to({value}, {lanes})"
        if self.lane_mask is not None:
            value = f"tl.where({self.lane_mask}, {value}, {identity(reduce.kind, reduce.dtype)})"
        self.line(f"{total} = {value if self.whole else self._combined(reduce.kind, total, value)}")

    def _end(self, reduce: Reduce) -> None:
        total = f"{reduce.name}_lanes"
        if reduce.kind == "sum":
            result = f"tl.sum({total}, 1)"
        else:
            result = f"tl.reduce({total}, 1, {self.helper(_FUNCTION[reduce.kind])})"
        ending = " != 0" if reduce.dtype is torch.bool else ""
        self.line(f"{reduce.name} = {result}[:, None]{ending}")

    def _run_together(self, group: Together, body: Sequence[ir.Statement]) -> None:
        """Several loops over the blocks of a row as one."""
        sums = [member for member in group.members if isinstance(member, Reduce)]
        for reduce in sums:
            self._start(reduce)
        self.handed = group.handed
        for lanes in self.passes(group.axes):
            for member in group.members:
                if isinstance(member, Reduce):
                    self._step(member, lanes)
                else:
                    self.statements(nest_of(member)[1])
        for buffer in self.handed:
            self.kept.pop(buffer, None)
        self.handed = frozenset()
        for reduce in sums:
            self._end(reduce)
        others = [statement for statement in body if not any(statement is member for member in group.members)]
        if {place.buffer for place in stored(group.members)} & {place.buffer for place in loaded(others)}:
            self.line("tl.debug_barrier()")  # others of this program read what was written
        self.statements(group.later)

    def _reduce_pair(self, pair: Pair) -> None:
        """Two reductions in one pass."""
        rows = self.blocks.rows if self._has_rows() else 1
        for line in start_lines(pair, f"[{rows}, {self.blocks.lanes}]", DTYPES[pair.first.dtype]):
            self.line(line)
        masked = False
        for lanes in self.passes(pair.first.axes):
            value = self.value(pair.first.value)
            name = self.variable()
            self.line(f"{name} = tl.broadcast_to({value}, {lanes})")
            masked = masked or self.lane_mask is not None
            for line in step_lines(pair, name, self.lane_mask, self.helper):
                self.line(line)
        count = self._seen(_size(pair.first.axes), DTYPES[pair.first.dtype]) if masked else None
        for line in end_lines(pair, self.value, self.helper, count):
            self.line(line)

    def _seen(self, size: Expr, dtype: str) -> str:
        """How many elements of a long row each lane has seen."""
        block = self.blocks.lanes
        most = self.indices.wrap(size + (block - 1), 13)
        return f"(({most} - tl.arange(0, {block})[None, :]) // {block}).to({dtype})"

    def _find(self, reduce: Reduce) -> None:
        """The position of the largest or smallest: the first of equals, and of NaN."""
        name, value_dtype = reduce.name, reduce.value.dtype
        as_int = value_dtype is torch.bool
        kind = DTYPES[torch.int32 if as_int else value_dtype]
        nothing = identity(reduce.kind.removeprefix("arg"), torch.int32 if as_int else value_dtype)
        rows = self.blocks.rows if self._has_rows() else 1
        size = _size(reduce.axes)
        self.helper("later_" + reduce.kind.removeprefix("arg"))
        function = self.helper(reduce.kind)
        last = "9223372036854775807"
        if not self._is_whole(reduce.axes):
            shape = f"[{rows}, {self.blocks.lanes}]"
            self.line(f"{name}_best = tl.full({shape}, {nothing}, {kind})")
            self.line(f"{name}_at = tl.full({shape}, {last}, tl.int64)")
        with self._lanes_of(reduce.axes) as lanes:
            value = self.value(reduce.value) + (f".to({kind})" if as_int else "")
            if not self._varies(reduce.value):
                value = f"tl.broadcast_to({value}, {lanes})"
            position: Expr = shapes.const(0)
            for axis in reduce.axes:
                position = position * axis.size + axis.symbol
            at = f"tl.broadcast_to({self.indices.wrap(position, 13)}, {lanes}).to(tl.int64)"
            if mask := self.lane_mask:
                value, at = f"tl.where({mask}, {value}, {nothing})", f"tl.where({mask}, {at}, {last})"
            if self.whole:
                self.line(f"{name}_best = {value}")
                self.line(f"{name}_at = {at}")
            else:
                self.line(f"{name}_best, {name}_at = {function}({name}_best, {name}_at, {value}, {at})")
        self.line(f"{name}_best, {name}_at = tl.reduce(({name}_best, {name}_at), 1, {function})")
        self.line(f"{name} = tl.minimum({name}_at, {self.indices.print(size)} - 1)[:, None].to({DTYPES[reduce.dtype]})")

    # Scans

    def scan(self, scan: ir.Scan) -> None:
        if self.lanes is not None:
            raise Unsupported(f"{scan.kind} inside a block of lanes")
        how = scanning(scan)
        function = self.helper(how.function)
        for name in how.helpers:
            self.helper(name)
        rows = self.blocks.rows if self._has_rows() else 1
        if not self._is_whole((scan.axis,)):
            self.line(f"carry = tl.full([{rows}, 1], {how.start}, {DTYPES[how.dtype]})")
        with self._lanes_of((scan.axis,)) as lanes:
            value = f"tl.broadcast_to({self.value(ir.cast(scan.value, how.dtype))}, {lanes})"
            if self.lane_mask is not None:
                value = f"tl.where({self.lane_mask}, {value}, {how.start})"
            self.line(f"running = tl.associative_scan({value}, 1, {function})")
            if not self.whole:
                for line in carried(function, scan.axis.symbol.name, self.blocks.lanes, DTYPES[how.dtype]):
                    self.line(line)
            result = f"running.to({DTYPES[scan.dtype]})" if scan.dtype is not torch.bool else "(running != 0)"
            at, mask = self._where(scan.place, scan.args)
            self.line(f"tl.store({scan.place.buffer} + {at}, {result}{f', mask={mask}' if mask else ''})")

    def _combined(self, kind: str, a: str, b: str) -> str:
        if kind in ("max", "min"):
            self.helper(_FUNCTION[kind])
        return _COMBINE[kind].format(a=a, b=b)

    def _depends(self, value: Value) -> tuple[bool, bool]:
        """Whether a value differs from row to row, and from lane to lane."""
        rows = lanes = False
        for node in value.walk():
            if node.op in ("load", "index"):
                used = (node.data.index if node.op == "load" else node.data).free_symbols
                rows = rows or not used.isdisjoint(self.row_axes)
                lanes = lanes or not used.isdisjoint(self.lane_axes)
            elif node.op == "local":
                rows, lanes = True, lanes or node.data in self.lane_locals
        return rows, lanes

    def _place_depends(self, place: Place, args: Sequence[Value]) -> tuple[bool, bool]:
        used = place.index.free_symbols
        rows, lanes = not used.isdisjoint(self.row_axes), not used.isdisjoint(self.lane_axes)
        for _, value in zip(place.indirect, args, strict=False):
            more = self._depends(value)
            rows, lanes = rows or more[0], lanes or more[1]
        return rows, lanes

    def _varies(self, value: Value) -> bool:
        """Whether the text of a value has lanes for sure."""
        return any(not (node.data.index if node.op == "load" else node.data).free_symbols.isdisjoint(self.lane_axes)
                   for node in value.walk() if node.op == "index"
                   or (node.op == "load" and node.data.buffer not in self.kept))

    # Stores

    def store(self, store: Store) -> None:
        place = store.place
        if store.mode != "set":
            self._combine(store)
            return
        if place.buffer in self.scratch:
            self._keep(store)
            return
        value = self.value(store.value)
        axis = self._lane_axis(place)
        stays = self.whole or place.buffer in self.handed
        if place.buffer in self.read_again and axis is not None and stays and not place.masked:
            name = f"{place.buffer}_row"
            self.line(f"{name} = tl.broadcast_to({value}, {self.lanes}).to({DTYPES[store.value.dtype]})")
            index = place.index.substitute({axis: _LANE})
            self.kept[place.buffer] = _Kept(index, store.value, axis, name, self.lanes)
            value = name
        rows, lanes = self._place_depends(place, store.args)
        if (self.lanes is not None and not lanes) or (self.row_axes and not rows):
            raise Unsupported(f"{place.buffer} is stored at one place by many")
        at, mask = self._where(place, store.args)
        if self.lanes is None and not self.row_axes:
            at = f"tl.full([1, 1], 0, tl.int32) + {at}"  # what was reduced has this shape
        hint = ", eviction_policy='evict_first'" if self.hint and lanes else ""
        self.line(f"tl.store({place.buffer} + {at}, {value}{f', mask={mask}' if mask else ''}{hint})")

    def _combine(self, store: Store) -> None:
        """Combine with what is in memory. Points that meet in one place do so one after the other, in any order."""
        place = store.place
        if place.buffer in self.scratch:
            raise Unsupported(f"scratch {place.buffer} combined with a value: {store.mode}")
        shape = self.lanes or f"[{self.blocks.rows if self.row_axes else 1}, 1]"
        value, at = self.value(store.value), self._place(place, store.args)
        own = self.value(store.args[-1]) if place.masked else None
        mask = " & ".join(part for part in (self.row_mask, self.lane_mask, own) if part is not None)
        constant = isinstance(place.index, Const)
        at = f"(tl.full({shape}, 0, tl.int32) + {at})" if constant else f"tl.broadcast_to({at}, {shape})"
        self.line(atomic(store, at, value, mask))

    def _lane_axis(self, place: Place) -> Symbol | None:
        """The loop variable of a place that is lanes."""
        inner = [axis for axis in self.lane_axes if axis in place.index.free_symbols]
        return inner[0] if len(inner) == 1 else None

    def _keep(self, store: Store) -> None:
        """Scratch memory is registers."""
        name, place = store.place.buffer, store.place
        axis = self._lane_axis(place)
        if axis is None or place.indirect or len(self.lane_axes) != 1:
            raise Unsupported(f"scratch {name} written at {place.index}")
        if not self.whole:
            raise Unsupported(f"scratch {name}, which is longer than a block, filled among other things")
        value = self.value(store.value)
        self.line(f"{name} = tl.broadcast_to({value}, {self.lanes})")
        self.kept[name] = _Kept(place.index.substitute({axis: _LANE}), store.value, axis, name, self.lanes)

    # Values

    def value(self, value: Value) -> str:
        """The text of a value; lines for the parts of it that are loads or used several times."""
        users: dict[Value, int] = {}
        for node in value.walk():
            for arg in node.args:
                users[arg] = users.get(arg, 0) + 1
        texts: dict[Value, str] = {}
        for node in value.walk():
            if node in self.known:
                texts[node] = self.known[node]
                continue
            inner = shortcut(node, node in self.loose)
            if inner is not None:
                text = at_once(inner, texts[inner.args[0]], self.helper)
            elif node not in self.loose and (inner := exponential_beside_one(node)) is not None:
                text = f"{self.helper('over_one_plus')}({texts[node.args[0]]}, {texts[inner]})"
            elif node.op == "div" and self._divides_rows(node):
                text = f"{self.helper('quotient')}({', '.join(texts[arg] for arg in node.args)})"
            else:
                text = self._node(node, [texts[arg] for arg in node.args])
            if node.op in ("load", "checked") or (users.get(node, 0) > 1 and node.args):
                if not text.isidentifier():
                    name = self.variable()
                    self.line(f"{name} = {text}")
                    text = name
                if node.op != "load" or node.data.buffer not in self.read_again:
                    self.known[node] = text
            texts[node] = text
        return texts[value]

    def _divides_rows(self, node: Value) -> bool:
        """Whether what differs from lane to lane is divided by what does not."""
        dividend, divisor = node.args
        return (node.dtype is torch.float32 and node not in self.loose and self.lanes is not None
                and divisor.op != "const" and self._depends(dividend)[1] and not self._depends(divisor)[1])

    def _node(self, node: Value, args: Sequence[str]) -> str:
        match node.op:
            case "const":
                return constant(node)
            case "index":
                if isinstance(node.data, Const):
                    return f"tl.full([], {int(node.data)}, tl.int64)"
                return f"({self.long_indices.print(node.data)}).to(tl.int64)"
            case "number" | "local":
                return node.data.name if isinstance(node.data, Symbol) else str(node.data)
            case "load":
                return self._load(node, args)
            case "checked":
                self._check(node, args[1])
                return args[0]
        return operation(node, args, self.helper, node in self.loose)

    def _check(self, node: Value, fine: str) -> None:
        """Stop the program where an index is not fine."""
        rows, lanes = self._depends(node.args[1])
        parts = [self.row_mask if rows else None, self.lane_mask if lanes else None]
        mask = " & ".join(part for part in parts if part is not None)
        self.line(f"tl.device_assert({fine}, {ascii(node.data)}{f', mask={mask}' if mask else ''})")

    def _load(self, node: Value, args: Sequence[str]) -> str:
        place: Place = node.data
        kept = self.kept.get(place.buffer)
        if kept is not None or place.buffer in self.scratch:
            known = self._again(place, kept)
            if known is not None:
                mask = self.value(node.args[-1]) if place.masked else None
                return f"tl.where({mask}, {known}, 0)" if mask else known
        at, mask = self._where(place, node.args)
        depends = self._place_depends(place, node.args)
        hint = self.hint if all(depends) else ""
        where = f"{place.buffer} + {at}"
        if self._is_narrow(place, node.dtype.itemsize):
            # Threads would be given more elements of it than of the rest, and would have to exchange them.
            where = f"tl.max_contiguous({where}, [1, {16 // self.widest}])"
        return f"tl.load({where}{f', mask={mask}, other=0' if mask else ''}{hint})"

    def _again(self, place: Place, kept: _Kept | None) -> str | None:
        """What an earlier loop of this program stored there."""
        axis = self._lane_axis(place)
        same = kept is not None and axis is not None and place.index.substitute({axis: _LANE}) is kept.index
        if kept is None or axis is None or not same:
            if place.buffer in self.scratch:
                raise Unsupported(f"scratch {place.buffer} read at {place.index}")
            return None
        stays = self.whole or place.buffer in self.handed
        if kept.register is not None and stays and kept.lanes != self.lanes:
            if place.buffer in self.scratch:
                raise Unsupported(f"scratch {place.buffer} read along more or fewer lanes than it was written")
            return None
        if kept.register is not None and stays and len(self.lane_axes) == 1:
            return kept.register
        if place.buffer in self.scratch:
            return self.value(renamed(kept.value, {kept.axis: axis}))
        return None

    def _place(self, place: Place, args: Sequence[Value]) -> str:
        for symbol, value in zip(place.indirect, args, strict=False):
            text = self.value(value)
            self.names[symbol] = text if self.wide else f"{text}.to(tl.int32)"
        if self.shift is not None and self.shift.is_of(place):
            return f"({self.shift.axis.name}_from + {self.shift.axis.name}_lane)"
        if self.whole_index is not None:
            # What lies in memory in the order of the points needs none of their digits.
            rest = place.index - self.whole_index
            if rest.free_symbols.isdisjoint(self.lane_axes):
                return self.indices.wrap(_WHOLE + rest, 13)
        return self.indices.wrap(place.index, 13)

    def _where(self, place: Place, args: Sequence[Value]) -> tuple[str, str | None]:
        """The index and the mask of an access: of the lanes or rows that the index depends on."""
        rows, lanes = self._place_depends(place, args)
        at = self._place(place, args)
        own = self.value(args[-1]) if place.masked else None
        if own is not None:
            lanes = lanes or self._depends(args[-1])[1] or bool(place.indirect) or bool(self.blocks.second)
            shape = self.lanes if lanes and self.lanes else f"[{self.blocks.rows}, 1]" if self.row_axes else None
            if shape is not None:
                # A number is no tensor that could be broadcast.
                fixed = not place.index.free_symbols
                at = f"tl.full({shape}, {at}, tl.int32)" if fixed else f"tl.broadcast_to({at}, {shape})"
                own = f"tl.broadcast_to({own}, {shape})"
            rows, lanes = bool(self.row_axes), lanes and self.lanes is not None
        parts = [self.row_mask if rows else None, self.lane_mask if lanes else None, own]
        return at, " & ".join(part for part in parts if part is not None) or None


def _number(reduce: Reduce) -> str:
    """What is reduced; bools are as numbers."""
    return DTYPES[torch.int32 if reduce.dtype is torch.bool else reduce.dtype]
