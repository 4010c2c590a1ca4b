"""Fake quantisation, as tools put it around layers."""

from __future__ import annotations

from typing import Any

import torch

from ..dims import layout_of, shape_of
from ..tensor import FakeTensor, new_fake
from .registry import rule
from .strides import preserved_strides


@rule("aten.fake_quantize_per_tensor_affine_cachemask.default",
      "aten.fake_quantize_per_channel_affine_cachemask.default",
      "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default")
def fake_quantize(x: FakeTensor, *rest: Any) -> Any:
    """The rounded values, and which of them were in range."""
    shape, stride = shape_of(x), preserved_strides(*layout_of(x))
    return new_fake(shape, stride, x.dtype, x.device), new_fake(shape, stride, torch.bool, x.device)
