"""Matrix products. Their results are contiguous whatever the operands' strides, but for grouped products."""

from __future__ import annotations

from typing import Any

import torch

from ..dims import require_equal, shape_of, stride_of
from ..tensor import FakeTensor, FakeUnsupported, new_fake
from .operands import CPU
from .registry import rule
from .strides import broadcast_shapes


def _alike(*tensors: FakeTensor) -> bool:
    """Whether the devices agree. Different dtypes are an error in eager and not in meta kernels: left to eager."""
    first = tensors[0]
    if any(t.dtype is not first.dtype for t in tensors):
        raise FakeUnsupported("matrix product", "operands of different dtypes")
    return all(t.device == first.device for t in tensors)


def _mm_shape(x: FakeTensor, y: FakeTensor) -> tuple[Any, ...] | None:
    if x.ndim != 2 or y.ndim != 2:
        return None
    (rows, inner), (other, columns) = shape_of(x), shape_of(y)
    if not require_equal(inner, other):
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({rows}x{inner} and {other}x{columns})")
    return rows, columns


def _bmm_shape(x: FakeTensor, y: FakeTensor) -> tuple[Any, ...] | None:
    if x.ndim != 3 or y.ndim != 3:
        return None
    (batch, rows, inner), (other_batch, other, columns) = shape_of(x), shape_of(y)
    if not require_equal(batch, other_batch) or not require_equal(inner, other):
        return None
    return batch, rows, columns


@rule("aten.mm.default")
def mm(x: FakeTensor, y: FakeTensor) -> Any:
    """(n, k) @ (k, m)"""
    shape = _mm_shape(x, y) if _alike(x, y) else None
    return NotImplemented if shape is None else new_fake(shape, None, x.dtype, x.device)


@rule("aten.bmm.default")
def bmm(x: FakeTensor, y: FakeTensor) -> Any:
    """(b, n, k) @ (b, k, m)"""
    shape = _bmm_shape(x, y) if _alike(x, y) else None
    return NotImplemented if shape is None else new_fake(shape, None, x.dtype, x.device)


def _with_bias(bias: FakeTensor, shape: tuple[Any, ...] | None) -> Any:
    if shape is None:
        return NotImplemented
    if broadcast_shapes([shape_of(bias), shape]) != shape:
        raise FakeUnsupported("matrix product", "the added tensor does not fit, which meta kernels let pass")
    return new_fake(shape, None, bias.dtype, bias.device)


@rule("aten.addmm.default")
def addmm(bias: FakeTensor, x: FakeTensor, y: FakeTensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """bias + (n, k) @ (k, m)"""
    return _with_bias(bias, _mm_shape(x, y)) if _alike(bias, x, y) else NotImplemented


@rule("aten.baddbmm.default")
def baddbmm(bias: FakeTensor, x: FakeTensor, y: FakeTensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """bias + (b, n, k) @ (b, k, m)"""
    return _with_bias(bias, _bmm_shape(x, y)) if _alike(bias, x, y) else NotImplemented


@rule("aten.mv.default")
def mv(x: FakeTensor, vector: FakeTensor) -> Any:
    """(n, k) @ (k,)"""
    if x.ndim != 2 or vector.ndim != 1 or not _alike(x, vector) or shape_of(x)[1] != shape_of(vector)[0]:
        return NotImplemented
    return new_fake((shape_of(x)[0],), None, x.dtype, x.device)


@rule("aten.dot.default")
def dot(x: FakeTensor, y: FakeTensor) -> Any:
    """(k,) @ (k,)"""
    if x.ndim != 1 or y.ndim != 1 or not _alike(x, y) or shape_of(x)[0] != shape_of(y)[0]:
        return NotImplemented
    return new_fake((), None, x.dtype, x.device)


@rule("aten._grouped_mm.default")
def grouped_mm(
    x: FakeTensor, y: FakeTensor, offs: FakeTensor | None = None, bias: FakeTensor | None = None, out_dtype: Any = None
) -> Any:
    """A product per group of rows or of matrices on the CPU; rows of the result start at multiples of 16 bytes."""
    if x.device != CPU or not _alike(x, y) or bias is not None or shape_of(x)[-1] != shape_of(y)[-2]:
        return NotImplemented
    if x.dtype not in (torch.float32, torch.bfloat16, torch.float16) or out_dtype not in (None, x.dtype):
        return NotImplemented
    if (x.ndim, y.ndim) == (2, 3) and offs is not None and shape_of(offs)[0] == shape_of(y)[0]:
        shape: tuple[Any, ...] = (shape_of(x)[0], shape_of(y)[2])
    elif (x.ndim, y.ndim) == (3, 3) and offs is None and shape_of(x)[0] == shape_of(y)[0]:
        shape = (shape_of(x)[0], shape_of(x)[1], shape_of(y)[2])
    else:
        return NotImplemented
    unit = 16 // x.dtype.itemsize
    if any(st != 1 and st % unit != 0 for t in (x, y) for st in stride_of(t)[-2:]):
        return NotImplemented
    row = (shape[-1] + unit - 1) // unit * unit
    stride = (row, 1) if len(shape) == 2 else (shape[1] * row, row, 1)
    return new_fake(shape, stride, x.dtype, x.device)
