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

Not handled: scans, scatters that combine, scratch memory read at other places than where it was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from ... import shapes
from ...records import dataclass
from ...shapes import Const, Expr, Symbol
from .. import ir
from ..ir import Axis, Kernel, Loop, Place, Reduce, Store, Value
from .blocks import Blocks, choose_blocks
from .pairs import Pair, end_lines, find_pair, start_lines, step_lines
from .statements import bound_of, flat_nest, is_wide, loaded, nest_of, renamed, rows_of, stored
from .values import DTYPES, HELPERS, TritonIndexPrinter, Unsupported, constant, identity, operation, types_of

_COMBINE = {
    "sum": "{a} + {b}", "prod": "{a} * {b}", "max": "maximum({a}, {b})", "min": "minimum({a}, {b})",
    "xor": "{a} ^ {b}", "any": "{a} | {b}", "all": "{a} & {b}",
}  # fmt: skip
_FUNCTION = {"prod": "product", "max": "maximum", "min": "minimum", "xor": "exclusive", "any": "either", "all": "both"}
_LANE = shapes.symbol("lane")


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


def print_triton(kernel: Kernel, blocks: Blocks | None = None) -> TritonKernel:
    """Print a kernel. Raises `Unsupported` for what has no Triton here."""
    printer = _Printer(kernel, blocks or choose_blocks(kernel))
    nest = flat_nest(kernel.body)
    if nest is not None:
        programs = printer.flat(*nest)
    else:
        programs = printer.rows()
    return TritonKernel(kernel.name, printer.source(), programs, types_of(kernel), printer.blocks.warps)


@dataclass(frozen=True)
class _Kept:
    """What a loop stored, for the next one: in registers, or how to compute it again."""

    index: Expr
    """Where, with `_LANE` in the place of the loop's variable."""
    value: Value
    axis: Symbol
    register: str | None


