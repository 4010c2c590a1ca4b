"""A native segment of a host program: allocations, kernels and views between two calls of ATen, as one table."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...native.program import Op as Arithmetic
from ...records import dataclass
from ...shapes import Expr, Symbol, const, maximum
from ...shapes.checker_rows import Expressions, Unsupported
from ...torch_compat import native_calls
from ..huge_pages import LARGE
from ..ir import Buffer, BufferRef
from ..plan import Allocate, Launch
from . import bounds
from .launching import Launchable, device_number
from .lifetimes import Lifetimes
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


class SegmentBuilder:
    """Builds the table of one segment."""

    def __init__(self, found: Lifetimes, addresses: Mapping[int, Launchable], variable: Callable[[str], str],
                 symbols: Mapping[Symbol, tuple[str, str, int] | str], python: Callable[[Expr], str],
                 arguments: Sequence[str] = (), checked: bool = False) -> None:
        """``addresses``: of kernels, by the identity of their description, or kernels that run in blocks.
        ``variable``: Python's name of a buffer. ``checked``: kernels are told where buffers end.

        ``symbols``: for each a size or stride of a buffer, or the Python variable of a number. ``python`` prints an
        expression that rows cannot compute.
        """
        self.found = found
        self.addresses = addresses
        self.variable = variable
        self.symbols = symbols
        self.python = python
        self.checked = checked
        self.arguments = list(arguments)
        self.complete = bool(arguments)
        self.program = HostProgram(len(self.arguments))
        self.expressions = Expressions(self.program, self.symbol)
        self.objects: dict[str, int] = {}
        self.addresses_of: dict[str, int] = {}
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
        if text not in self.arguments:
            if self.complete:
                raise NeedsPython(text)
            self.arguments.append(text)
        return self.arguments.index(text)

    def constant(self, value: int) -> int:
        register = self.constants.get(value)
        if register is None:
            register = self.constants[value] = self.program.fill(Arithmetic.CONSTANT, a=value)
        return register

    def symbol(self, symbol: Symbol) -> int:
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
        except Unsupported:
            pass
        found = self.numbers.get(expr)
        if found is None:
            found = self.numbers[expr] = self.program.fill(Op.INTEGER, self.argument(self.python(expr)))
        return found

    def float(self, expr: Expr) -> int:
        """The register of the bits of a float."""
        if expr.is_constant:
            return self.constant(struct.unpack("=q", struct.pack("=d", float(expr)))[0])  # type: ignore[arg-type]
        found = self.numbers.get(expr)
        if found is None:
            found = self.numbers[expr] = self.program.fill(Op.FLOAT, self.argument(self.python(expr)))
        return found

    def extent(self, expr: Expr) -> int | Expr:
        return int(expr) if expr.is_constant else expr  # type: ignore[call-overload]

    # Buffers

    def tensor(self, buffer: str) -> int:
        """The register of a buffer's tensor."""
        if self.found.is_same_tensor(buffer):
            buffer = self.found.group(buffer)
        register = self.objects.get(buffer)
        if register is None:
            constant = self.found.plan.constants.get(buffer)
            if constant is not None:
                register = self.program.fill(Arithmetic.CONSTANT, a=self.program.keep(constant))
            else:
                register = self.argument(self.variable(buffer))
            self.objects[buffer] = register
        return register

    def address(self, buffer: str) -> int:
        """The register of the address of a buffer's first element."""
        root = self.found.group(buffer)
        register = self.addresses_of.get(root)
        if register is None:
            register = self.addresses_of[root] = self.program.fill(Op.POINTER, self.tensor(root))
        return register

    def start(self, buffer: str) -> int:
        """The register of the address at which the storage of a buffer begins."""
        root = self.found.group(buffer)
        return self.address(root) if root in self.bytes_of else self.edge(root, bounds.start_of)

    def end(self, buffer: str) -> int:
        """The register of the address behind the storage of a buffer."""
        root = self.found.group(buffer)
        size = self.bytes_of.get(root)
        if size is None:
            return self.edge(root, bounds.end_of)
        return self.program.fill(Arithmetic.ADD_SCALED, self.number(size), a=1, index=self.address(root))

    def edge(self, root: str, of: Callable[[Any], int]) -> int:
        """The same for tensors from outside, by a function that a host program knows under its own name."""
        constant = self.found.plan.constants.get(root)
        if constant is not None:
            return self.constant(of(constant))
        text = f"{of.__name__}({self.variable(root)})"
        if text not in self.edges:
            self.edges[text] = self.program.fill(Op.INTEGER, self.argument(text))
        return self.edges[text]

    # Steps

    def allocate(self, buffer: Buffer) -> None:
        name, program = buffer.name, self.program
        root = self.found.group(name)
        sizes = [self.extent(size) for size in buffer.shape]
        strides = [self.extent(stride) for stride in buffer.strides]
        if root != name:
            if self.found.is_new_tensor(name):
                self.objects[name] = program.view(self.tensor(root), sizes, strides, 0, self.number)
        elif name in self.found.tensors or buffer.device.type != "cpu":
            dtype, device = native_calls.dtype_number(buffer.dtype), device_number(buffer.device)
            self.objects[name], self.addresses_of[name] = program.empty(sizes, strides, dtype, self.number, device)
            self.bytes_of[name] = bounds.bytes_of(buffer, _bytes(buffer))
            if name not in self.found.tensors:
                self.temporary[name] = self.objects[name]
            if buffer.device.type == "cpu":
                self.advise(self.addresses_of[name], _bytes(buffer))
        else:
            self.bytes_of[name] = size = maximum(_bytes(buffer), 1)
            register = program.register()
            program.row(Op.MEMORY, register, self.number(size))
            program.memory.append(register)
            self.addresses_of[name] = self.memory[name] = register
            self.advise(register, size)

    def advise(self, address: int, size: Expr) -> None:
        """Huge pages for memory that is large, or may be."""
        if sys.platform == "linux" and not (size.is_constant and int(size) < LARGE):  # type: ignore[call-overload]
            self.program.advise(address, self.number(size))

    def launch(self, step: Launch) -> None:
        kernel = self.addresses[id(step.kernel)]
        numbers = [self.float(number) for number in step.numbers]
        buffers = [self.address(name) for name in step.buffers]
        sizes = [self.number(size) for size in step.sizes]
        if isinstance(kernel, int):
            if self.checked:
                number = bounds.launch_number(step.kernel, step.buffers)
                buffers += [*map(self.start, step.buffers), *map(self.end, step.buffers)]
                buffers += [self.constant(bounds.record_address()), self.constant(number)]
            self.program.launch(kernel, buffers, sizes, numbers, _is_long(step))
        else:
            at: dict[Expr, Expr | int | float] = dict(zip(step.kernel.sizes, step.sizes, strict=True))
            programs = self.number(kernel.programs.substitute(at))
            told = [] if kernel.extent is None else [self.number(kernel.extent.substitute(at))]
            self.program.launch_blocks(kernel.address, programs, buffers, sizes, [*numbers, *told])

    def view(self, variable: str, reference: BufferRef) -> None:
        assert reference.shape is not None and reference.strides is not None
        sizes = [self.extent(size) for size in reference.shape]
        strides = [self.extent(stride) for stride in reference.strides]
        offset = self.extent(reference.offset) if reference.offset is not None else 0
        base = self.tensor(reference.buffer)
        self.views[variable] = self.program.view(base, sizes, strides, offset, self.number)

    def run(self, steps: Sequence[tuple[int, Any]], views: Sequence[tuple[str, BufferRef]]) -> None:
        for position, step in steps:
            if isinstance(step, Allocate):
                self.allocate(step.buffer)
            else:
                self.launch(step)
            for root in self.found.ending(position):
                if root in self.memory:
                    self.program.row(Op.FREE, source=self.memory.pop(root))
                elif root in self.temporary:
                    self.program.row(Op.DROP, source=self.temporary.pop(root))
        for variable, reference in views:
            self.view(variable, reference)


def _bytes(buffer: Buffer) -> Expr:
    """The memory from a buffer's first element to its last."""
    elements: Expr = const(1)
    for size, stride in zip(buffer.shape, buffer.strides, strict=True):
        elements = elements + (size - 1) * stride
    return elements * buffer.dtype.itemsize


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


def build(steps: Sequence[tuple[int, Any]], views: Sequence[tuple[str, BufferRef]], results: Sequence[str],
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
