"""Operators of the libraries behind torch's CPU kernels that no public function calls, where this build has them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .dispatch import OpOverload, find_operator

_find = functools.cache(find_operator)


def onednn_enabled() -> bool:
    """Whether convolutions and matrix products may go to oneDNN."""
    return bool(torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled)


def onednn_convolution() -> OpOverload | None:
    """``(x, weight, bias, padding, stride, dilation, groups, activation, numbers, algorithm)``.

    ``weight`` may have been packed by `pack_convolution_weight`.
    """
    return _find("mkldnn", "_convolution_pointwise", "default") if onednn_enabled() else None


def onednn_convolution_add() -> OpOverload | None:
    """``(x, other, weight, bias, padding, stride, dilation, groups, "add", alpha, activation, numbers, algorithm)``."""
    return _find("mkldnn", "_convolution_pointwise", "binary") if onednn_enabled() else None


def onednn_linear() -> OpOverload | None:
    """``(x, weight, bias, activation, numbers, algorithm)``; ``weight`` may have been packed."""
    return _find("mkldnn", "_linear_pointwise", "default") if onednn_enabled() else None


def pack_convolution_weight() -> Callable[..., Any] | None:
    """``(weight, padding, stride, dilation, groups, input_size)`` to the layout that the library computes with."""
    return _find("mkldnn", "_reorder_convolution_weight", "default") if onednn_enabled() else None


def pack_linear_weight() -> Callable[..., Any] | None:
    """``(weight, rows)`` to the layout that the library computes with."""
    return _find("mkldnn", "_reorder_linear_weight", "default") if onednn_enabled() else None


@functools.cache
def onednn_has_bfloat16() -> bool:
    """Whether oneDNN computes with bfloat16 on this CPU."""
    operator = _find("mkldnn", "_is_mkldnn_bf16_supported", "default")
    return operator is not None and bool(operator())
