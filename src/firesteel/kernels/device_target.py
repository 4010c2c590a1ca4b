"""What the stages of the pipeline ask a device for: how its kernels are laid out, made, kept and launched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from ..devices import DeviceKind, kind_of
from ..records import dataclass
from .scheduling.machines import Machine

if TYPE_CHECKING:
    from ..functional.graph import FunctionalGraph
    from ..passes.settings import Pass
    from ..shapes import Expr, Symbol
    from .ir import Kernel
    from .plan import KernelPlan
    from .shared_object.planned import Planned
    from .tuning import Tuner


class Refused(Exception):
    """Some kernels cannot be made: what they compute has to be done in smaller ones, or by calls of ATen."""

    def __init__(self, reasons: dict[str, str], origins: set[Any], by_device: bool = False) -> None:
        super().__init__("; ".join(f"{name}: {reason}" for name, reason in reasons.items()))
        self.origins = origins
        """The nodes of the graph that the kernels compute."""
        self.by_device = by_device
        """Whether it was the device that refused some, as it is now."""


@dataclass(frozen=True)
class Generated:
    """Kernels that can be launched."""

    kernels: Sequence[Any]
    files: Callable[[], dict[str, str]]
    """What they were printed as, by the names of files for people."""


class DeviceTarget:
    """A device that graphs are compiled for: how its kernels are laid out, made, kept and launched.

    There is a class for each kind of device, in the folder of its printer: `cpu.device`, `gpu.device`.
    """

    machine: Machine
    """What scheduling has to know."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @property
    def kind(self) -> DeviceKind:
        return kind_of(self.device)

    def check_available(self) -> None:
        """Raise `Unsupported` where there is nothing to compile with."""

    def expect(self, operators: int) -> None:
        """Get ready to compile the kernels of about so many operators soon, if that takes something to be started."""

    def passes(self) -> Sequence[Pass]:
        """What makes graphs better, in order."""
        raise NotImplementedError

    def joint_passes(self) -> Sequence[Pass]:
        """What is done to forward and backward of a graph together, before they are parted."""
        return ()

    def tuner(self, compile: Callable[[FunctionalGraph], Callable[..., Any]]) -> Tuner:
        """What chooses by measurement; ``compile`` makes programs of alternatives."""
        raise NotImplementedError

    def generate(self, plan: KernelPlan, kernels: Sequence[Kernel], hints: Mapping[Symbol, int],
                 tuner: Tuner | None) -> Generated:
        """Machine code of all kernels of a plan. Raises `Refused` with those that cannot be made."""
        raise NotImplementedError

    def description(self) -> str:
        """What kernels are made for and by, for the key of plans on disk."""
        raise NotImplementedError

    def load(self, keys: Sequence[str], programs: Sequence[tuple[Expr, Expr | None]]) -> Sequence[Any] | None:
        """Kernels that an earlier process made; None unless the code of all is there.

        ``programs``: of kernels that run in blocks, how many there are of each and how far its indices reach.
        """
        raise NotImplementedError

    def around(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """A host program under the conditions that its launches need."""
        return run

    def complete(self, planned: Planned, tuner: Tuner | None,
                 without: Set[torch.fx.Node]) -> Set[torch.fx.Node]:
        """Add what a plan needs to become a shared object.

        Returns the nodes that have to be calls of ATen in a next attempt; ``without`` are those that are so already.
        """
        raise NotImplementedError
