"""Fused attention on the CPU."""

from __future__ import annotations

from typing import Any

import torch

from ..dims import layout_of, shape_of
from ..tensor import FakeTensor, FakeUnsupported, new_fake
from .operands import CPU, same_kind
from .registry import rule
from .strides import packed_strides, preserved_strides


def _heads_inside(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Strides of a tensor (batch, heads, sequence, ...) that lies in memory as (batch, sequence, heads, ...)."""
    return packed_strides(shape, (*range(len(shape) - 1, 2, -1), 1, 2, 0))


def _fits(query: FakeTensor, key: FakeTensor, value: FakeTensor) -> bool:
    if query.device != CPU or not query.dtype.is_floating_point or not same_kind(query, key, value):
        return False
    if not query.ndim == key.ndim == value.ndim == 4:
        raise FakeUnsupported("attention", "not (batch, heads, sequence, width), which meta kernels let pass")
    return True


@rule("aten._scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention(
    query: FakeTensor,
    key: FakeTensor,
    value: FakeTensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: FakeTensor | None = None,
    scale: Any = None,
) -> Any:
    """The result in the layout of the query, and a number per row for the gradient."""
    if not _fits(query, key, value) or dropout_p != 0.0:
        return NotImplemented
    shape = shape_of(query)
    rows = shape[:3]
    wide = torch.float64 if query.dtype is torch.float64 else torch.float32
    return (
        new_fake(shape, preserved_strides(*layout_of(query)), query.dtype, query.device),
        new_fake(rows, _heads_inside(rows), wide, query.device),
    )


@rule("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def flash_attention_backward(
    grad: FakeTensor, query: FakeTensor, key: FakeTensor, value: FakeTensor, *rest: Any, **kwargs: Any
) -> Any:
    """Gradients of query, key and value."""
    if not _fits(query, key, value):
        return NotImplemented
    shapes = [shape_of(t) for t in (query, key, value)]
    return tuple([new_fake(shape, _heads_inside(shape), query.dtype, query.device) for shape in shapes])
