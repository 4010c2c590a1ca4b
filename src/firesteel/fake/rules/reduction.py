"""Reductions over dimensions and joins of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..dims import layout_of, numel_of, shape_of
from ..tensor import FakeTensor, FakeUnsupported, new_fake
from .operands import result_dtype, wrap_dim
from .registry import rule
from .strides import channels_last_strides, contiguous, suggests_channels_last

_MOST_DIMENSIONS = 64


def reduced_shape(x: FakeTensor, dims: Sequence[int] | None, keepdim: bool) -> list[Any] | None:
    """The shape without the reduced dimensions; None or no dimension means all of them."""
    ndim = x.ndim
    if ndim > _MOST_DIMENSIONS:
        raise FakeUnsupported("a reduction", "more dimensions than eager takes")
    if not dims:
        gone: set[int | None] = set(range(ndim))
    else:
        gone = {wrap_dim(dim, ndim) for dim in dims}
        if None in gone or len(gone) != len(dims):
            return None
    if keepdim:
        return [1 if i in gone else size for i, size in enumerate(shape_of(x))]
    return [size for i, size in enumerate(shape_of(x)) if i not in gone]


@rule("aten.sum.default")
def sum_all(x: FakeTensor, *, dtype: torch.dtype | None = None) -> Any:
    """Integers and bool are summed as int64."""
    return sum_dims(x, None, dtype=dtype)


@rule("aten.sum.dim_IntList")
def sum_dims(x: FakeTensor, dim: Any, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    """Over some dimensions; integers and bool are summed as int64."""
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
    if any(own == 0 and left == 1 for own, left in zip(shape_of(x), kept, strict=True)):
        return NotImplemented
    return new_fake(shape, None, x.dtype, x.device)


@rule("aten.any.default", "aten.all.default")
def any_all(x: FakeTensor) -> Any:
    """Over everything."""
    return any_all_dims(x, None)


@rule("aten.any.dim", "aten.all.dim", "aten.any.dims", "aten.all.dims")
def any_all_dims(x: FakeTensor, dim: Any = None, keepdim: bool = False) -> Any:
    """Bool; but for bytes, which stay bytes."""
    dims = dim if dim is None or isinstance(dim, (list, tuple)) else (dim,)
    if dims is not None and not dims:
        return NotImplemented  # no dimension means none here
    shape = reduced_shape(x, dims, keepdim)
    dtype = torch.uint8 if x.dtype is torch.uint8 else torch.bool
    return NotImplemented if shape is None else new_fake(shape, None, dtype, x.device)


@rule("aten.argmax.default", "aten.argmin.default")
def arg_extreme(x: FakeTensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The place of the largest or smallest element."""
    if x.dtype is torch.bool or x.dtype.is_complex:
        raise FakeUnsupported("aten.argmax", f"{x.dtype}, which meta kernels let pass")
    shape = reduced_shape(x, None if dim is None else (dim,), keepdim)
    if shape is None or any(size == 0 for size in shape_of(x)):
        return NotImplemented
    return new_fake(shape, None, torch.int64, x.device)


@rule("aten.max.dim", "aten.min.dim")
def extreme_dim(x: FakeTensor, dim: int, keepdim: bool = False) -> Any:
    """The largest or smallest elements and their places."""
    at = wrap_dim(dim, x.ndim)
    shape = reduced_shape(x, (dim,), keepdim)
    if at is None or shape is None:
        return NotImplemented
    if x.dtype.is_complex or (x.ndim and shape_of(x)[at] == 0):
        raise FakeUnsupported("aten.max", "complex or without elements, which meta kernels let pass")
    return new_fake(shape, None, x.dtype, x.device), new_fake(shape, None, torch.int64, x.device)


@rule("aten.max.default", "aten.min.default")
def extreme_all(x: FakeTensor) -> Any:
    """Of everything."""
    if x.dtype.is_complex or any(size == 0 for size in shape_of(x)):
        raise FakeUnsupported("aten.max", "complex or without elements, which meta kernels let pass")
    return new_fake((), None, x.dtype, x.device)


