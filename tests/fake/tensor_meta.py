"""All that can be known of a tensor without its data, to compare fake tensors with real ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from firesteel import torch_compat
from firesteel.fake import FakeTensor


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """All that can be known of a tensor without its data."""

    shape: tuple[Any, ...]
    stride: tuple[Any, ...]
    storage_offset: Any
    dtype: torch.dtype
    device: torch.device
    layout: torch.layout
    requires_grad: bool
    is_leaf: bool
    is_inference: bool
    is_view: bool
    is_parameter: bool


def describe(t: torch.Tensor) -> TensorMeta:
    """The metadata of a tensor, fake or real."""
    return TensorMeta(
        shape=tuple(t.shape),
        stride=tuple(t.stride()),
        storage_offset=t.storage_offset(),
        dtype=t.dtype,
        device=t.device,
        layout=t.layout,
        requires_grad=t.requires_grad,
        is_leaf=t.is_leaf,
        is_inference=t.is_inference(),
        is_view=torch_compat.view_base(t) is not None,
        is_parameter=t.is_parameter if isinstance(t, FakeTensor) else isinstance(t, torch.nn.Parameter),
    )
