"""Which machine a graph is compiled for: the GPU that it has tensors on, or else the CPU.

Every value of a graph has a device. Kernels are made for one; what has to do with another, such as a copy between them,
is a call of ATen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from ..records import dataclass
from .scheduling.machines import CPU, GPU, Machine


@dataclass(frozen=True)
class DeviceTarget:
    """A device, and how kernels are laid out for it."""

    device: torch.device
    machine: Machine

    @property
    def is_cpu(self) -> bool:
        return self.device.type == "cpu"


_CPU = DeviceTarget(torch.device("cpu"), CPU)


def target_of(graph: torch.fx.Graph) -> DeviceTarget:
    """The target of a functional graph."""
    if torch.version.cuda is None:
        return _CPU  # a torch that knows no GPUs
    for node in graph.nodes:
        for value in _values(node.meta.get("val")):
            if value.device.type == "cuda":
                return DeviceTarget(torch.device("cuda", value.device.index or 0), GPU)
    return _CPU


def _values(value: Any) -> Sequence[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return (value,)
    return [part for part in value if isinstance(part, torch.Tensor)] if isinstance(value, (tuple, list)) else ()
