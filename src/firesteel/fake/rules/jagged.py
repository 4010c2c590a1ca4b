"""Sequences of different lengths, one behind the other, to padded ones of one length, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dims import shape_of
from ..tensor import FakeTensor, new_fake
from .registry import rule


@rule("aten._padded_dense_to_jagged_forward.default")
def padded_to_jagged(dense: FakeTensor, offsets: Sequence[FakeTensor], total_L: Any = None) -> Any:  # noqa: N803
    """All rows that are no padding. How many these are is only known where it is said."""
    if total_L is None or len(offsets) != 1 or dense.ndim < 2:
        return NotImplemented
    return new_fake((total_L, *shape_of(dense)[2:]), None, dense.dtype, dense.device)


@rule("aten._jagged_to_padded_dense_forward.default")
def jagged_to_padded(values: FakeTensor, offsets: Sequence[FakeTensor], max_lengths: Sequence[Any],
                     padding_value: float = 0.0) -> Any:
    """As many rows for each sequence as are asked for."""
    if len(offsets) != 1 or len(max_lengths) != 1 or values.ndim != 2:
        return NotImplemented
    (count,), (_, width) = shape_of(offsets[0]), shape_of(values)
    return new_fake((count - 1, max_lengths[0], width), None, values.dtype, values.device)
