"""Matrix decompositions whose layout on the CPU differs from what torch's meta kernels say."""

from __future__ import annotations

from typing import Any

import torch

from ...devices import kind_of
from ..dims import contiguous_strides, larger, require_equal, shape_of, smaller
from ..tensor import DataDependentError, FakeTensor, new_fake
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


@rule("aten.linalg_lstsq.default")
def lstsq(x: FakeTensor, b: FakeTensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """Solutions column by column, in memory that has room for the right sides too; of the drivers that find out the
    rank first, residuals are there or not as it says, so these are left to data."""
    if not kind_of(x).is_host or x.ndim < 2 or x.dtype not in _KINDS or driver not in (None, "gelsy", "gels"):
        raise DataDependentError("aten.linalg_lstsq", f"whether driver={driver!r} gives residuals is up to the rank")
    *batch, rows, columns = shape_of(x)
    vectors = b.ndim == x.ndim - 1
    sides = tuple(shape_of(b)) if not vectors else (*shape_of(b), 1)
    fits = b.dtype is x.dtype and len(sides) == x.ndim and all(map(require_equal, sides, (*batch, rows)))
    if not fits:
        return NotImplemented
    room = (*batch, larger(rows, columns), sides[-1])
    shape, stride = (*batch, columns, sides[-1]), column_major(room)
    real = _KINDS[x.dtype][0]
    has_rank = driver != "gels"
    left_over: tuple[Any, ...] = (0,)
    if not has_rank and not (isinstance(rows, int) and isinstance(columns, int)):
        return NotImplemented
    if not has_rank and rows > columns:
        left_over = (*batch, sides[-1])
    return (
        new_fake(shape[:-1] if vectors else shape, stride[:-1] if vectors else stride, x.dtype, x.device),
        new_fake(left_over, None, real, x.device),
        new_fake(tuple(batch) if has_rank else (0,), None, torch.int64, x.device),
        new_fake((0,), None, real, x.device),
    )
