"""Versions of a kernel: the fast one takes things for granted, and others are there for when they do not hold.

Taken for granted is that buffers begin at multiples of 16 bytes, that the sizes which were multiples of 16 when the
program was compiled still are, and that indices have 32 bits. The launching function looks at the arguments of every
launch (see `driver`), and what does not hold makes up the number of the version that it takes:

    1   a buffer is not aligned
    2   a size is not a multiple of 16
    4   indices need 64 bits

A version other than 0 is compiled when it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...shapes import Call, Const, Expr, Symbol, const, maximum, polynomials
from ...shapes.expr import ONE
from .. import ir
from ..ir import Kernel
from ..plan import KernelPlan, Launch
from .blocks import Blocks
from .statements import counted_axes, is_wide
from .triton_printer import TritonKernel, print_triton

UNALIGNED, UNEVEN, WIDE = 1, 2, 4
COUNT = 8
LIMIT = 1 << 30
"""Indices below have 32 bits. What is beside the end of a loop is computed too, so half of them is left free."""


def print_versions(kernel: Kernel, even: Sequence[Symbol] = (), blocks: Blocks | None = None) -> TritonKernel:
    """A kernel as Triton source, with its other version where sizes decide; ``even``: sizes that are multiples of 16.

    Raises `Unsupported` for what has no Triton here.
    """
    extent = extent_of(kernel)
    printed = print_triton(kernel, blocks)
    if extent is not None:
        printed = replace(print_triton(kernel, blocks, narrow=True), wide=printed, extent=extent)
    first, useful = len(kernel.buffers), _useful(kernel, even)
    positions = tuple([first + number for number, size in enumerate(kernel.sizes) if size in useful])
    return replace(printed, even=positions) if positions else printed


def _useful(kernel: Kernel, even: Sequence[Symbol]) -> set[Symbol]:
    """Those sizes without which accesses would be narrow: rows that begin, and end, at multiples of 16.

    How many rows there are does not matter, and a product is a multiple when one of its factors is. The fewer sizes
    are taken for granted, the fewer calls need another version.
    """
    symbols: set[Symbol] = set()
    for buffer in kernel.buffers:
        for size, stride in zip(buffer.shape, buffer.strides, strict=True):
            _, terms = polynomials.parts(size if stride is ONE else stride)
            for term, coefficient in terms:
                candidates = [symbol for symbol in even if symbol in term.free_symbols]
                if coefficient % 16 and candidates and symbols.isdisjoint(candidates):
                    symbols.add(candidates[-1])
    return symbols


def extent_of(kernel: Kernel) -> Expr | None:
    """How far the sizes, indices and loops of a kernel reach, in terms of its sizes.

    None where sizes do not decide: they are all known, or something else is needed to know it.
    """
    if not kernel.sizes or not is_wide(kernel):
        return None
    parts: dict[Expr, None] = dict.fromkeys([*kernel.sizes, *[-size for size in kernel.sizes if size in kernel.signed]])
    for buffer in kernel.buffers:
        last: Expr = const(0)
        for size, stride in zip(buffer.shape, buffer.strides, strict=True):
            last = last + (size - 1) * stride
        parts[last] = None
    own = frozenset(kernel.sizes)
    parts.update(dict.fromkeys(_points(kernel.body, const(1), own)))
    if any(not part.free_symbols <= own for part in parts):
        return None
    if any(isinstance(part, Const) and int(part.value) >= LIMIT for part in parts):
        return None
    varying = [part for part in parts if not isinstance(part, Const)]
    return maximum(*varying)


def _points(body: Sequence[ir.Statement], outside: Expr, own: frozenset[Symbol]) -> Iterator[Expr]:
    """How often the innermost statements are done."""
    for statement in body:
        if isinstance(statement, ir.Loop):
            yield from _points(statement.body, outside * _longest(statement.axis.size, own), own)
            continue
        total = outside
        for axis in counted_axes(statement):
            total = total * _longest(axis.size, own)
        yield total


def _longest(size: Expr, own: frozenset[Symbol]) -> Expr:
    """The length of a loop; of one that the end of another cuts short, the length of the others."""
    if isinstance(size, Call) and size.op == "min":
        return next((part for part in size.operands if part.free_symbols <= own), size)
    return size


def even_sizes(plan: KernelPlan, hints: Mapping[Symbol, int]) -> dict[int, tuple[Symbol, ...]]:
    """The sizes that are multiples of 16 in every launch, by the identity of kernels; ``hints``: symbols as they
    are."""
    values: dict[Expr, Expr | int | float] = {symbol: hint for symbol, hint in hints.items()}
    even_of: dict[int, tuple[Symbol, ...]] = {}
    for step in plan.steps:
        if isinstance(step, Launch) and step.sizes:
            now = [_is_even(size.substitute(values)) for size in step.sizes]
            before = even_of.get(id(step.kernel), tuple(step.kernel.sizes))
            even_of[id(step.kernel)] = tuple([symbol for symbol, even in zip(step.kernel.sizes, now, strict=True)
                                              if even and symbol in before])
    return even_of


def _is_even(size: Expr) -> bool:
    return isinstance(size, Const) and isinstance(size.value, int) and size.value > 0 and size.value % 16 == 0
