"""Reductions over dimensions and joins of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..tensor import FakeTensor, new_fake
from . import rule
from .operands import result_dtype, wrap_dim
from .strides import channels_last_strides, suggests_channels_last


def reduced_shape(x: FakeTensor, dims: Sequence[int] | None, keepdim: bool) -> list[Any] | None:
    """The shape without the reduced dimensions; None or no dimension means all of them."""
    ndim = x.ndim
    if not dims:
        gone: set[int | None] = set(range(ndim))
    else:
        gone = {wrap_dim(dim, ndim) for dim in dims}
        if None in gone or len(gone) != len(dims):
            return None
    if keepdim:
        return [1 if i in gone else size for i, size in enumerate(x.shape)]
    return [size for i, size in enumerate(x.shape) if i not in gone]


@rule("aten.sum.default")
def sum_all(x: FakeTensor, *, dtype: torch.dtype | None = None) -> Any:
    """Integers and bool are summed as int64."""
    return sum_dims(x, None, dtype=dtype)


@rule("aten.sum.dim_IntList")
def sum_dims(x: FakeTensor, dim: Any, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    """As above, over some dimensions."""
    shape = reduced_shape(x, dim, keepdim)
    if shape is None:
        return NotImplemented
    if dtype is None:
        dtype = x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else torch.int64
    return new_fake(shape, None, dtype, x.device)


@rule("aten.mean.default")
def mean_all(x: FakeTensor, *, dtype: torch.dtype | None = None) -> Any:
    """Floats only."""
    return mean_dims(x, None, dtype=dtype)


@rule("aten.mean.dim")
def mean_dims(x: FakeTensor, dim: Any, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    """Floats only."""
    shape = reduced_shape(x, dim, keepdim)
    dtype = dtype or x.dtype
    if shape is None or not dtype.is_floating_point:
        return NotImplemented
    return new_fake(shape, None, dtype, x.device)


@rule("aten.amax.default", "aten.amin.default")
def extreme(x: FakeTensor, dim: Any = (), keepdim: bool = False) -> Any:
    """Along dimensions that are not empty."""
    shape, kept = reduced_shape(x, dim, keepdim), reduced_shape(x, dim, True)
    if shape is None or kept is None or x.dtype.is_complex:
        return NotImplemented
    if any(own == 0 and left == 1 for own, left in zip(x.shape, kept, strict=True)):
        return NotImplemented
    return new_fake(shape, None, x.dtype, x.device)


@rule("aten.cat.default")
def cat(tensors: Sequence[FakeTensor], dim: int = 0) -> Any:
    """Tensors end to end. Empty vectors are skipped, whatever the shape of the others."""
    joined = [t for t in tensors if t.ndim != 1 or t.shape[0] != 0]
    if not joined:
        return NotImplemented
    first = joined[0]
    at = wrap_dim(dim, first.ndim)
    if at is None or first.ndim == 0 or any(t.device != first.device for t in tensors):
        return NotImplemented
    shape = list(first.shape)
    total: Any = 0
    for t in joined:
        if t.ndim != first.ndim:
            return NotImplemented
        if any(a != b for i, (a, b) in enumerate(zip(t.shape, shape, strict=True)) if i != at):
            return NotImplemented
        total = total + t.shape[at]
    shape[at] = total
    dtype = first.dtype if all(t.dtype is first.dtype for t in tensors) else result_dtype(tensors)
    if dtype is None:
        return NotImplemented
    stride = None
    if len(joined) == len(tensors) and all(suggests_channels_last(t.shape, t.stride()) for t in tensors):
        stride = channels_last_strides(shape)
    return new_fake(shape, stride, dtype, first.device)


@rule("aten.stack.default")
def stack(tensors: Sequence[FakeTensor], dim: int = 0) -> Any:
    """Contiguous tensors of one dtype and shape along a new dimension."""
    if not tensors:
        return NotImplemented
    first = tensors[0]
    at = wrap_dim(dim, first.ndim + 1)
    if at is None or first.numel() == 0:
        return NotImplemented
    for t in tensors:
        if t.dtype is not first.dtype or t.device != first.device or tuple(t.shape) != tuple(first.shape):
            return NotImplemented
        if not t.is_contiguous():
            return NotImplemented
    shape = list(first.shape)
    shape.insert(at, len(tensors))
    return new_fake(shape, None, first.dtype, first.device)
