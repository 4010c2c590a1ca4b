"""The host program around kernels: what is allocated, launched, called, freed and returned, in order."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ..records import dataclass
from ..shapes import Expr, Symbol
from .ir import Buffer, BufferRef, ExternCall, Kernel


@dataclass(frozen=True)
class Allocate:
    """A new buffer. With ``reuse`` the memory of a buffer that is no longer needed and is at least as large."""

    buffer: Buffer
    reuse: str | None = None


@dataclass(frozen=True)
class Launch:
    """Run a kernel; ``buffers``, ``sizes`` and ``numbers`` are the arguments in the order of its parameters."""

    kernel: Kernel
    buffers: tuple[str, ...]
    sizes: tuple[Expr, ...]
    numbers: tuple[Expr, ...] = ()
    origins: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    """The operators that it computes, as nodes of the graph."""

    def in_plan(self, expr: Expr) -> Expr:
        """An expression of the kernel's own sizes, in those of the plan."""
        return expr.substitute(dict(zip(self.kernel.sizes, self.sizes, strict=True)))


@dataclass(frozen=True)
class Free:
    """The last use of these buffers is over."""

    buffers: tuple[str, ...]


@dataclass(frozen=True)
class WriteBack:
    """Copy a result into an input that the program changed in place."""

    target: str
    source: BufferRef


Step = Allocate | Launch | ExternCall | Free | WriteBack


@dataclass
class KernelPlan:
    """A compiled graph, before it is printed for a host.

    ``inputs`` are the graph's inputs in order: a `Buffer` for tensors, a `Symbol` for numbers. ``symbols`` says where
    the other symbols come from: an input's size or stride. ``outputs`` are buffers, views of buffers or inputs, numbers
    (expressions), or constants such as None.
    """

    inputs: list[Buffer | Symbol]
    symbols: dict[Symbol, tuple[str, str, int]]
    """Symbol to (input buffer, "size" or "stride", dimension)."""
    steps: list[Step]
    outputs: list[BufferRef | Expr | Any]
    buffers: dict[str, Buffer] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    """Tensors that the graph holds itself, by buffer name."""
    new_results: frozenset[int] = frozenset()
    """Outputs that are no views for the program, though here one may be a part of a buffer or have other sizes."""

    def __str__(self) -> str:
        from .printing import print_plan

        return print_plan(self)


def launches_of(plan: KernelPlan) -> dict[int, Launch]:
    """The first launch of each kernel, by the identity of the kernel."""
    launches: dict[int, Launch] = {}
    for step in plan.steps:
        if isinstance(step, Launch):
            launches.setdefault(id(step.kernel), step)
    return launches


def kernels_of(plan: KernelPlan) -> list[Kernel]:
    """The kernels that a plan launches, each once, in the order of their first launch."""
    return [launch.kernel for launch in launches_of(plan).values()]
