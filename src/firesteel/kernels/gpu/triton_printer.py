"""A kernel of the loop IR as Triton source.

    kernel k0(in0: f32, out0: f32):            @triton.jit
        parallel for i0 < 128:                 def k0(in0, out0):
            a0 = max(i1 < 64) load(...)            i0 = tl.program_id(0).to(tl.int64)
            for i1 < 64:                           i1 = tl.arange(0, 64)
                out0[...] = ...                    t0 = tl.load(in0 + (64*i0 + i1))
                                                   a0 = tl.reduce(t0, 0, maximum)
                                                   ...
                                                   tl.store(out0 + (64*i0 + i1), ...)

There are two forms. A nest whose loops only store is *flat*: one long index, a block of it per program. Any other
kernel runs its parallel loops as programs; a loop inside becomes a block of lanes: all at once where its length is
known to be at most `PERSISTENT`, block after block where it is not. What one loop of a program keeps in memory for the
next (a scratch row, an output that is read again) stays in registers when the loop is one block; a scratch row that is
longer is computed again.

Not handled: scans, scatters that combine, scratch memory read at other places than where it was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from ... import shapes
from ...shapes import Call, Const, Expr, Symbol
from .. import ir
from ..ir import Axis, Kernel, Loop, Place, Reduce, Statement, Store, Value
from .values import DTYPES, HELPERS, TritonIndexPrinter, Unsupported, constant, operation

PERSISTENT = 4096
BLOCK = 1024
"""The usual value of a kernel's BLOCK."""

_COMBINE = {
    "sum": "{a} + {b}", "prod": "{a} * {b}", "max": "maximum({a}, {b})", "min": "minimum({a}, {b})", "any": "{a} | {b}",
    "all": "{a} & {b}", "xor": "{a} ^ {b}", "add": "{a} + {b}", "mul": "{a} * {b}",
}  # fmt: skip
_FUNCTION = {"prod": "product", "max": "maximum", "min": "minimum", "any": "either", "all": "both", "xor": "exclusive"}
_LANE = shapes.symbol("lane")


@dataclass(frozen=True)
class TritonKernel:
    """Source and what a launch needs."""

    name: str
    source: str
    programs: Expr
    """How many programs run; of flat kernels, how many elements, of which each program takes BLOCK."""
    flat: bool
    uses_block: bool
    """Whether the kernel has the parameter BLOCK, a power of two."""


def print_triton(kernel: Kernel) -> TritonKernel:
    """Print a kernel. Raises `Unsupported` for what has no Triton here."""
    printer = _Printer(kernel)
    nest = _flat_nest(kernel.body)
    if nest is not None:
        programs = printer.flat(*nest)
    else:
        programs = printer.rows(kernel.body)
    return TritonKernel(kernel.name, printer.source(), programs, nest is not None, printer.uses_block)


def _flat_nest(body: Sequence[Statement]) -> tuple[list[Axis], Sequence[Statement]] | None:
    """The loops of a kernel that does nothing but store at every point, and what it does there."""
    axes: list[Axis] = []
    while len(body) == 1 and isinstance(loop := body[0], Loop):
        if loop.axis.size.free_symbols & {axis.symbol for axis in axes}:
            return None
        axes.append(loop.axis)
        body = loop.body
    plain = all(isinstance(s, ir.Assign) or (isinstance(s, Store) and s.mode == "set") for s in body)
    return (axes, body) if axes and plain else None