class _Printer:
    def __init__(self, kernel: Kernel, blocks: Blocks) -> None:
        self.kernel = kernel
        self.blocks = blocks
        self.lines: list[str] = []
        self.depth = 1
        self.used: dict[str, None] = {}
        self.names: dict[Symbol, str] = {}
        self.row_axes: frozenset[Symbol] = frozenset()
        self.row_mask: str | None = None
        self.lane_mask: str | None = None
        """That of the lanes alone, inside of a block of them."""
        self.lanes: str | None = None
        """The shape of a block of lanes, inside of one."""
        self.whole = False
        """Whether the block of lanes is the whole loop."""
        self.lane_axes: list[Symbol] = []
        self.lane_locals: set[str] = set()
        self.known: dict[Value, str] = {}
        self.spaces: dict[tuple[Axis, ...], dict[Value, str]] = {}
        """What is known in blocks of lanes that hold a whole loop: another loop over the same axes goes on with it."""
        self.counter = 0
        self.scratch = {part.name: part for part in kernel.scratch}
        self.kept: dict[str, _Kept] = {}
        self.indices = TritonIndexPrinter(self.names, self.helper)
        self.wide = is_wide(kernel)
        writes = {place.buffer for place in stored(kernel.body)}
        self.read_again = {place.buffer for place in loaded(kernel.body)} & writes

    # Text

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def helper(self, name: str) -> str:
        self.used[name] = None
        return name

    def variable(self) -> str:
        self.counter += 1
        return f"t{self.counter - 1}"

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A loop of the program. What is computed inside is not known after it."""
        self.line(head)
        start = len(self.lines)
        before, spaces = dict(self.known), {axes: dict(known) for axes, known in self.spaces.items()}
        self.depth += 1
        yield
        self.depth -= 1
        self.known, self.spaces = before, spaces
        if len(self.lines) == start:
            self.lines.pop()  # all that it did is computed again where it is read

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
        if axes:
            self.line(f"x = {self._program()} * {block} + tl.arange(0, {block})[:, None]")
            self._rows_end(total, block)
            self._digits("x", axes)
            self.row_axes = frozenset([axis.symbol for axis in axes])
        self.statements(body)
        return (total + (block - 1)) // block if axes else total

    def _program(self) -> str:
        return "tl.program_id(0).to(tl.int64)" if self.wide else "tl.program_id(0)"

    def _rows_end(self, total: Expr, block: int) -> None:
        if not (isinstance(total, Const) and int(total) % block == 0):
            self.line(f"x_mask = x < {self.indices.print(total)}")
            self.row_mask = "x_mask"

    def _digits(self, whole: str, axes: Sequence[Axis]) -> None:
        """The loop variables from one long index."""
        rest = whole
        for position in range(len(axes) - 1, -1, -1):
            axis = axes[position]
            name = axis.symbol.name
            size = self.indices.wrap(axis.size, 13)
            if position:
                self.line(f"{name} = {rest} % {size}")
                above = f"{whole}{position}" if position > 1 else axes[0].symbol.name
                self.line(f"{above} = {rest} // {size}")
                rest = above
            elif name != rest:
                self.line(f"{name} = {rest}")

    # Statements

    def statements(self, body: Sequence[ir.Statement]) -> None:
        done: Reduce | None = None
        for number, statement in enumerate(body):
            if statement is done:
                continue
            pair = find_pair(body, number, self.scratch) if isinstance(statement, Reduce) else None
            if pair is not None and self.lanes is None and not self._is_whole(pair.first.axes):
                self._reduce_pair(pair)
                done = pair.second
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
        if self._computed_again(axes, body):
            return
        with self._lanes_of(axes):
            self.statements(body)
        if any(place.buffer in self.read_again and not self._in_registers(place) for place in stored(body)):
            self.line("tl.debug_barrier()")  # others of this program read what was written

    def _computed_again(self, axes: Sequence[Axis], body: Sequence[ir.Statement]) -> bool:
        """Whether a loop only fills scratch rows that are longer than a block: those who read them compute them."""
        if self._is_whole(axes):
            return False
        stores = [s for s in body if isinstance(s, Store) and s.place.buffer in self.scratch and s.mode == "set"]
        if len(stores) < len(body) or len(axes) != 1:
            return False
        axis = axes[0].symbol
        for store in stores:
            index = store.place.index.substitute({axis: _LANE})
            self.kept[store.place.buffer] = _Kept(index, store.value, axis, None)
        return True

    def _is_whole(self, axes: Sequence[Axis]) -> bool:
        bound = bound_of(_size(axes))
        return bound is not None and bound <= self.blocks.whole

    def _in_registers(self, place: Place) -> bool:
        kept = self.kept.get(place.buffer)
        return place.buffer in self.scratch or (kept is not None and kept.register is not None)

    @contextmanager
    def _lanes_of(self, axes: Sequence[Axis]) -> Iterator[str]:
        """Inside, the axes are lanes; gives the shape of a block."""
        size = _size(axes)
        first = axes[0].symbol.name
        whole = first if len(axes) == 1 else f"{first}_all"
        outside = dict(self.known)
        self.lane_axes = [axis.symbol for axis in axes]
        rows = self.blocks.rows if self._has_rows() else 1
        if self._is_whole(axes):
            block = 1 << (max(bound_of(size) or 1, 1) - 1).bit_length()
            exact = isinstance(size, Const) and int(size) == block
            before = self.spaces.get(tuple(axes))
            own = None if exact else f"{whole}_mask"
            if before is None:
                self._forget(axes)
                self.line(f"{whole} = tl.arange(0, {block})[None, :]")
                self._lane_mask(own, whole, size)
                self._lane_digits(whole, axes)
            else:
                self.known.update(before)
                self.lane_mask = own
            self.lanes, self.whole = f"[{rows}, {block}]", True
            yield self.lanes
            self.spaces = {**self.spaces, tuple(axes): self.known}
        else:
            block = self.blocks.lanes
            self._forget(axes)
            with self.block(f"for {whole}_start in range(0, {self._longest(size)}, {block}):"):
                self.line(f"{whole} = {whole}_start + tl.arange(0, {block})[None, :]")
                exact = isinstance(size, Const) and int(size) % block == 0
                self._lane_mask(None if exact else f"{whole}_mask", whole, size)
                self._lane_digits(whole, axes)
                self.lanes, self.whole = f"[{rows}, {block}]", False
                yield self.lanes
        self.lanes = self.lane_mask = None
        self.lane_axes = []
        self.known = outside

    def _forget(self, axes: Sequence[Axis]) -> None:
        """Other loops take the names of these variables, so what was known of them holds no more."""
        taken = {axis.symbol for axis in axes}
        self.spaces = {others: known for others, known in self.spaces.items()
                       if not any(axis.symbol in taken for axis in others)}

    def _has_rows(self) -> bool:
        return bool(rows_of(self.kernel.body)[0])

    def _longest(self, size: Expr) -> str:
        """How far a loop of blocks runs: the same for all rows, so at most as far as the longest of them."""
        own = {axis.symbol for axis in rows_of(self.kernel.body)[0]}
        if size.free_symbols & own:
            if not (isinstance(size, shapes.Call) and size.op == "min"):
                raise Unsupported("rows of different lengths")
            operands = [part for part in size.operands if not part.free_symbols & own]
            if not operands:
                raise Unsupported("rows of different lengths")
            size = operands[0]
        return self.indices.print(size)

    def _lane_mask(self, name: str | None, whole: str, size: Expr) -> None:
        if name is not None:
            self.line(f"{name} = {whole} < {self.indices.print(size)}")
        self.lane_mask = name

    def _lane_digits(self, whole: str, axes: Sequence[Axis]) -> None:
        if len(axes) > 1:
            self._digits(whole, axes)

    # Reductions

    def reduce(self, reduce: Reduce) -> None:
        if self.lanes is not None:
            raise Unsupported(f"{reduce.kind} inside a block of lanes")
        if reduce.kind in ("argmax", "argmin"):
            return self._find(reduce)
        if reduce.kind not in _COMBINE:
            raise Unsupported(reduce.kind)
        # Bools are reduced as numbers.
        dtype = torch.int32 if reduce.dtype is torch.bool else reduce.dtype
        nothing = identity(reduce.kind, reduce.dtype)
        total = f"{reduce.name}_lanes"
        rows = self.blocks.rows if self._has_rows() else 1
        if not self._is_whole(reduce.axes):
            self.line(f"{total} = tl.full([{rows}, {self.blocks.lanes}], {nothing}, {DTYPES[dtype]})")
        with self._lanes_of(reduce.axes) as lanes:
            value = self.value(ir.cast(reduce.value, reduce.dtype))
            if dtype is not reduce.dtype:
                value = f"{value}.to({DTYPES[dtype]})"
            if not self._varies(reduce.value):
                value = f"tl.broadcast_to({value}, {lanes})"
            if self.lane_mask is not None:
                value = f"tl.where({self.lane_mask}, {value}, {nothing})"
            self.line(f"{total} = {value if self.whole else self._combined(reduce.kind, total, value)}")
        if reduce.kind == "sum":
            result = f"tl.sum({total}, 1)"
        else:
            result = f"tl.reduce({total}, 1, {self.helper(_FUNCTION[reduce.kind])})"
        ending = " != 0" if reduce.dtype is torch.bool else ""
        self.line(f"{reduce.name} = {result}[:, None]{ending}")
        return None

    def _reduce_pair(self, pair: Pair) -> None:
        """Two reductions in one pass."""
        rows = self.blocks.rows if self._has_rows() else 1
        if pair.centre is None:
            self.helper("scaled")
        for line in start_lines(pair, f"[{rows}, {self.blocks.lanes}]", DTYPES[pair.first.dtype]):
            self.line(line)
        with self._lanes_of(pair.first.axes) as lanes:
            value = self.value(pair.first.value)
            name = self.variable()
            self.line(f"{name} = tl.broadcast_to({value}, {lanes})")
            for line in step_lines(pair, name, self.lane_mask, self.helper):
                self.line(line)
        for line in end_lines(pair, self.value, self.helper):
            self.line(line)

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
            raise Unsupported(f"a store that combines: {store.mode}")
        if place.buffer in self.scratch:
            self._keep(store)
            return
        value = self.value(store.value)
        axis = self._lane_axis(place)
        if place.buffer in self.read_again and axis is not None and self.whole and not place.masked:
            name = f"{place.buffer}_row"
            self.line(f"{name} = tl.broadcast_to({value}, {self.lanes}).to({DTYPES[store.value.dtype]})")
            self.kept[place.buffer] = _Kept(place.index.substitute({axis: _LANE}), store.value, axis, name)
            value = name
        rows, lanes = self._place_depends(place, store.args)
        if (self.lanes is not None and not lanes) or (self.row_axes and not rows):
            raise Unsupported(f"{place.buffer} is stored at one place by many")
        at, mask = self._where(place, store.args)
        if self.lanes is None and not self.row_axes:
            at = f"tl.full([1, 1], 0, tl.int32) + {at}"  # what was reduced has this shape
        self.line(f"tl.store({place.buffer} + {at}, {value}{f', mask={mask}' if mask else ''})")

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
        self.kept[name] = _Kept(place.index.substitute({axis: _LANE}), store.value, axis, name)

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
            text = self._node(node, [texts[arg] for arg in node.args])
            if node.op in ("load",) or (users.get(node, 0) > 1 and node.args):
                if not text.isidentifier():
                    name = self.variable()
                    self.line(f"{name} = {text}")
                    text = name
                if node.op != "load" or node.data.buffer not in self.read_again:
                    self.known[node] = text
            texts[node] = text
        return texts[value]

    def _node(self, node: Value, args: Sequence[str]) -> str:
        match node.op:
            case "const":
                return constant(node)
            case "index":
                if isinstance(node.data, Const):
                    return f"tl.full([], {int(node.data)}, tl.int64)"
                return f"({self.indices.print(node.data)}).to(tl.int64)"
            case "number" | "local":
                return node.data.name if isinstance(node.data, Symbol) else str(node.data)
            case "load":
                return self._load(node, args)
        return operation(node, args, self.helper)

    def _load(self, node: Value, args: Sequence[str]) -> str:
        place: Place = node.data
        kept = self.kept.get(place.buffer)
        if kept is not None or place.buffer in self.scratch:
            found = self._again(place, kept)
            if found is not None:
                mask = self.value(node.args[-1]) if place.masked else None
                return f"tl.where({mask}, {found}, 0)" if mask else found
        at, mask = self._where(place, node.args)
        return f"tl.load({place.buffer} + {at}{f', mask={mask}, other=0' if mask else ''})"

    def _again(self, place: Place, kept: _Kept | None) -> str | None:
        """What an earlier loop of this program stored there."""
        axis = self._lane_axis(place)
        same = kept is not None and axis is not None and place.index.substitute({axis: _LANE}) is kept.index
        if kept is None or axis is None or not same:
            if place.buffer in self.scratch:
                raise Unsupported(f"scratch {place.buffer} read at {place.index}")
            return None
        if kept.register is not None and self.whole:
            return kept.register
        if place.buffer in self.scratch:
            return self.value(renamed(kept.value, {kept.axis: axis}))
        return None

    def _place(self, place: Place, args: Sequence[Value]) -> str:
        for symbol, value in zip(place.indirect, args, strict=False):
            text = self.value(value)
            self.names[symbol] = text if self.wide else f"{text}.to(tl.int32)"
        return self.indices.wrap(place.index, 13)

    def _where(self, place: Place, args: Sequence[Value]) -> tuple[str, str | None]:
        """The index and the mask of an access: of the lanes or rows that the index depends on."""
        rows, lanes = self._place_depends(place, args)
        at = self._place(place, args)
        own = self.value(args[-1]) if place.masked else None
        if own is not None:
            shape = self.lanes or (f"[{self.blocks.rows}, 1]" if self.row_axes else None)
            if shape is not None:
                at, own = f"tl.broadcast_to({at}, {shape})", f"tl.broadcast_to({own}, {shape})"
            rows, lanes = bool(self.row_axes), self.lanes is not None
        parts = [self.row_mask if rows else None, self.lane_mask if lanes else None, own]
        return at, " & ".join(part for part in parts if part is not None) or None


def _size(axes: Sequence[Axis]) -> Expr:
    total: Expr = shapes.const(1)
    for axis in axes:
        total = total * axis.size
    return total
