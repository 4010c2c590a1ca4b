"""Calls of our own matrix product: what stands in host programs for ``mm`` and ``addmm`` where it is faster.

    product(left, right)            # torch.mm(left, right)
    product(left, right, bias)      # torch.addmm(bias, left, right)

Each call looks at the tensors it gets. Layouts that the machine code does not take, and sizes for which it is not
faster, go to ATen, so a program may be compiled for sizes that change.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import torch

from . import gemm
from .engine import compile_text
from .target import Target, host

LEAST_WORK = 1 << 23
"""Multiplications from which on the way to the code does not matter."""
LEAST_ROWS = 32
"""Rows of the left matrix: every element of the right one is packed before it is used so many times."""
LEAST_COLUMNS = 64
LEAST_DEPTH = 64


def is_available() -> bool:
    """Whether this CPU has the vectors that the code is written for."""
    return host().vector_bytes >= 32


@functools.cache
def machine_code(target: Target | None = None) -> Callable[..., None]:
    """The function that `gemm.module_text` describes."""
    target = target or host()
    compiled = compile_text("matrix product", functools.partial(gemm.module_text, target), target)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 7)(compiled.address)


def is_large(rows: int, columns: int, depth: int) -> bool:
    """Whether a product is of a size for which the code is meant."""
    return rows >= LEAST_ROWS and columns >= LEAST_COLUMNS and depth >= LEAST_DEPTH \
        and rows * columns * depth >= LEAST_WORK


def product(left: Any, right: Any, bias: Any = None) -> Any:
    """``left @ right``, plus ``bias`` for each row where there is one, of matrices in single precision."""
    if _is_taken(left, right, bias):
        out = torch.empty((left.shape[0], right.shape[1]), dtype=torch.float32)
        compute(machine_code(), left, right, bias, out)
        return out
    return torch.mm(left, right) if bias is None else torch.addmm(bias, left, right)


def product_into(left: Any, right: Any, bias: Any = None, *, out: Any) -> None:
    """``left @ right`` (plus ``bias``) of matrices in single precision, into a contiguous matrix."""
    if _is_taken(left, right, bias):
        compute(machine_code(), left, right, bias, out)
    elif bias is None:
        torch.mm(left, right, out=out)
    else:
        torch.addmm(bias, left, right, out=out)


def _is_taken(left: Any, right: Any, bias: Any) -> bool:
    return 1 in left.stride() and 1 in right.stride() and (bias is None or bias.stride(0) == 1) \
        and is_large(left.shape[0], right.shape[1], left.shape[1])


def compute(code: Callable[..., None], left: Any, right: Any, bias: Any, out: Any) -> None:
    """Run the machine code on matrices that it takes."""
    rows, depth = left.shape
    left_row, left_step = left.stride()
    right_row, right_step = right.stride()
    # A right matrix whose columns are contiguous is the transposed weight of a linear layer; such a left one is the
    # gradient that a weight's is computed from. The other distance is the one that counts.
    left_turned, right_turned = left_step != 1, right_step != 1
    code(left.data_ptr(), right.data_ptr(), 0 if bias is None else bias.data_ptr(), out.data_ptr(),
         rows, right.shape[1], depth, left_step if left_turned else left_row, right_step if right_turned else right_row,
         left_turned, right_turned)
