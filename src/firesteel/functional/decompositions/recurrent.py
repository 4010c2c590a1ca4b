"""Layers of LSTMs that train: oneDNN's operator in the form that keeps what backward needs."""

from __future__ import annotations

from typing import Any

import torch

from ...torch_compat.recurrent_operators import recurrent_layer
from .registry import decomposition


@decomposition("aten.mkldnn_rnn_layer.default")
def layer(*args: Any) -> Any:
    """Stays as it is where no gradient is wanted."""
    if torch.is_grad_enabled() and any(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args):
        return recurrent_layer()(*args)
    return NotImplemented
