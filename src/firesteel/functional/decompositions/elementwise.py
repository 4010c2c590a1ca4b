"""Elementwise operators written with others."""

from __future__ import annotations

import math
from typing import Any

import torch

from .registry import decomposition


@decomposition("prims.convert_element_type.default")
def convert(x: torch.Tensor, dtype: torch.dtype) -> Any:
    """What torch's decompositions call for ``x.to(dtype)``."""
    return x.to(dtype)


@decomposition("aten.angle.default")
def angle(x: torch.Tensor) -> Any:
    """0 or pi for real numbers."""
    if x.is_complex() or not x.is_floating_point():
        return NotImplemented
    zero = torch.zeros((), dtype=x.dtype, device=x.device)
    half_turn = torch.full((), math.pi, dtype=x.dtype, device=x.device)
    return torch.where(torch.isnan(x), x, torch.where(x < 0, half_turn, zero))
