"""A native segment of a host program: allocations, kernels and views between two calls of ATen, as one table."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...devices import kind_of
from ...native.program import Op as Arithmetic
from ...records import dataclass
from ...shapes import Expr, Symbol, maximum
from ...shapes.checker_rows import Expressions, OnlyInPython
from ...torch_compat import native_calls
from ..huge_pages import may_be_large
from ..ir import Buffer, BufferRef
from ..plan import Launch, Step
from ..titles import title
from . import bounds
from .launch_ranges import number_of
from .launching import Launchable, device_number
from .lifetimes import Lifetimes
from .plan_emitter import PlanEmitter, bytes_of
from .program import HostProgram, Op

RELEASING_SIZE = 1 << 16
"""Kernels over at least as many elements let other Python threads run meanwhile."""


class NeedsPython(Exception):
    """A number has to be computed in Python, or something is needed that is not among the arguments."""


@dataclass(frozen=True)
class NativeSegment:
    """A finished segment: the Python expressions it is called with, and its table."""

    arguments: list[str]
    table: tuple[bytes, tuple[Any, ...]]


class SegmentBuilder(PlanEmitter[int]):
    """Builds the table of one segment. Tensors, addresses and numbers are registers."""

    def __init__(self, lifetimes: Lifetimes, kernels: Mapping[int, Launchable], variable: Callable[[str], str],
                 symbols: Mapping[Symbol, tuple[str, str, int] | str], python: Callable[[Expr], str],
                 arguments: Sequence[str] = (), checked: bool = False) -> None:
        """``kernels``: addresses of kernels, or kernels that run in blocks, by the identity of their description.
        ``variable``: Python's name of a buffer. ``checked``: kernels are told where buffers end.

        ``symbols``: for each a size or stride of a buffer, or the Python variable of a number. ``python`` prints an
        expression that rows cannot compute.
        """
        super().__init__(lifetimes, lifetimes.tensors)
        self.kernels = kernels
        self.variable = variable
        self.symbols = symbols
        self.python = python
        self.checked = checked
        self.arguments = list(arguments)
        self.numbered = {text: register for register, text in enumerate(self.arguments)}
        self.complete = bool(arguments)
        self.program = HostProgram(len(self.arguments))
        self.expressions = Expressions(self.program, self.symbol)
        self.bytes_of: dict[str, Expr] = {}
        """The memory of buffers that the segment makes itself."""
        self.edges: dict[str, int] = {}
        self.memory: dict[str, int] = {}
        self.temporary: dict[str, int] = {}
        """Tensors that nothing outside of the segment sees, on devices where there is no plain memory."""
        self.constants: dict[int, int] = {}
        self.numbers: dict[Expr, int] = {}
        self.views: dict[str, int] = {}

    # Arguments and numbers

    def argument(self, text: str) -> int:
        """The register of what a Python expression gives; on the first pass the arguments are only collected."""
        register = self.numbered.get(text)
        if register is None:
            if self.complete:
                raise NeedsPython(text)
            register = self.numbered[text] = len(self.arguments)
            self.arguments.append(text)
        return register

    def constant(self, value: int) -> int:
        """The register of a constant of 64 bits."""
        register = self.constants.get(value)
        if register is None:
            register = self.constants[value] = self.program.fill(Arithmetic.CONSTANT, a=value)
        return register

    def symbol(self, symbol: Symbol) -> int:
        """The register of the value of a symbol."""
        where = self.symbols[symbol]
        if isinstance(where, str):
            return self.program.fill(Op.INTEGER, self.argument(where))
        buffer, kind, dim = where
        return self.program.fill(Op.SIZE if kind == "size" else Op.STRIDE, self.tensor(buffer), index=dim)

    def number(self, expr: Expr) -> int:
        """The register of an integer."""
        if expr.is_constant:
            return self.constant(int(expr))  # type: ignore[call-overload]
        try:
            return self.expressions.number(expr)
        except OnlyInPython:
            pass
        register = self.numbers.get(expr)
        if register is None:
            register = self.numbers[expr] = self.program.fill(Op.INTEGER, self.argument(self.python(expr)))
        return register

    def float(self, expr: Expr) -> int:
        """The register of the bits of a float."""
        if expr.is_constant:
            return self.constant(struct.unpack("=q", struct.pack("=d", float(expr)))[0])  # type: ignore[arg-type]
        register = self.numbers.get(expr)
        if register is None:
            register = self.numbers[expr] = self.program.fill(Op.FLOAT, self.argument(self.python(expr)))
        return register

    def extent(self, expr: Expr) -> int | Expr:
        """A size or stride, as an int where it is known."""
        return int(expr) if expr.is_constant else expr  # type: ignore[call-overload]

    # Buffers

    def find_tensor(self, buffer: str) -> int:
        constant = self.lifetimes.plan.constants.get(buffer)
        if constant is not None:
            return self.program.fill(Arithmetic.CONSTANT, a=self.program.keep(constant))
        return self.argument(self.variable(buffer))

    def find_address(self, root: str) -> int:
        return self.program.fill(Op.POINTER, self.tensor(root))

    def start(self, buffer: str) -> int:
        """The register of the address at which the storage of a buffer begins."""
        root = self.lifetimes.group(buffer)
        return self.address(root) if root in self.bytes_of else self.edge(root, bounds.start_of)

    def end(self, buffer: str) -> int:
        """The register of the address behind the storage of a buffer."""
        root = self.lifetimes.group(buffer)
        size = self.bytes_of.get(root)
        if size is None:
            return self.edge(root, bounds.end_of)
        return self.program.fill(Arithmetic.ADD_SCALED, self.number(size), a=1, index=self.address(root))

    def edge(self, root: str, of: Callable[[Any], int]) -> int:
        """Where the storage of a tensor from outside begins or ends: a host program knows the function by its name."""
        constant = self.lifetimes.plan.constants.get(root)
        if constant is not None:
            return self.constant(of(constant))
        text = f"{of.__name__}({self.variable(root)})"
        if text not in self.edges:
            self.edges[text] = self.program.fill(Op.INTEGER, self.argument(text))
        return self.edges[text]

    # Steps

    def layout(self, buffer: Buffer | BufferRef) -> tuple[list[int | Expr], list[int | Expr]]:
        """Sizes and strides, as ints where they are known."""
        assert buffer.shape is not None and buffer.strides is not None
        return [self.extent(size) for size in buffer.shape], [self.extent(stride) for stride in buffer.strides]

    def new_view(self, buffer: Buffer, root: str) -> None:
        self.handles[buffer.name] = self.program.view(self.tensor(root), *self.layout(buffer), 0, self.number)

    def new_tensor(self, buffer: Buffer) -> None:
        name, size = buffer.name, bytes_of(buffer)
        dtype, device = native_calls.dtype_number(buffer.dtype), device_number(buffer.device)
        self.handles[name], self.addresses[name] = self.program.empty(*self.layout(buffer), dtype, self.number, device)
        self.bytes_of[name] = bounds.bytes_of(buffer, size)
        if name not in self.tensors:
            self.temporary[name] = self.handles[name]
        if kind_of(buffer.device).is_host:
            self.advise(self.addresses[name], size)

    def new_memory(self, buffer: Buffer) -> None:
        name, program = buffer.name, self.program
        self.bytes_of[name] = size = maximum(bytes_of(buffer), 1)
        register = program.register()
        program.row(Op.MEMORY, register, self.number(size))
        program.memory.append(register)
        self.addresses[name] = self.memory[name] = register
        self.advise(register, size)

    def advise(self, address: int, size: Expr) -> None:
        """Huge pages for memory that is large, or may be."""
        if sys.platform == "linux" and may_be_large(size):
            self.program.advise(address, self.number(size))

    def launch(self, step: Launch) -> None:
        kernel = self.kernels[id(step.kernel)]
        numbers = [self.float(number) for number in step.numbers]
        buffers = [self.address(name) for name in step.buffers]
        sizes = [self.number(size) for size in step.sizes]
        name = number_of(title(step.origins or step.kernel.origins)) if self.complete else 0
        if isinstance(kernel, int):
            if self.checked:
                number = bounds.launch_number(step.kernel, step.buffers)
                buffers += [*map(self.start, step.buffers), *map(self.end, step.buffers)]
                buffers += [self.constant(bounds.record_address()), self.constant(number)]
            self.program.launch(kernel, buffers, sizes, numbers, _is_long(step), name)
        else:
            programs = self.number(step.in_plan(kernel.programs))
            told = [] if kernel.extent is None else [self.number(step.in_plan(kernel.extent))]
            self.program.launch_blocks(kernel.address, programs, buffers, sizes, [*numbers, *told], name)

    def release(self, roots: Sequence[str]) -> None:
        for root in roots:
            if root in self.memory:
                self.program.row(Op.FREE, source=self.memory.pop(root))
            elif root in self.temporary:
                self.program.row(Op.DROP, source=self.temporary.pop(root))

    def view(self, variable: str, reference: BufferRef) -> None:
        """A strided view that the caller knows under the name of a variable."""
        layout, base = self.layout(reference), self.tensor(reference.buffer)
        offset = self.extent(reference.offset) if reference.offset is not None else 0
        self.views[variable] = self.program.view(base, *layout, offset, self.number)

    def run(self, steps: Sequence[tuple[int, Step]], views: Sequence[tuple[str, BufferRef]]) -> None:
        """Write steps, then views under the names of variables."""
        self.walk(steps)
        for variable, reference in views:
            self.view(variable, reference)


def _is_long(step: Launch) -> bool:
    """Whether a kernel is worth letting other threads run. Sizes that are not known now are taken to be large."""
    for buffer in step.kernel.buffers:
        elements = 1
        for size in buffer.shape:
            if not size.is_constant:
                return True
            elements *= int(size)  # type: ignore[call-overload]
        if elements >= RELEASING_SIZE:
            return True
    return False


def build(steps: Sequence[tuple[int, Step]], views: Sequence[tuple[str, BufferRef]], results: Sequence[str],
          make: Callable[[Sequence[str]], SegmentBuilder], as_tuple: bool,
          arguments: Sequence[str] = ()) -> NativeSegment:
    """Build a segment that returns the tensors of the buffers ``results``, then the ``views``.

    It is built twice: registers are numbered behind the arguments, which are known only at the end of the first pass.
    """
    if not arguments:
        first = make(())
        first.run(steps, views)
        _registers(first, results)
        arguments = first.arguments
    builder = make(arguments)
    builder.complete = True
    builder.run(steps, views)
    return NativeSegment(list(arguments), builder.program.finish(_registers(builder, results), as_tuple))


def _registers(builder: SegmentBuilder, results: Sequence[str]) -> list[int]:
    return [*map(builder.tensor, results), *builder.views.values()]
