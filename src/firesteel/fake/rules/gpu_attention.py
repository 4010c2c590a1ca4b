"""Which kernel attention takes on a GPU: torch itself is asked, with tensors of the same kind that hold nothing."""

from __future__ import annotations

from typing import Any

import torch

from ... import torch_compat
from ...devices import kind_of
from ..dims import layout_of
from ..tensor import FakeTensor
from .registry import rule


@rule("aten._fused_sdp_choice.default")
def kernel_of_attention(
    query: FakeTensor,
    key: FakeTensor,
    value: FakeTensor,
    attn_mask: FakeTensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Any:
    """The number of the kernel; meta kernels do not know about GPUs and answer with the slowest."""
    given = [query, key, value] if attn_mask is None else [query, key, value, attn_mask]
    if not kind_of(query).has_cudnn or any(torch_compat.has_symbolic_layout(t) for t in given):
        return NotImplemented
    mask = None if attn_mask is None else _like(attn_mask)
    return torch_compat.attention_kernel(
        _like(query), _like(key), _like(value), mask, dropout_p, is_causal, scale, enable_gqa)


def _like(fake: FakeTensor) -> torch.Tensor:
    shape, stride = layout_of(fake)
    empty = torch.empty_strided(shape, stride, dtype=fake.dtype, device=fake.device)
    return empty.requires_grad_(fake.requires_grad) if fake.is_floating_point() else empty