@rule("aten.var.correction", "aten.std.correction")
def variance(x: FakeTensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """Floats only."""
    if not x.dtype.is_floating_point and not x.dtype.is_complex:
        raise FakeUnsupported("aten.var", "integers, which meta kernels let pass")
    shape = reduced_shape(x, dim, keepdim)
    if shape is None or x.dtype.is_complex:
        return NotImplemented
    return new_fake(shape, None, x.dtype, x.device)


@rule("aten.var_mean.correction", "aten.std_mean.correction")
def variance_and_mean(x: FakeTensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """Floats only."""
    first = variance(x, dim, correction=correction, keepdim=keepdim)
    return first if first is NotImplemented else (first, new_fake(shape_of(first), None, x.dtype, x.device))


@rule("aten.logsumexp.default")
def logsumexp(x: FakeTensor, dim: Any, keepdim: bool = False) -> Any:
    """Floats only."""
    shape = reduced_shape(x, dim, keepdim)
    if shape is None or not x.dtype.is_floating_point:
        return NotImplemented
    return new_fake(shape, None, x.dtype, x.device)


@rule("aten.linalg_vector_norm.default")
def vector_norm(
    x: FakeTensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Any:
    """Floats only, in their own dtype."""
    shape = reduced_shape(x, dim, keepdim)
    if shape is None or not x.dtype.is_floating_point or dtype not in (None, x.dtype):
        return NotImplemented
    if ord < 0 or ord == float("inf"):
        kept = reduced_shape(x, dim, True) or ()
        if any(own == 0 and left == 1 for own, left in zip(shape_of(x), kept, strict=True)):
            return NotImplemented
    return new_fake(shape, None, x.dtype, x.device)


@rule("aten.prod.dim_int")
def product_dim(x: FakeTensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    """Integers and bool are multiplied as int64."""
    return sum_dims(x, (dim,), keepdim, dtype=dtype)


@rule("aten.cumsum.default", "aten.cumprod.default")
def cumulative(x: FakeTensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    """Contiguous; integers and bool are summed as int64."""
    if wrap_dim(dim, x.ndim) is None:
        return NotImplemented
    if dtype is None:
        dtype = x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else torch.int64
    return new_fake(shape_of(x), None, dtype, x.device)


@rule("aten.cat.default")
def cat(tensors: Sequence[FakeTensor], dim: int = 0) -> Any:
    """Tensors end to end. Empty vectors are skipped, whatever the shape of the others."""
    joined = [t for t in tensors if t.ndim != 1 or shape_of(t)[0] != 0]
    if not joined:
        return NotImplemented
    first = joined[0]
    at = wrap_dim(dim, first.ndim)
    if at is None or first.ndim == 0 or any(t.device != first.device for t in tensors):
        return NotImplemented
    shape = list(shape_of(first))
    total: Any = 0
    for t in joined:
        if t.ndim != first.ndim:
            return NotImplemented
        if any(a != b for i, (a, b) in enumerate(zip(shape_of(t), shape, strict=True)) if i != at):
            return NotImplemented
        total = total + shape_of(t)[at]
    shape[at] = total
    dtype = first.dtype if all(t.dtype is first.dtype for t in tensors) else result_dtype(tensors)
    if dtype is None:
        return NotImplemented
    stride = None
    if len(joined) == len(tensors) and all(suggests_channels_last(*layout_of(t)) for t in tensors):
        stride = channels_last_strides(shape)
    return new_fake(shape, stride, dtype, first.device)


@rule("aten.stack.default")
def stack(tensors: Sequence[FakeTensor], dim: int = 0) -> Any:
    """Tensors of one dtype and shape along a new dimension."""
    if not tensors:
        return NotImplemented
    first = tensors[0]
    at = wrap_dim(dim, first.ndim + 1)
    if at is None or numel_of(first) == 0:
        return NotImplemented
    for t in tensors:
        if t.dtype is not first.dtype or t.device != first.device or tuple(shape_of(t)) != tuple(shape_of(first)):
            return NotImplemented
        if first.ndim in (3, 4) and not contiguous(t):  # images may be stacked in their memory format
            return NotImplemented
    shape = list(shape_of(first))
    shape.insert(at, len(tensors))
    return new_fake(shape, None, first.dtype, first.device)
