"""Matrix products. Their results are contiguous whatever the operands' strides, but for grouped products."""

from __future__ import annotations

from typing import Any

import torch

from ..tensor import FakeTensor, FakeUnsupported, new_fake
from . import rule
from .operands import CPU
from .strides import broadcast_shapes


def _alike(*tensors: FakeTensor) -> bool:
    """Whether the devices agree. Different dtypes are an error in eager and not in meta kernels: left to eager."""
    first = tensors[0]
    if any(t.dtype is not first.dtype for t in tensors):
        raise FakeUnsupported("matrix product", "operands of different dtypes")
    return all(t.device == first.device for t in tensors)


@rule("aten.mm.default")
def mm(x: FakeTensor, y: FakeTensor) -> Any:
    """(n, k) @ (k, m)"""
    if x.ndim != 2 or y.ndim != 2 or not _alike(x, y):
        return NotImplemented
    if x.shape[1] != y.shape[0]:
        shapes = f"{x.shape[0]}x{x.shape[1]} and {y.shape[0]}x{y.shape[1]}"
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({shapes})")
    return new_fake((x.shape[0], y.shape[1]), None, x.dtype, x.device)


@rule("aten.bmm.default")
def bmm(x: FakeTensor, y: FakeTensor) -> Any:
    """(b, n, k) @ (b, k, m)"""
    if x.ndim != 3 or y.ndim != 3 or not _alike(x, y):
        return NotImplemented
    if x.shape[0] != y.shape[0] or x.shape[2] != y.shape[1]:
        return NotImplemented
    return new_fake((x.shape[0], x.shape[1], y.shape[2]), None, x.dtype, x.device)


def _with_bias(bias: FakeTensor, product: Any) -> Any:
    if product is not NotImplemented and broadcast_shapes([bias.shape, product.shape]) != tuple(product.shape):
        raise FakeUnsupported("matrix product", "the added tensor does not fit, which meta kernels let pass")
    return product


@rule("aten.addmm.default")
def addmm(bias: FakeTensor, x: FakeTensor, y: FakeTensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """bias + (n, k) @ (k, m)"""
    product = mm(x, y) if _alike(bias, x, y) else NotImplemented
    return _with_bias(bias, product)


@rule("aten.baddbmm.default")
def baddbmm(bias: FakeTensor, x: FakeTensor, y: FakeTensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """bias + (b, n, k) @ (b, k, m)"""
    product = bmm(x, y) if _alike(bias, x, y) else NotImplemented
    return _with_bias(bias, product)


@rule("aten.mv.default")
def mv(x: FakeTensor, vector: FakeTensor) -> Any:
    """(n, k) @ (k,)"""
    if x.ndim != 2 or vector.ndim != 1 or not _alike(x, vector) or x.shape[1] != vector.shape[0]:
        return NotImplemented
    return new_fake((x.shape[0],), None, x.dtype, x.device)


@rule("aten.dot.default")
def dot(x: FakeTensor, y: FakeTensor) -> Any:
    """(k,) @ (k,)"""
    if x.ndim != 1 or y.ndim != 1 or not _alike(x, y) or x.shape[0] != y.shape[0]:
        return NotImplemented
    return new_fake((), None, x.dtype, x.device)


@rule("aten._grouped_mm.default")
def grouped_mm(
    x: FakeTensor, y: FakeTensor, offs: FakeTensor | None = None, bias: FakeTensor | None = None, out_dtype: Any = None
) -> Any:
    """A product per group of rows or of matrices on the CPU; rows of the result start at multiples of 16 bytes."""
    if x.device != CPU or not _alike(x, y) or bias is not None or x.shape[-1] != y.shape[-2]:
        return NotImplemented
    if x.dtype not in (torch.float32, torch.bfloat16, torch.float16) or out_dtype not in (None, x.dtype):
        return NotImplemented
    if (x.ndim, y.ndim) == (2, 3) and offs is not None and offs.shape[0] == y.shape[0]:
        shape: tuple[Any, ...] = (x.shape[0], y.shape[2])
    elif (x.ndim, y.ndim) == (3, 3) and offs is None and x.shape[0] == y.shape[0]:
        shape = (x.shape[0], x.shape[1], y.shape[2])
    else:
        return NotImplemented
    unit = 16 // x.dtype.itemsize
    if any(st != 1 and st % unit != 0 for t in (x, y) for st in t.stride()[-2:]):
        return NotImplemented
    row = (shape[-1] + unit - 1) // unit * unit
    stride = (row, 1) if len(shape) == 2 else (shape[1] * row, row, 1)
    return new_fake(shape, stride, x.dtype, x.device)
