"""What lowering hands to scheduling: the buffers of a graph and, in order, what fills them."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ...records import dataclass
from ...shapes import Expr, Facts, Symbol
from ..ir import Buffer, BufferRef, Computation, ExternCall


@dataclass(frozen=True)
class Fallback:
    """An operator that stays a call of ATen, and why."""

    operator: str
    reason: str
    node: Any


@dataclass
class LoweredGraph:
    """A graph as computations and calls of ATen.

    A buffer may be filled by several computations (the parts of ``cat``, a scatter into a copy): it is complete after
    the last of them, and they are in the order in which they have to run.
    """

    inputs: list[Buffer | Symbol]
    """In the order of the graph's placeholders; a symbol for a number."""
    buffers: dict[str, Buffer]
    operations: list[Computation | ExternCall]
    outputs: list[BufferRef | Expr | Any]
    """Buffers or strided views of them, numbers, or constants such as None."""
    symbols: dict[Symbol, tuple[str, str, int]]
    """Symbol to (buffer, "size" or "stride", dimension); with "number" the buffer is a result of an `ExternCall` that
    is a number and not a tensor."""
    constants: dict[str, Any] = field(default_factory=dict)
    """Tensors that the graph holds itself, by buffer name."""
    facts: Facts = field(default_factory=Facts)
    """What is known about sizes, and the ranges of the axes in the computations."""
    size_facts: Facts = field(default_factory=Facts)
    """What is known about sizes alone. That an axis has an index says that its size is not 0, which holds inside of its
    loop only: for two loops it would make two sizes equal that add up to 2."""
    fallbacks: list[Fallback] = field(default_factory=list)

    def __str__(self) -> str:
        from ..printing import print_lowered

        return print_lowered(self)
