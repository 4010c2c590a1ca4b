"""What machine code of ours needs to know about torch: where tensors keep their C++ part, how one becomes an object."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import torch

from .c_interface import c_function
from .dispatch import OpOverload, implementation_address, library_function

_OBJECT_WORDS = range(16, 64, 8)
_REQUIRES_GRAD = "_ZNK3c1010TensorImpl13requires_gradEv"  # c10::TensorImpl::requires_grad() const
_AUTOGRAD_RECORD = "_ZNK3c1010TensorImpl13autograd_metaEv"  # c10::TensorImpl::autograd_meta() const
_WRAPPING = "_Z16THPVariable_WrapRKN2at10TensorBaseE"  # THPVariable_Wrap(at::TensorBase const&)


@functools.cache
def implementation_offset() -> int | None:
    """Where a tensor's Python object keeps the pointer to its C++ part; None where that cannot be told for sure."""
    transposed, parameter = torch.ones(2, 3, dtype=torch.int16).t(), torch.nn.Parameter(torch.ones(3))
    samples = [torch.ones(2), transposed, parameter, torch.ones(())]
    fitting = [offset for offset in _OBJECT_WORDS
               if all(ctypes.c_uint64.from_address(id(t) + offset).value == implementation_address(t) for t in samples)]
    return fitting[0] if len(fitting) == 1 else None


def tensor_wrapping_function() -> Any:
    """The C++ function that takes the address of an ``at::Tensor`` and returns its Python object; None without one."""
    return library_function(_WRAPPING)


def requires_grad_function() -> Any:
    """The C++ function that takes the address of a tensor's C++ part and says whether it requires grad; or None."""
    return library_function(_REQUIRES_GRAD)


def autograd_record_function() -> Any:
    """The C++ function that takes the address of a tensor's C++ part and returns where autograd keeps what it knows of
    it; None without one."""
    return library_function(_AUTOGRAD_RECORD)


@functools.cache
def dtype_number(dtype: torch.dtype) -> int:
    """A dtype as torch's C interface numbers it."""
    sample = torch.empty((), dtype=dtype)
    result = ctypes.c_int32()
    function = c_function("get_dtype")
    offset = implementation_offset()
    assert function is not None and offset is not None
    if function(ctypes.c_void_p(id(sample) + offset), ctypes.byref(result)):
        raise ValueError(f"{dtype} has no number in torch's C interface")
    return result.value


def operator_function(operator: OpOverload) -> Callable[..., Any]:
    """The builtin behind an operator, which does the same and takes two microseconds less to call."""
    return operator._op