@dataclass(frozen=True)
class _Kept:
    """What a loop stored, for the next one: in registers, or how to compute it again."""

    index: Expr
    """Where, with `_LANE` in the place of the loop's variable."""
    value: Value
    axis: Symbol
    register: str | None


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.lines: list[str] = []
        self.depth = 1
        self.used: dict[str, None] = {}
        self.uses_block = False
        self.names: dict[Symbol, str] = {}
        self.mask: str | None = None
        self.lanes: str | None = None
        """The shape of a block of lanes, inside of one."""
        self.lane_axes: list[Symbol] = []
        self.sequential: list[Symbol] = []
        """The variables of the loops around, blocks of lanes not counted."""
        self.known: dict[Value, str] = {}
        self.blocks: dict[tuple[Axis, ...], dict[Value, str]] = {}
        """What is known in blocks of lanes that hold a whole loop: another loop over the same axes goes on with it."""
        self.counter = 0
        self.scratch = {part.name: part for part in kernel.scratch}
        self.kept: dict[str, _Kept] = {}
        self.indices = TritonIndexPrinter(self.names, self.helper)
        writes = {place.buffer for place in _stored(kernel.body)}
        self.read_again = {place.buffer for place in _loaded(kernel.body)} & writes

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
        before, blocks = dict(self.known), {axes: dict(known) for axes, known in self.blocks.items()}
        self.depth += 1
        yield
        self.depth -= 1
        self.known, self.blocks = before, blocks
        if len(self.lines) == start:
            self.lines.pop()  # all that it did is computed again where it is read

    def source(self) -> str:
        parameters = [buffer.name for buffer in self.kernel.buffers]
        parameters += [symbol.name for symbol in (*self.kernel.sizes, *self.kernel.numbers)]
        if self.uses_block:
            parameters.append("BLOCK: tl.constexpr")
        head = ["import triton", "import triton.language as tl", "from triton.language.extra import libdevice"]
        for name in self.used:
            head += ["", "", "@triton.jit", f"def {name}(a, b):", f"    {HELPERS[name]}"]
        head += ["", "", "@triton.jit", f"def {self.kernel.name}({', '.join(parameters)}):"]
        return "\n".join([*head, *self.lines]) + "\n"

    # The two forms

    def flat(self, axes: Sequence[Axis], body: Sequence[Statement]) -> Expr:
        total: Expr = shapes.const(1)
        for axis in axes:
            total = total * axis.size
        self.uses_block = True
        self.line("x = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)")
        self.line(f"mask = x < {self.indices.print(total)}")
        self.mask, self.lanes = "mask", "[BLOCK]"
        self._digits("x", axes)
        self.statements(body)
        return total

    def rows(self, body: Sequence[Statement]) -> Expr:
        axes: list[Axis] = []
        while len(body) == 1 and isinstance(loop := body[0], Loop) and loop.parallel:
            axes.append(loop.axis)
            body = loop.body
        # A size may depend on the loops around it (blocks); the number of programs is that of whole blocks.
        total: Expr = shapes.const(1)
        for axis in axes:
            if axis.size.free_symbols & {outer.symbol for outer in axes}:
                raise Unsupported("a number of programs that depends on the program")
            total = total * axis.size
        if axes:
            self.line("p = tl.program_id(0).to(tl.int64)")
            self._digits("p", axes)
        self.statements(body)
        return total

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

    def statements(self, body: Sequence[Statement]) -> None:
        for statement in body:
            match statement:
                case ir.Assign():
                    text = self.value(statement.value)
                    self.line(f"{statement.name} = {text}")
                case Store():
                    self.store(statement)
                case Reduce():
                    self.reduce(statement)
                case Loop():
                    self.loop(statement)
                case _:
                    raise Unsupported(type(statement).__name__)

    def loop(self, loop: Loop) -> None:
        name = loop.axis.symbol.name
        if any(isinstance(inner, Loop | Reduce) for inner in loop.body) or self.lanes is not None:
            if self.lanes is not None:
                raise Unsupported("a loop inside a block of lanes")
            with self.block(f"for {name} in range(0, {self.indices.print(loop.axis.size)}):"):
                self.sequential.append(loop.axis.symbol)
                self.statements(loop.body)
                self.sequential.pop()
            return
        if self._computed_again(loop):
            return
        with self._lanes_of([loop.axis]):
            self.statements(loop.body)
        if any(place.buffer in self.read_again and not self._in_registers(place) for place in _stored(loop.body)):
            self.line("tl.debug_barrier()")  # others of this program read what was written

    def _computed_again(self, loop: Loop) -> bool:
        """Whether a loop only fills scratch rows that are longer than a block: those who read them compute them."""
        bound = _bound(loop.axis.size)
        if bound is not None and bound <= PERSISTENT:
            return False
        stores = [s for s in loop.body if isinstance(s, Store) and s.place.buffer in self.scratch and s.mode == "set"]
        if len(stores) < len(loop.body):
            return False
        axis = loop.axis.symbol
        for store in stores:
            index = store.place.index.substitute({axis: _LANE})
            self.kept[store.place.buffer] = _Kept(index, store.value, axis, None)
        return True

    def _in_registers(self, place: Place) -> bool:
        kept = self.kept.get(place.buffer)
        return place.buffer in self.scratch or (kept is not None and kept.register is not None)

    @contextmanager
    def _lanes_of(self, axes: Sequence[Axis]) -> Iterator[str]:
        """Inside, the axes are lanes; gives the shape of a block."""
        size: Expr = shapes.const(1)
        for axis in axes:
            size = size * axis.size
        bound = _bound(size)
        first = axes[0].symbol.name
        whole = first if len(axes) == 1 else f"{first}_all"
        outside = dict(self.known)
        self.lane_axes = [axis.symbol for axis in axes]
        if bound is not None and bound <= PERSISTENT:
            block = 1 << (bound - 1).bit_length()
            exact = isinstance(size, Const) and size.value == block
            self.mask = None if exact else f"{whole}_mask"
            before = self.blocks.get(tuple(axes))
            if before is None:
                self.line(f"{whole} = tl.arange(0, {block})")
                self._enter(whole, size)
                self._digits_of(whole, axes)
            else:
                self.known.update(before)
            self.lanes = f"[{block}]"
            yield self.lanes
            # a loop with the same variable and another length has taken its name
            others = {axes: known for axes, known in self.blocks.items() if axes[0].symbol is not self.lane_axes[0]}
            self.blocks = {**others, tuple(axes): self.known}
        else:
            self.uses_block = True
            with self.block(f"for {whole}_start in range(0, {self.indices.print(size)}, BLOCK):"):
                self.line(f"{whole} = {whole}_start + tl.arange(0, BLOCK)")
                self.blocks = {axes_: known for axes_, known in self.blocks.items() if axes_[0] is not axes[0]}
                self.mask = f"{whole}_mask"
                self._enter(whole, size)
                self._digits_of(whole, axes)
                self.lanes = "[BLOCK]"
                yield self.lanes
        self.lanes = self.mask = None
        self.lane_axes = []
        self.known = outside

    def _enter(self, whole: str, size: Expr) -> None:
        if self.mask is not None:
            self.line(f"{self.mask} = {whole} < {self.indices.print(size)}")

    def _digits_of(self, whole: str, axes: Sequence[Axis]) -> None:
        if len(axes) > 1:
            self._digits(whole, axes)

    def reduce(self, reduce: Reduce) -> None:
        if self.lanes is not None or reduce.kind not in _COMBINE:
            raise Unsupported(f"{reduce.kind} here")
        identity = _identity(reduce.kind, reduce.dtype)
        size: Expr = shapes.const(1)
        for axis in reduce.axes:
            size = size * axis.size
        bound = _bound(size)
        looped = bound is None or bound > PERSISTENT
        total = f"{reduce.name}_lanes"
        if looped:
            self.uses_block = True
            self.line(f"{total} = tl.full([BLOCK], {identity}, {DTYPES[reduce.dtype]})")
        with self._lanes_of(reduce.axes) as lanes:
            value = self.value(ir.cast(reduce.value, reduce.dtype))
            if not self._varies(reduce.value):
                value = f"tl.broadcast_to({value}, {lanes})"
            if self.mask is not None:
                value = f"tl.where({self.mask}, {value}, {identity})"
            combined = self._combined(reduce.kind, total, value) if looped else value
            self.line(f"{total} = {combined}")
        if reduce.kind == "sum":
            self.line(f"{reduce.name} = tl.sum({total}, 0)")
        else:
            self.line(f"{reduce.name} = tl.reduce({total}, 0, {self.helper(_FUNCTION[reduce.kind])})")

    def _combined(self, kind: str, a: str, b: str) -> str:
        if kind in ("max", "min"):
            self.helper(_FUNCTION[kind])
        return _COMBINE[kind].format(a=a, b=b)

    def _varies(self, value: Value) -> bool:
        """Whether a value has lanes: it depends on a loop variable, so it loads or is an index."""
        return any(node.op in ("load", "index") for node in value.walk())

    def store(self, store: Store) -> None:
        place = store.place
        axis = self._lane_axis(place)
        if place.buffer in self.scratch:
            self._keep(store, axis)
            return
        value = self.value(store.value)
        if store.mode != "set":
            raise Unsupported(f"a store that combines: {store.mode}")
        whole = self.lanes not in (None, "[BLOCK]") and not place.index.free_symbols & set(self.sequential)
        if place.buffer in self.read_again and axis is not None and whole:
            name = f"{place.buffer}_row"
            self.line(f"{name} = {value}")
            self.kept[place.buffer] = _Kept(place.index.substitute({axis: _LANE}), store.value, axis, name)
            value = name
        mask = self._mask_of(place, store.args)
        at = self._place(place, store.args)
        self.line(f"tl.store({place.buffer} + {at}, {value}{f', mask={mask}' if mask else ''})")

    def _lane_axis(self, place: Place) -> Symbol | None:
        """The loop variable of a place that is lanes."""
        inner = [axis for axis in self.lane_axes if axis in place.index.free_symbols]
        return inner[0] if len(inner) == 1 else None

    def _keep(self, store: Store, axis: Symbol | None) -> None:
        """Scratch memory is registers, or nothing at all."""
        name, place = store.place.buffer, store.place
        if axis is None or place.indirect:
            raise Unsupported(f"scratch {name} written at {place.index}")
        index = place.index.substitute({axis: _LANE})
        if self.lanes == "[BLOCK]":
            raise Unsupported(f"scratch {name}, which is longer than a block, filled among other things")
        if place.index.free_symbols & set(self.sequential):
            # one of many rows: those who read it compute it, if all that it is made of is there then too
            if store.mode != "set" or any(node.op == "local" for node in store.value.walk()):
                raise Unsupported(f"scratch {name} written at {place.index}")
            self.kept[name] = _Kept(index, store.value, axis, None)
            return
        value = self.value(store.value)
        kind = DTYPES[self.scratch[name].dtype]
        if store.mode == "set":
            shaped = value if self._varies(store.value) else f"tl.full({self.lanes}, {value}, {kind})"
            self.line(f"{name} = {shaped}")
        else:
            if self.mask is not None and store.mode != "add":
                value = f"tl.where({self.mask}, {value}, {name})"
            self.line(f"{name} = {self._combined(store.mode, name, value)}")
        self.kept[name] = _Kept(index, store.value, axis, name)

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
                return f"({self.indices.print(node.data)})"
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
                return found
        mask = self._mask_of(place, node.args)
        other = ", other=0" if mask else ""
        text = f"tl.load({place.buffer} + {self._place(place, node.args)}{f', mask={mask}' if mask else ''}{other})"
        return f"{text}.to(tl.int1)" if node.dtype is torch.bool else text

    def _again(self, place: Place, kept: _Kept | None) -> str | None:
        """What an earlier loop of this program stored there."""
        axis = self._lane_axis(place)
        same = kept is not None and axis is not None and place.index.substitute({axis: _LANE}) is kept.index
        if kept is None or axis is None or not same:
            if place.buffer in self.scratch:
                raise Unsupported(f"scratch {place.buffer} read at {place.index}")
            return None
        if kept.register is not None:
            return kept.register
        if place.buffer in self.scratch:
            return self.value(_renamed(kept.value, {kept.axis: axis}))
        return None

    def _place(self, place: Place, args: Sequence[Value]) -> str:
        for symbol, value in zip(place.indirect, args, strict=False):
            self.names[symbol] = self.value(value)
        return self.indices.wrap(place.index, 13)

    def _mask_of(self, place: Place, args: Sequence[Value]) -> str | None:
        own = self.value(args[-1]) if place.masked else None
        lanes = self.mask if self.lanes is not None else None
        return f"{lanes} & {own}" if lanes and own else lanes or own


