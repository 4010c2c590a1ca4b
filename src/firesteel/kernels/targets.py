"""What a graph is compiled for: the GPU that it has tensors on, or else the CPU.

Every value of a graph has a device. Kernels are made for one; what has to do with another, such as a copy between them,
is a call of ATen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from ..devices import CPU, CUDA, KINDS, has_accelerators, kind_of
from .device_target import DeviceTarget


def _cpu() -> type[DeviceTarget]:
    from .cpu.device import CpuTarget

    return CpuTarget


def _cuda() -> type[DeviceTarget]:
    from .gpu.device import CudaTarget

    return CudaTarget


_CLASSES: dict[str, Callable[[], type[DeviceTarget]]] = {CPU.name: _cpu, CUDA.name: _cuda}
"""What compiles for each kind of device, loaded when there is something to compile."""


def target_for(device: torch.device) -> DeviceTarget:
    """The target that a device of a known kind is."""
    return _CLASSES[device.type]()(device if kind_of(device).is_host else torch.device(device.type, device.index or 0))


def target_of(graph: torch.fx.Graph) -> DeviceTarget:
    """The target of a functional graph."""
    if has_accelerators():
        for node in graph.nodes:
            for value in _values(node.meta.get("val")):
                if not kind_of(value.device).is_host and value.device.type in KINDS:
                    return target_for(value.device)
    return target_for(torch.device(CPU.name))


def _values(value: Any) -> Sequence[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return (value,)
    return [part for part in value if isinstance(part, torch.Tensor)] if isinstance(value, (tuple, list)) else ()
