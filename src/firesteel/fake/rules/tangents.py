"""What forward-mode differentiation asks of tangents: they lie in memory as what they belong to, storages included."""

from __future__ import annotations

import math
from typing import Any

from ...torch_compat import has_symbolic_layout
from ..dims import layout_of, offset_of
from ..tensor import FakeTensor, new_fake, view_of
from .registry import rule


def _room(x: FakeTensor) -> int:
    """How many elements a storage has."""
    return x.untyped_storage().nbytes() // x.dtype.itemsize


@rule("aten._has_same_storage_numel.default")
def has_same_storage_numel(x: FakeTensor, other: FakeTensor) -> Any:
    """Whether two storages have room for the same number of elements."""
    if has_symbolic_layout(x) or has_symbolic_layout(other):
        return NotImplemented
    return _room(x) == _room(other)


@rule("aten._new_zeros_with_same_feature_meta.default")
def new_zeros_with_same_feature_meta(x: FakeTensor, other: FakeTensor, *, self_num_batch_dims: int = 0) -> Any:
    """Zeros in the layout and storage of ``other``, one for each slice of the first dimensions of ``x``."""
    if has_symbolic_layout(x) or has_symbolic_layout(other):
        return NotImplemented
    room = _room(other)
    batch = tuple(x.shape[:self_num_batch_dims])
    base = new_fake((math.prod(batch) * room,), None, other.dtype, other.device)
    steps = [max(room, 1) * math.prod(batch[at + 1:]) for at in range(len(batch))]
    shape, stride = layout_of(other)
    return view_of(base, (*batch, *shape), (*steps, *stride), offset_of(other))
