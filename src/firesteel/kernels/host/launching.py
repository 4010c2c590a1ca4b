"""Kernels as Python callables through ctypes, for processes in which the host machine cannot be had."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from ...devices import kind_of
from ...shapes import Expr


class InBlocks(Protocol):
    """A GPU kernel: the address of its descriptor, and how many programs it has."""

    @property
    def address(self) -> int: ...

    @property
    def programs(self) -> Expr: ...

    @property
    def extent(self) -> Expr | None:
        """How far its indices reach, for kernels that are told so behind their other arguments."""


Launchable = int | InBlocks
"""The address of a kernel's code, or a kernel that runs in blocks."""


def device_number(device: torch.device) -> tuple[int, int]:
    """A device as torch's C interface numbers it."""
    return kind_of(device).number, device.index or 0


def blocks_launcher(descriptor: int, buffers: int, sizes: int, numbers: int, told: bool = False) -> Callable[..., None]:
    """A function of the number of programs, then tensors, sizes and floats, that runs a GPU kernel.

    With ``told`` the last argument is how far its indices reach.
    """
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    call = kind(ctypes.c_int64.from_address(descriptor).value)
    room = ctypes.c_int64 * (buffers + sizes + numbers + told)
    end = buffers + sizes + numbers

    def launch(programs: int, *arguments: Any) -> None:
        words = [t.data_ptr() for t in arguments[:buffers]]
        words += arguments[buffers: buffers + sizes]
        words += [struct.unpack("=q", struct.pack("=d", number))[0] for number in arguments[buffers + sizes:end]]
        words += arguments[end:]
        status = call(descriptor, room(*words), programs)
        if status:
            raise RuntimeError(f"firesteel: CUDA refused to run a kernel: error {status}")

    return launch


def portable_launcher(address: int, buffers: int, sizes: int, numbers: int) -> Callable[..., None]:
    """A function of tensors, then sizes, then floats, that runs the kernel at an address."""
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(address)
    pointers, integers, floats = ctypes.c_void_p * buffers, ctypes.c_int64 * sizes, ctypes.c_double * numbers

    def launch(*arguments: Any) -> None:
        given = pointers(*(t.data_ptr() for t in arguments[:buffers]))
        call(given, integers(*arguments[buffers: buffers + sizes]), floats(*arguments[buffers + sizes:]))

    return launch


def view(base: torch.Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int,
         dtype: torch.dtype | None = None) -> torch.Tensor:
    """A strided view; the offset, in elements of the view, counts from where ``base`` begins in its storage."""
    if dtype is not None and dtype is not base.dtype:
        first = base.storage_offset() * base.dtype.itemsize // dtype.itemsize
        empty = torch.empty(0, dtype=dtype, device=base.device)
        return empty.set_(base.untyped_storage(), first + offset, shape, strides)
    return base.as_strided(shape, strides, base.storage_offset() + offset)


def numbers_on_device(device: torch.device, dtype: torch.dtype, *numbers: torch.Tensor) -> torch.Tensor:
    """Tensors without dimensions that are on the CPU, side by side in the memory of a device, by one copy."""
    return _side_by_side(dtype, numbers).to(device, non_blocking=True)


def put_numbers(memory: torch.Tensor, numbers: Sequence[torch.Tensor]) -> None:
    """The same into memory that is there. What it was copied from can be changed at once."""
    memory.copy_(_side_by_side(memory.dtype, numbers), non_blocking=True)


def _side_by_side(dtype: torch.dtype, numbers: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([number if number.dtype is dtype else number.to(dtype) for number in numbers])
