"""What the rules ask of an operator's arguments: result dtype by torch's promotion, result device, dimensions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..tensor import FakeTensor

CPU = torch.device("cpu")

_COMPLEX_OF = {
    torch.float16: torch.complex32,
    torch.float32: torch.complex64,
    torch.float64: torch.complex128,
    torch.bfloat16: torch.complex64,
}


def scalar_dtype(value: Any) -> torch.dtype:
    """The dtype that a Python number brings into promotion."""
    if isinstance(value, (bool, torch.SymBool)):
        return torch.bool
    if isinstance(value, (int, torch.SymInt)):
        return torch.int64
    if isinstance(value, (float, torch.SymFloat)):
        return torch.get_default_dtype()
    return _COMPLEX_OF[torch.get_default_dtype()]


def is_number(value: Any) -> bool:
    """Whether an argument is a Python number, possibly symbolic."""
    return isinstance(value, (bool, int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool))


def _merge(a: torch.dtype | None, b: torch.dtype) -> torch.dtype:
    return b if a is None or a is b else torch.promote_types(a, b)


def _override(strong: torch.dtype | None, weak: torch.dtype | None) -> torch.dtype | None:
    """A weaker category (0-d tensors, then numbers) only changes the kind of the dtype, never its width."""
    if strong is None or weak is None:
        return weak if strong is None else strong
    if strong.is_complex:
        return strong
    if strong.is_floating_point:
        return _COMPLEX_OF.get(strong) if weak.is_complex else strong
    if strong is torch.bool or weak.is_floating_point or weak.is_complex:
        return torch.promote_types(strong, weak)
    return strong


def result_dtype(operands: Iterable[Any]) -> torch.dtype | None:
    """The dtype of an arithmetic result of tensors and numbers; None where torch's kernel should decide.

    >>> result_dtype([3, 2.5])
    torch.float32
    """
    with_dims: torch.dtype | None = None
    without_dims: torch.dtype | None = None
    numbers: torch.dtype | None = None
    for x in operands:
        if isinstance(x, FakeTensor):
            if x.ndim:
                with_dims = _merge(with_dims, x.dtype)
            else:
                without_dims = _merge(without_dims, x.dtype)
        else:
            numbers = _merge(numbers, scalar_dtype(x))
    return _override(with_dims, _override(without_dims, numbers))


def result_device(tensors: Iterable[FakeTensor]) -> torch.device | None:
    """The device of the result; CPU tensors without dimensions mix with any device. None when devices clash."""
    device: torch.device | None = None
    has_dims = False
    for t in tensors:
        own, dims = t.device, t.ndim > 0
        if device is None or device == own:
            device, has_dims = own, has_dims or dims
        elif own == CPU and not dims:
            continue
        elif device == CPU and not has_dims:
            device, has_dims = own, dims
        else:
            return None
    return device


def same_kind(x: FakeTensor, *others: FakeTensor | None) -> bool:
    """Whether all tensors that are there have the dtype and device of the first."""
    return all(t is None or (t.dtype is x.dtype and t.device == x.device) for t in others)


def statistics_dtype(x: FakeTensor, *parameters: FakeTensor | None) -> torch.dtype | None:
    """The dtype of the statistics of a norm on the CPU: that of the argument, or of the larger parameters that 16 bits
    may have; None where the parameters are of other kinds."""
    if same_kind(x, *parameters):
        return x.dtype
    larger = x.dtype in (torch.float16, torch.bfloat16) and all(
        t is None or t.dtype is torch.float32 and t.device == x.device for t in parameters)
    return torch.float32 if larger else None


def wrap_dim(dim: int, ndim: int) -> int | None:
    """A dimension index from 0, or None when out of range. 0-d tensors accept 0 and -1."""
    ndim = ndim or 1
    if not -ndim <= dim < ndim:
        return None
    return dim + ndim if dim < 0 else dim
