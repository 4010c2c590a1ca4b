"""Matrix decompositions whose layout on the CPU differs from what torch's meta kernels say."""

from __future__ import annotations

from typing import Any

import torch

from ..dims import contiguous_strides, shape_of, smaller
from ..tensor import FakeTensor, new_fake
from .operands import CPU
from .registry import rule

# dtype -> its real and its complex kind
_KINDS = {
    torch.float32: (torch.float32, torch.complex64),
    torch.float64: (torch.float64, torch.complex128),
    torch.complex64: (torch.float32, torch.complex64),
    torch.complex128: (torch.float64, torch.complex128),
}


def column_major(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Strides of a batch of matrices stored column by column, as LAPACK wants them.

    >>> column_major((5, 3, 4))
    (12, 1, 3)
    """
    *batch, rows, columns = shape
    swapped = contiguous_strides((*batch, columns, rows))
    return (*swapped[:-2], swapped[-1], swapped[-2])


@rule("aten._linalg_svd.default")
def svd(x: FakeTensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None) -> Any:
    """U and V^H column by column, singular values real."""
    if x.device != CPU or x.ndim < 2 or not compute_uv or x.dtype not in _KINDS:
        return NotImplemented
    real = _KINDS[x.dtype][0]
    *batch, rows, columns = shape_of(x)
    rank = smaller(rows, columns)
    left = (*batch, rows, rows if full_matrices else rank)
    right = (*batch, columns if full_matrices else rank, columns)
    return (
        new_fake(left, column_major(left), x.dtype, x.device),
        new_fake((*batch, rank), None, real, x.device),
        new_fake(right, column_major(right), x.dtype, x.device),
    )


@rule("aten.linalg_eig.default")
def eig(x: FakeTensor) -> Any:
    """Complex values, and vectors column by column."""
    if x.device != CPU or x.ndim < 2 or shape_of(x)[-1] != shape_of(x)[-2]:
        return NotImplemented
    if x.dtype not in _KINDS:
        return NotImplemented
    dtype = _KINDS[x.dtype][1]
    shape = tuple(shape_of(x))
    return (new_fake(shape[:-1], None, dtype, x.device), new_fake(shape, column_major(shape), dtype, x.device))
