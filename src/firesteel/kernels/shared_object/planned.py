"""What a shared object is made of: a plan, its kernels and their machine code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...errors import FiresteelError
from ...functional.graph import FunctionalGraph
from ..device_target import DeviceTarget
from ..ir import Kernel
from ..plan import KernelPlan

if TYPE_CHECKING:
    from ..cpu.target import Target
    from ..gpu.triton_compiler import Binary, Request


class NotPackageable(FiresteelError):
    """A program needs Python while it runs."""

    headline = "This program cannot run without Python."
    default_hint = "replace the operator, or keep this part of the model in Python"


@dataclass
class Planned:
    """A graph with its plan and the kernels in it."""

    functional: FunctionalGraph
    plan: KernelPlan
    kernels: list[Kernel]
    target: DeviceTarget
    kept: Planned | None = None
    """What computes the last inputs of the plan from others, once: the results in order."""
    bodies: dict[int, Planned] = field(default_factory=dict)
    """The plans of branches and loops, by the identity of their description."""
    binaries: list[tuple[Request, Binary]] = field(default_factory=list)
    """The machine code of the kernels for a GPU, in their order."""
    wide: list[tuple[Request, Binary] | None] = field(default_factory=list)
    """Machine code with indices of 64 bits, for kernels whose sizes decide whether these are needed."""
    tuned: list[Target] = field(default_factory=list)
    """What the code of each kernel for the CPU is made for, where that was measured."""

    def all(self) -> Iterator[Planned]:
        """This one, what is kept, and all bodies in them."""
        yield self
        for other in (*([self.kept] if self.kept is not None else []), *self.bodies.values()):
            yield from other.all()
