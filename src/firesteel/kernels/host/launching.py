"""Kernels as Python callables through ctypes, for processes in which the host machine cannot be had."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch


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
