"""A kernel as LLVM IR: its entry, and one function for every parallel loop.

    void kernel(void **buffers, int64_t *sizes, double *numbers)

A parallel loop is a function of a range of its iterations and a record of what it needs, which torch's own threads run
(`torch_parallel_for`). A loop that is too little work for that is run by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...records import dataclass
from ...shapes import Const, Expr, Symbol, as_expr
from ..ir import Kernel, Loop, Reduce, Scan, Statement
from ..llvm_writer import Function, Module
from . import bounds, jamming, reductions, scans, tiles, vectorising
from .operands import Operand, element_type, memory_type
from .statements import StatementEmitter
from .target import Target, has_symbol

GRAIN = 3 * 32768
"""The least work that is worth a thread, in reads of an element."""

BLOCK = 1024
"""Iterations that are not split between threads, where they become lanes."""

INVARIANT = ", !invariant.load !{}"
"""Said of loads that always give the same."""

STREAM = 1 << 25
"""Bytes of results that do not stay in the cache anyway."""

STACK_LIMIT = 32768
"""Bytes of scratch memory that may lie on the stack."""


def print_kernel(kernel: Kernel, target: Target) -> Module:
    """The code of a kernel. Its names begin with `PREFIX`."""
    module = Module("PREFIX.")
    entry = Function("void @PREFIX(ptr %buffers, ptr %sizes, ptr %numbers)", target.attributes)
    printer = KernelPrinter(kernel, module, entry, target)
    printer.parameters("%buffers", "%sizes", "%numbers")
    printer.top(kernel.body)
    printer.block.terminator = "ret void"
    module.functions.append(entry)
    if target.checked:
        bounds.add_checks(module, printer.checked)
    return module


class KernelPrinter(StatementEmitter):
    """Writes one function of a kernel."""

    def __init__(self, kernel: Kernel, module: Module, function: Function, target: Target) -> None:
        super().__init__(module, function, target)
        self.kernel = kernel
        self.checked: dict[Function, bounds.Checked] = {}
        """What functions may touch, where that is checked."""
        self.freed: list[str] = []
        self.grain = target.tuning.grain or GRAIN
        self.streamed = target.tuning.stream or STREAM

    def emit_reduce(self, statement: Reduce) -> None:
        reductions.emit_reduce(self, statement)

    def emit_scan(self, statement: Scan) -> None:
        scans.emit_scan(self, statement)

    def emit_in_blocks(self, loop: Loop) -> bool:
        if tiles.applies(loop, self.written):
            tiles.emit_tiles(self, loop, self.integer(0), self.size(loop.axis.size))
            return True
        if jamming.applies(loop):
            jamming.emit_rows(self, loop)
            return True
        return False

    def parameters(self, buffers: str, sizes: str, numbers: str) -> None:
        """Read the kernel's parameters."""
        kernel = self.kernel
        self.signed = kernel.signed
        pointers, dtypes = {}, {}
        for position, buffer in enumerate(kernel.buffers):
            at = self.raw(f"getelementptr ptr, ptr {buffers}, i64 {position}")
            pointers[buffer.name] = self.raw(f"load ptr, ptr {at}, align 8{INVARIANT}")
            dtypes[buffer.name] = buffer.dtype
        for position, symbol in enumerate(kernel.sizes):
            at = self.raw(f"getelementptr i64, ptr {sizes}, i64 {position}")
            self.symbols[symbol] = self.instruction(f"load i64, ptr {at}, align 8{INVARIANT}", torch.int64, 1)
        operands: dict[Symbol, Operand] = {}
        for position, symbol in enumerate(kernel.numbers):
            at = self.raw(f"getelementptr double, ptr {numbers}, i64 {position}")
            operands[symbol] = self.instruction(f"load double, ptr {at}, align 8{INVARIANT}", torch.float64, 1)
        written = frozenset(kernel.writes) | {scratch.name for scratch in kernel.scratch}
        dtypes.update({scratch.name: scratch.dtype for scratch in kernel.scratch})
        self.setup(pointers, dtypes, written, operands)
        self.large = self._is_large()
        if self.target.checked:
            self._note_extents(buffers, frozenset((buffers, sizes, numbers, "%context")))

    def _note_extents(self, buffers: str, parameters: frozenset[str]) -> None:
        """Read where buffers begin and end, which stands behind their addresses: views may look in front of them."""
        count, extents = len(self.kernel.buffers), {}
        for position, buffer in enumerate(self.kernel.buffers):
            at = [self.raw(f"getelementptr ptr, ptr {buffers}, i64 {part * count + position}") for part in (1, 2)]
            start, end = [self.raw(f"load ptr, ptr {one}, align 8{INVARIANT}") for one in at]
            extents[self.pointers[buffer.name]] = bounds.Extent(start, end, position)
        report = self.raw(f"getelementptr ptr, ptr {buffers}, i64 {3 * count}")
        self.checked[self.function] = bounds.Checked(report, parameters, extents)

    def _is_large(self) -> Operand | None:
        """Whether results are too large for the cache, and nothing that is written is also read."""
        kernel = self.kernel
        read = {node.data.buffer for node in vectorising.nodes(kernel.body) if node.op == "load"}
        if self.target.vector_bytes < 32 or kernel.in_place or kernel.scratch or read & kernel.writes:
            return None
        size = as_expr(0)
        for buffer in kernel.buffers:
            if buffer.name in kernel.writes:
                length = as_expr(buffer.dtype.itemsize)
                for one in buffer.shape:
                    length = length * one
                size = size + length
        if isinstance(size, Const):
            return Operand("true", torch.bool, 1) if size.value >= self.streamed else None
        if not size.free_symbols <= set(kernel.sizes):
            return None
        return self.compare("sge", self.index(size), self.integer(self.streamed))

    def allocate_scratch(self) -> None:
        """Memory for rows that are used again."""
        for position, scratch in enumerate(self.kernel.scratch, len(self.kernel.buffers)):
            size = self.index(scratch.size)
            width = scratch.dtype.itemsize
            if size.is_constant and int(size.text) * width <= STACK_LIMIT:
                name = self.function.alloca(f"[{max(int(size.text), 1)} x {memory_type(scratch.dtype)}]", align=64)
            else:
                size = self.binary("mul", size, self.integer(width))
                size = self.binary("and", self.binary("add", size, self.integer(127)), self.integer(-64))
                self.module.declare("aligned_alloc", "noalias ptr", "i64, i64")
                self.module.declare("free", "void", "ptr")
                name = self.raw(f"call ptr @aligned_alloc(i64 64, i64 {size.text})")
                self.freed.append(name)
            self.pointers[scratch.name] = name
            if self.target.checked:
                end = self.raw(f"getelementptr {memory_type(scratch.dtype)}, ptr {name}, "
                               f"i64 {self.index(scratch.size).text}")
                self.checked[self.function].extents[name] = bounds.Extent(name, end, position)

    def free_scratch(self) -> None:
        for name in self.freed:
            self.line(f"call void @free(ptr {name})")

    def top(self, body: Sequence[Statement]) -> None:
        """The statements of a kernel."""
        for statement in body:
            if isinstance(statement, Loop) and statement.parallel:
                self._parallel(statement)
            else:
                self._here([statement])
        self.free_scratch()

    def _here(self, body: Sequence[Statement]) -> None:
        """Statements that the calling thread runs."""
        if self.kernel.scratch and self.kernel.scratch[0].name not in self.pointers:
            self.allocate_scratch()
        self.run(body)

    # parallel loops

    def _parallel(self, loop: Loop) -> None:
        """A call of the loop's function, by all threads if there is enough to do."""
        nest = _nest(loop, self.written)
        once = vectorising.weight(nest.body).substitute({one.axis.symbol: as_expr(0) for one in nest.loops})
        work = self.index(nest.points * once)
        if (work.is_constant and int(work.text) < 2 * self.grain) or not has_symbol("torch_parallel_for"):
            self._here([loop])
            return
        iterations = self.index(nest.iterations)
        each = self.intrinsic("smax", self.index(once * nest.unit), self.integer(1))
        name = f"PREFIX.p{len(self.module.functions)}"
        context = self._context()
        self._outline(name, nest)
        grain = self.intrinsic("smax", self.binary("udiv", self.integer(self.grain), each), self.integer(1))
        self.module.declare("torch_parallel_for", "void", "i64, i64, i64, ptr, ptr")
        large = self.compare("sge", work, self.integer(2 * self.grain))
        here, threads, after = (self.function.block(hint) for hint in ("serial", "threads", "joined"))
        self.block.terminator = f"br i1 {large.text}, label %{threads.name}, label %{here.name}"
        here.lines.append(f"call void @{name}(i64 0, i64 {iterations.text}, ptr {context})")
        here.terminator = f"br label %{after.name}"
        threads.lines.append(f"call void @torch_parallel_for(i64 0, i64 {iterations.text}, i64 {grain.text}, "
                             f"ptr @{name}, ptr {context})")
        threads.terminator = f"br label %{after.name}"
        self.scopes[-1].block = after
        self.scopes[-1].volatile.clear()

    def _context(self) -> str:
        """The record that a parallel loop gets: the parameters, then the locals so far."""
        context = self.function.alloca(f"[{3 + len(self.locals)} x i64]", align=8)
        for position, name in enumerate(("%buffers", "%sizes", "%numbers")):
            at = self.raw(f"getelementptr ptr, ptr {context}, i64 {position}")
            self.line(f"store ptr {name}, ptr {at}, align 8")
        for position, operand in enumerate(self.locals.values(), 3):
            at = self.raw(f"getelementptr i64, ptr {context}, i64 {position}")
            kind, text = self.to_memory(operand)
            self.line(f"store {kind} {text}, ptr {at}, align 8")
        return context

    def _outline(self, name: str, nest: _Nest) -> None:
        """The function of a parallel loop."""
        function = Function(f"internal void @{name}(i64 %begin, i64 %end, ptr %context)", self.target.attributes)
        inner = KernelPrinter(self.kernel, self.module, function, self.target)
        at = [inner.raw(f"getelementptr ptr, ptr %context, i64 {position}") for position in range(3)]
        parameters = [inner.raw(f"load ptr, ptr {pointer}, align 8{INVARIANT}") for pointer in at]
        inner.parameters(*parameters)
        for position, (local, operand) in enumerate(self.locals.items(), 3):
            pointer = inner.raw(f"getelementptr i64, ptr %context, i64 {position}")
            kind = memory_type(operand.dtype)
            loaded = inner.raw(f"load {kind}, ptr {pointer}, align 8")
            if operand.dtype is torch.bool:
                loaded = inner.raw(f"trunc {kind} {loaded} to {element_type(operand.dtype)}")
            inner.locals[local] = Operand(loaded, operand.dtype, 1)
        inner.allocate_scratch()
        inner.range(nest, Operand("%begin", torch.int64, 1), Operand("%end", torch.int64, 1))
        inner.free_scratch()
        inner.block.terminator = "ret void"
        self.module.functions.append(function)
        self.checked.update(inner.checked)

    def range(self, nest: _Nest, begin: Operand, end: Operand) -> None:
        """Some of the iterations of a parallel loop."""
        if nest.split is None:
            if len(nest.outer) == 1:
                with self.counted(nest.outer[0].axis.symbol, begin, end):
                    self.run(nest.body)
                return
            with self.loop(begin, end, 1) as flat:
                self._digits(flat, nest.outer)
                self.run(nest.body)
        elif not nest.outer:
            self._blocks(nest, begin, end)
        else:
            with self.loop(begin, end, 1) as flat:
                blocks = self.index(nest.blocks)
                block = self.binary("urem", flat, blocks)
                self._digits(self.binary("udiv", flat, blocks), nest.outer)
                self._blocks(nest, block, self.binary("add nsw", block, self.integer(1)))

    def _blocks(self, nest: _Nest, begin: Operand, end: Operand) -> None:
        """Blocks of the iterations of a loop that has lanes or tiles."""
        loop = nest.split
        assert loop is not None
        first = self.binary("mul", begin, self.integer(nest.unit))
        last = self.intrinsic("smin", self.binary("mul", end, self.integer(nest.unit)), self.size(loop.axis.size))
        if tiles.applies(loop, self.written):
            tiles.emit_tiles(self, loop, first, last)
        else:
            self.vector_loop(loop.axis.symbol, first, last, loop.body)

    def _digits(self, number: Operand, loops: Sequence[Loop]) -> None:
        """Bind the variables of collapsed loops to the digits of one number."""
        for loop in reversed(loops[1:]):
            size = self.size(loop.axis.size)
            self.bind(loop.axis.symbol, self.binary("urem", number, size))
            number = self.binary("udiv", number, size)
        self.bind(loops[0].axis.symbol, number)


