"""Tensors as libtorch's C interface passes them: pointers to ``at::Tensor``."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from .c_interface import c_function
from .native_calls import implementation_offset

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


@contextmanager
def lent_handles(tensors: Sequence[torch.Tensor]) -> Iterator[list[int]]:
    """Handles of tensors, for the time of a call."""
    offset = implementation_offset()
    if offset is not None:
        # The object of a tensor holds its at::Tensor.
        yield [id(tensor) + offset for tensor in tensors]
        return
    handles = [_pointer(pointer, None) for pointer in torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors(list(tensors))]
    try:
        yield handles
    finally:
        for handle in handles:
            _delete(handle)


def take_tensor(handle: int) -> torch.Tensor:
    """The tensor of a handle, which is used up."""
    tensor: torch.Tensor = torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr(_capsule(handle, None, None))
    if _leaves_handles():
        _delete(handle)
    return tensor


def _delete(handle: int) -> None:
    c_function("delete_tensor_object")(ctypes.c_void_p(handle))


@functools.cache
def _leaves_handles() -> bool:
    """Whether torch's function that takes a tensor from a handle leaves the handle to be deleted, despite its name."""
    sample = torch.empty(0)
    handle = _pointer(torch._C._aoti.unsafe_alloc_void_ptr_from_tensor(sample), None)
    before = sample._use_count()  # type: ignore[attr-defined]
    torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr(_capsule(handle, None, None))
    leaves = bool(sample._use_count() == before)  # type: ignore[attr-defined]
    if leaves:
        _delete(handle)
    return leaves
