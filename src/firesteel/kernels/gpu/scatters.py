"""Stores that combine with what is in memory, as Triton's atomic operations."""

from __future__ import annotations

import torch

from ...functional.graph import Unsupported
from ..ir import Store

_WIDE = (torch.float32, torch.float64, torch.int32, torch.int64)


def atomic(store: Store, at: str, value: str, mask: str) -> str:
    """The line that combines ``value`` with what is ``at`` an index, where a mask is true. Nobody waits for it."""
    dtype, buffer = store.value.dtype, store.place.buffer
    if store.mode not in ("add", "max", "min"):
        raise Unsupported(f"a store that combines: {store.mode}")
    if dtype not in _WIDE or (store.mode != "add" and dtype.is_floating_point):
        raise Unsupported(f"memory that combines {dtype}: {store.mode}")
    masked = f", mask={mask}" if mask else ""
    return f'tl.atomic_{store.mode}({buffer} + {at}, {value}{masked}, sem="relaxed")'
