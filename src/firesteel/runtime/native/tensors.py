"""Where a tensor keeps what guards ask for: found out on real tensors, never assumed.

Shape, strides, dtype and device come from the table of C functions that torch offers to DLPack's users. Dispatch keys
have no such function; their place in the C++ object is searched for by value on tensors of many kinds, and only a place
that is right for all of them is used. Whatever is not found or does not fit leaves tensor guards in Python.
"""

from __future__ import annotations

import ctypes
import types
from typing import Any

import torch

from ... import torch_compat
from .machine import TensorLayout, word

OBJECT_WORDS = range(16, 64, 8)
IMPLEMENTATION_WORDS = range(8, 320, 8)
DLPACK_MAJOR = 1
DLTENSOR_FUNCTION = 40  # offset of dltensor_from_py_object_no_sync in version 1 of the table


class DLTensor(ctypes.Structure):
    """DLPack's description of a tensor."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def tensor_layout() -> TensorLayout | None:
    """How to read tensors in this process; None when that cannot be told for sure."""
    samples = _samples()
    implementation = _common(OBJECT_WORDS, [(id(t), torch_compat.implementation_address(t)) for t in samples])
    keys = _common(IMPLEMENTATION_WORDS, [
        (torch_compat.implementation_address(t), torch_compat.dispatch_key_bits(t)) for t in samples])
    dlpack = _dlpack_function()
    requires_grad, is_leaf = _getter("requires_grad"), _getter("is_leaf")
    if implementation is None or keys is None or dlpack is None or requires_grad is None or is_leaf is None:
        return None
    return TensorLayout(implementation, keys, dlpack, requires_grad, is_leaf)


def _samples() -> list[torch.Tensor]:
    """Tensors with different dispatch keys."""
    plain, complex_ = torch.ones(2, 3), torch.ones(3, dtype=torch.complex64)
    with torch.inference_mode():
        inference = torch.ones(2)
    return [
        plain, torch.ones(2, requires_grad=True), plain.t(), complex_, complex_.conj(), complex_.conj().imag, inference,
        torch.ones(2, device="meta"), plain.to_sparse(), torch.nn.Parameter(torch.ones(2)),
    ]


def _common(offsets: range, samples: list[tuple[int, int]]) -> int | None:
    """The only offset at which every object holds its value."""
    fitting = [offset for offset in offsets if all(word(address + offset) == value for address, value in samples)]
    return fitting[0] if len(fitting) == 1 else None


def _dlpack_function() -> int | None:
    capsule: Any = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if type(capsule).__name__ != "PyCapsule":
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    table = pointer(capsule, b"dlpack_exchange_api")
    if ctypes.c_uint32.from_address(table).value != DLPACK_MAJOR:
        return None
    address = word(table + DLTENSOR_FUNCTION)
    if not address:
        return None
    fill = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))(address)
    odd = torch.ones(4, 1, 3, dtype=torch.int16).as_strided((2, 1, 3), (3, 7, 1))
    scalar, empty = torch.ones((), dtype=torch.bool), torch.ones(0, 5)
    for t in (torch.ones(2, 3), scalar, empty, odd, torch.ones(2, requires_grad=True)):
        found = DLTensor()
        if fill(t, ctypes.byref(found)) or found.ndim != t.dim() or (found.device_type, found.device_id) != (1, 0):
            return None
        if tuple(found.shape[:found.ndim]) != tuple(t.shape) or tuple(found.strides[:found.ndim]) != t.stride():
            return None
        if found.bits != 8 * t.element_size() or found.lanes != 1:
            return None
    return address


def _getter(name: str) -> tuple[int, int] | None:
    """The C function behind an attribute of tensors, and its closure."""
    descriptor = next((vars(base)[name] for base in torch.Tensor.__mro__ if name in vars(base)), None)
    if type(descriptor) is not types.GetSetDescriptorType:
        return None
    # A descriptor is: the object header, the class, two names, and the definition (name, get, set, doc, closure).
    if word(id(descriptor) + 16) != id(descriptor.__objclass__) or word(id(descriptor) + 24) != id(descriptor.__name__):
        return None
    definition = word(id(descriptor) + 40)
    if ctypes.c_char_p.from_address(definition).value != name.encode():
        return None
    return word(definition + 8), word(definition + 32)
