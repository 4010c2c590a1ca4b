"""Operators that eager leaves to cuDNN and that kernels do as well: batch norm, fused with what is around it."""

from __future__ import annotations

from typing import Any

import torch

from .registry import decomposition

_ATEN = torch.ops.aten


@decomposition("aten.cudnn_batch_norm.default")
def batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """The same without memory for the library's own use."""
    if not training and (running_mean is None or running_var is None):
        return NotImplemented
    if not training:
        results = _ATEN._native_batch_norm_legit_no_training(x, weight, bias, running_mean, running_var, momentum, eps)
    elif running_mean is None or running_var is None:
        results = _ATEN._native_batch_norm_legit.no_stats(x, weight, bias, True, momentum, eps)
    else:
        results = _ATEN._native_batch_norm_legit(x, weight, bias, running_mean, running_var, True, momentum, eps)
    return *results, torch.empty(0, dtype=torch.uint8, device=x.device)


@decomposition("aten.cudnn_batch_norm_backward.default")
def batch_norm_backward(
    x: torch.Tensor,
    grad: torch.Tensor,
    weight: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    mean: torch.Tensor,
    scale: torch.Tensor,
    eps: float,
    reserve: torch.Tensor,
) -> Any:
    """cuDNN saves the reciprocal of the deviation, as eager's own kernels do; running statistics are not read."""
    return _ATEN.native_batch_norm_backward(grad, x, weight, None, None, mean, scale, True, eps, [True, True, True])
