"""Zeros that are made for tangents of forward-mode differentiation."""

from __future__ import annotations

from typing import Any

import torch

from ...fake.dims import layout_of, offset_of
from ...fake.rules.strides import is_dense
from .registry import decomposition


@decomposition("aten._new_zeros_with_same_feature_meta.default")
def new_zeros_with_same_feature_meta(x: torch.Tensor, other: torch.Tensor, *, self_num_batch_dims: int = 0) -> Any:
    """New memory in the layout of ``other``; stays as it is where that is a part of more memory."""
    shape, stride = layout_of(other)
    if self_num_batch_dims or offset_of(other) != 0 or not is_dense(shape, stride) or \
            other.numel() * other.element_size() != other.untyped_storage().nbytes():
        return NotImplemented
    return torch.empty_strided(other.shape, other.stride(), dtype=other.dtype, device=other.device).zero_()
