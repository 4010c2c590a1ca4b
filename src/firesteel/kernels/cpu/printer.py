"""A kernel as LLVM IR: its entry, and one function for every parallel loop.

    void kernel(void **buffers, int64_t *sizes, double *numbers)

A parallel loop is a function of a range of its iterations and a record of what it needs, which torch's own threads run
(`torch_parallel_for`). A loop that is too little work for that is run by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...shapes import Expr, Symbol, as_expr
from ..ir import Kernel, Loop, Statement
from . import tiles, vectorising
from .statements import StatementEmitter
from .target import Target
from .text import Function, Module, Operand, element_type, memory_type

GRAIN = 3 * 32768
"""The least work that is worth a thread, in reads of an element."""

BLOCK = 1024
"""Iterations that are not split between threads, where they become lanes."""

TILED_ROWS = 64
"""The same for rows that are worked on in tiles."""

INVARIANT = ", !invariant.load !{}"
"""Said of loads that always give the same."""

STACK_LIMIT = 32768
"""Bytes of scratch memory that may lie on the stack."""


def print_kernel(kernel: Kernel, target: Target) -> Module:
    """The code of a kernel. Its names begin with `PREFIX`."""
    module = Module()
    entry = Function("void @PREFIX(ptr %buffers, ptr %sizes, ptr %numbers)", target.attributes)
    printer = KernelPrinter(kernel, module, entry, target)
    printer.parameters("%buffers", "%sizes", "%numbers")
    printer.top(kernel.body)
    printer.block.terminator = "ret void"
    module.functions.append(entry)
    return module


class KernelPrinter(StatementEmitter):
    """Writes one function of a kernel."""

    def __init__(self, kernel: Kernel, module: Module, function: Function, target: Target) -> None:
        super().__init__(module, function, target)
        self.kernel = kernel
        self.freed: list[str] = []

    def parameters(self, buffers: str, sizes: str, numbers: str) -> None:
        """Read the kernel's parameters."""
        kernel = self.kernel
        pointers, dtypes = {}, {}
        for position, buffer in enumerate(kernel.buffers):
            at = self.raw(f"getelementptr ptr, ptr {buffers}, i64 {position}")
            pointers[buffer.name] = self.raw(f"load ptr, ptr {at}, align 8{INVARIANT}")
            dtypes[buffer.name] = buffer.dtype
        for position, symbol in enumerate(kernel.sizes):
            at = self.raw(f"getelementptr i64, ptr {sizes}, i64 {position}")
            self.symbols[symbol] = self.instruction(f"load i64, ptr {at}, align 8{INVARIANT}", torch.int64, 1)
        found: dict[Symbol, Operand] = {}
        for position, symbol in enumerate(kernel.numbers):
            at = self.raw(f"getelementptr double, ptr {numbers}, i64 {position}")
            found[symbol] = self.instruction(f"load double, ptr {at}, align 8{INVARIANT}", torch.float64, 1)
        written = frozenset(kernel.writes) | {scratch.name for scratch in kernel.scratch}
        dtypes.update({scratch.name: scratch.dtype for scratch in kernel.scratch})
        self.setup(pointers, dtypes, written, found)

    def allocate_scratch(self) -> None:
        """Memory for rows that are used again."""
        for scratch in self.kernel.scratch:
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

    def free_scratch(self) -> None:
        for name in self.freed:
            self.line(f"call void @free(ptr {name})")

    def top(self, body: Sequence[Statement]) -> None:
        """The statements of a kernel."""
        serial = vectorising.collides(body)
        if not self.kernel.scratch:
            self._statements(body, serial)
            return
        needs = any(not isinstance(s, Loop) or serial or not s.parallel for s in body)
        if needs:
            self.allocate_scratch()
        self._statements(body, serial)
        if needs:
            self.free_scratch()

    def _statements(self, body: Sequence[Statement], serial: bool) -> None:
        start = 0
        for position, statement in enumerate(body):
            if isinstance(statement, Loop) and statement.parallel and not serial:
                self.run(body[start:position])
                self._parallel(statement)
                start = position + 1
        self.run(body[start:])

    # parallel loops

    def _parallel(self, loop: Loop) -> None:
        """A call of the loop's function, by all threads if there is enough to do."""
        loops, lanes = _collapse(loop, self.written)
        body = loops[-1].body
        count = as_expr(1)
        for one in loops:
            count = count * one.axis.size
        unit = (TILED_ROWS if tiles.applies(loop, self.written) else BLOCK) if lanes else 1
        once = vectorising.weight(body).substitute({one.axis.symbol: as_expr(0) for one in loops})
        work = self.index(count * once)
        iterations = self.index((count + (unit - 1)) // unit)
        each = self.index(once * unit)
        name = f"PREFIX.p{len(self.module.functions)}"
        context = self._context()
        self._outline(name, loops, unit if lanes else 0)
        if work.is_constant and int(work.text) < 2 * GRAIN:
            self.line(f"call void @{name}(i64 0, i64 {iterations.text}, ptr {context})")
            return
        each = self.intrinsic("smax", each, self.integer(1))
        grain = self.intrinsic("smax", self.binary("udiv", self.integer(GRAIN), each), self.integer(1))
        self.module.declare("torch_parallel_for", "void", "i64, i64, i64, ptr, ptr")
        large = self.compare("sge", work, self.integer(2 * GRAIN))
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

    def _outline(self, name: str, loops: list[Loop], unit: int) -> None:
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
        begin, end = Operand("%begin", torch.int64, 1), Operand("%end", torch.int64, 1)
        body = loops[-1].body
        if unit:
            first = inner.binary("mul", begin, inner.integer(unit))
            last = inner.binary("mul", end, inner.integer(unit))
            last = inner.intrinsic("smin", last, inner.size(loops[0].axis.size))
            if tiles.applies(loops[0], inner.written):
                tiles.emit_tiles(inner, loops[0], first, last)
            else:
                inner.vector_loop(loops[0].axis.symbol, first, last, body)
        elif len(loops) == 1:
            with inner.counted(loops[0].axis.symbol, begin, end):
                inner.run(body)
        else:
            with inner.loop(begin, end, 1) as flat:
                inner.unflatten(flat, loops)
                inner.run(body)
        inner.free_scratch()
        inner.block.terminator = "ret void"
        self.module.functions.append(function)

    def unflatten(self, flat: Operand, loops: list[Loop]) -> None:
        """Bind the variables of collapsed loops to the digits of one number."""
        rest = flat
        for loop in reversed(loops[1:]):
            size = self.size(loop.axis.size)
            self.bind(loop.axis.symbol, self.binary("urem", rest, size))
            rest = self.binary("udiv", rest, size)
        self.bind(loops[0].axis.symbol, rest)


def _collapse(loop: Loop, written: frozenset[str]) -> tuple[list[Loop], bool]:
    """The parallel loops that are run as one, and whether their iterations are lanes (then it is one loop)."""
    if tiles.applies(loop, written) or vectorising.vectorise_here(loop):
        return [loop], True
    loops = [loop]
    while len(loops[-1].body) == 1:
        inside = loops[-1].body[0]
        if not isinstance(inside, Loop) or not inside.parallel or vectorising.vectorise_here(inside):
            break
        loops.append(inside)
    return loops, False


def total_work(body: Sequence[Statement]) -> Expr:
    """The work of a whole kernel, in reads of an element."""
    return vectorising.weight(body)
