"""Kinds of devices: what the compiler has to know of each, and of what eager does there.

    CPU     memory that the host reads and writes; eager rounds short floats at every step and raises for bad values
    CUDA    GPUs: kernels run all their points at once and report nothing while the host goes on

A third kind is one more object in `KINDS`. How kernels for it are made says its `kernels.device_target.DeviceTarget`.
"""

from __future__ import annotations

from typing import Any

import torch

from .records import dataclass


@dataclass(frozen=True)
class DeviceKind:
    """A kind of device. The defaults are those of one that nothing is known about, which is left to eager."""

    name: str
    """``type`` of its devices in torch."""
    number: int = -1
    """What torch's C interface calls it."""
    label: str = "another device"
    """Where its tensors are, in messages."""
    is_host: bool = False
    """Whether it is the CPU: Python reads and writes its memory without waiting, and eager's kernels are the CPU's."""
    runs_at_once: bool = False
    """Whether the points of a kernel run at the same time, so that stores which meet have no order, and whether it
    costs less to compute something again than to launch one more kernel."""
    rounds_steps: bool = False
    """Whether eager's kernels round short floats after every step, and numbers before, rather than only results."""
    moments_overflow: bool = False
    """Whether eager's means and variances are NaN where a square of the mean is infinite."""
    raises_for_values: bool = False
    """Whether eager's operators raise where elements are not what they should be, as indices behind the end."""
    draws_by_counter: bool = False
    """Whether random numbers are functions of a seed and of a place, which kernels can compute where they use them."""
    has_cudnn: bool = False
    """Whether eager takes cuDNN's kernels, and asks how tensors lie before it chooses one for attention."""

    def is_there(self) -> bool:
        """Whether this process can use such a device."""
        return self.is_host

    def is_built(self) -> bool:
        """Whether torch has been built for such devices, whether there are any or not."""
        return self.is_host

    def with_index(self, device: torch.device) -> torch.device:
        """The device that is meant, where none of several is named."""
        return device

    def synchronize(self, device: torch.device) -> None:
        """Wait for what was launched."""

    def capability(self, device: torch.device) -> tuple[int, int] | None:
        """Which generation a device is of, where that decides what is fast on it."""
        return None

    def random_state(self) -> torch.Tensor | None:
        """The state of the current device's generator; None while that is not in use."""
        return torch.get_rng_state() if self.is_host else None

    def set_random_state(self, state: torch.Tensor) -> None:
        """Put a generator back to where it was."""
        torch.set_rng_state(state)


class _Cuda(DeviceKind):
    def is_there(self) -> bool:
        return torch.cuda.is_available()

    def is_built(self) -> bool:
        return torch.version.cuda is not None

    def with_index(self, device: torch.device) -> torch.device:
        return torch.device(self.name, torch.cuda.current_device()) if device.index is None else device

    def synchronize(self, device: torch.device) -> None:
        torch.cuda.synchronize(device)

    def capability(self, device: torch.device) -> tuple[int, int] | None:
        return torch.cuda.get_device_capability(device)

    def random_state(self) -> torch.Tensor | None:
        return torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None

    def set_random_state(self, state: torch.Tensor) -> None:
        torch.cuda.set_rng_state(state)


CPU = DeviceKind("cpu", 0, "on the CPU", is_host=True, rounds_steps=True, moments_overflow=True, raises_for_values=True)
CUDA = _Cuda("cuda", 1, "on a GPU", runs_at_once=True, draws_by_counter=True, has_cudnn=True)
OTHER = DeviceKind("other")
KINDS: dict[str, DeviceKind] = {kind.name: kind for kind in (CPU, CUDA)}
"""Those that graphs are compiled for, by their names in torch. What is on others is left to eager."""


def kind_of(where: torch.device | torch.Tensor) -> DeviceKind:
    """What kind of device this is, or a tensor is on.

    >>> kind_of(torch.device("cuda", 1)).runs_at_once, kind_of(torch.ones(2)).name, kind_of(torch.device("meta")).name
    (True, 'cpu', 'other')
    """
    device: Any = where.device if isinstance(where, torch.Tensor) else where
    return KINDS.get(device.type, OTHER)


def has_accelerators() -> bool:
    """Whether torch was built for devices beside the CPU."""
    return any(kind.is_built() for kind in KINDS.values() if not kind.is_host)
