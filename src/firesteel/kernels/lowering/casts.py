"""Copies and conversions: the same elements as another dtype or in memory of their own."""

from __future__ import annotations

from typing import Any

import torch

from ..ir import Value
from .context import Lowering
from .registry import lowering
from .scalars import cast
from .tensors import Indices, Tensor
from .views import expanded


def converted(ctx: Lowering, x: Tensor) -> Tensor:
    """The elements as the operator's result: its dtype, and its layout when it goes to memory."""
    dtype = ctx.out.dtype
    return ctx.computed(lambda indices: cast(x.at(indices), dtype))


@lowering("aten._to_copy.default")
def to_copy(
    ctx: Lowering,
    x: Tensor,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Tensor:
    if x.device != ctx.out.device or pin_memory:
        return ctx.unsupported("copies between devices")
    return converted(ctx, x)


@lowering("aten.clone.default")
def clone(ctx: Lowering, x: Tensor, *, memory_format: Any = None) -> Tensor:
    return converted(ctx, x)


@lowering("aten.copy.default")
def copy(ctx: Lowering, x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    if source.device != ctx.out.device:
        return ctx.unsupported("copies between devices")
    return converted(ctx, expanded(ctx, source, ctx.out.shape))


@lowering("aten.view.dtype")
def view_dtype(ctx: Lowering, x: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype.itemsize != x.dtype.itemsize or torch.bool in (dtype, x.dtype):
        return ctx.unsupported("elements of another size")

    def body(indices: Indices) -> Value:
        value = x.at(indices)
        return value if value.dtype is dtype else Value("bitcast", dtype, (value,))

    return ctx.computed(body)