@dataclass(frozen=True)
class _Nest:
    """Parallel loops that are run as one: all iterations of `outer`, and blocks of `unit` iterations of `split`."""

    outer: tuple[Loop, ...]
    split: Loop | None
    unit: int

    @property
    def loops(self) -> tuple[Loop, ...]:
        return self.outer if self.split is None else (*self.outer, self.split)

    @property
    def body(self) -> list[Statement]:
        return self.loops[-1].body

    @property
    def points(self) -> Expr:
        """How often the body runs."""
        count = as_expr(1)
        for loop in self.loops:
            count = count * loop.axis.size
        return count

    @property
    def blocks(self) -> Expr:
        return as_expr(1) if self.split is None else (self.split.axis.size + (self.unit - 1)) // self.unit

    @property
    def iterations(self) -> Expr:
        count = self.blocks
        for loop in self.outer:
            count = count * loop.axis.size
        return count


def _nest(loop: Loop, written: frozenset[str]) -> _Nest:
    """How a parallel loop is shared out, with the parallel loops directly inside."""
    outer: list[Loop] = []
    while True:
        if tiles.applies(loop, written):
            return _Nest(tuple(outer), loop, tiles.ROWS if outer else tiles.UNIT)
        if vectorising.vectorise_here(loop):
            return _Nest(tuple(outer), loop, BLOCK)
        outer.append(loop)
        inside = loop.body[0]
        if len(loop.body) > 1 or not isinstance(inside, Loop) or not inside.parallel:
            return _Nest(tuple(outer), None, 1)
        loop = inside