# ---------------------------------------------------------------------------------------------------------------------
# looking through statements


def _values(body: Sequence[Statement]) -> Iterator[Value]:
    for statement in body:
        if isinstance(statement, Loop):
            yield from _values(statement.body)
        else:
            yield statement.value
            yield from getattr(statement, "args", ())


def _loaded(body: Sequence[Statement]) -> Iterator[Place]:
    for value in _values(body):
        yield from (node.data for node in value.walk() if node.op == "load")


def _stored(body: Sequence[Statement]) -> Iterator[Place]:
    for statement in body:
        if isinstance(statement, Loop):
            yield from _stored(statement.body)
        elif isinstance(statement, Store | ir.Scan):
            yield statement.place


def _bound(size: Expr) -> int | None:
    """How long a loop is at most, as far as its text says."""
    if isinstance(size, Const):
        return int(size.value)
    if isinstance(size, Call) and size.op == "min":
        known = [bound for bound in map(_bound, size.operands) if bound is not None]
        return min(known, default=None)
    return None


def _identity(kind: str, dtype: torch.dtype) -> str:
    """What a reduction of nothing gives."""
    if kind in ("sum", "xor", "any"):
        return "0"
    if kind in ("prod", "all"):
        return "1"
    if dtype.is_floating_point:
        return "float('-inf')" if kind == "max" else "float('inf')"
    limits = torch.iinfo(dtype)
    return str(limits.min if kind == "max" else limits.max)


def _renamed(value: Value, symbols: dict[Symbol, Expr]) -> Value:
    """A value with other loop variables."""
    made: dict[Value, Value] = {}
    for node in value.walk():
        data = node.data
        if node.op == "load":
            data = Place(data.buffer, data.index.substitute(symbols), data.indirect, data.masked)
        elif node.op == "index":
            data = data.substitute(symbols)
        made[node] = Value(node.op, node.dtype, tuple(made[arg] for arg in node.args), data)
    return made[value]
