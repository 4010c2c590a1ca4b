"""Layers of LSTMs as oneDNN computes them when they train."""

from __future__ import annotations

from typing import Any

import torch

from ... import torch_compat
from ...torch_compat.recurrent_operators import workspace_bytes
from ..tensor import FakeTensor, new_fake
from .registry import rule


@rule("firesteel.recurrent_layer.default")
def recurrent_layer(x: FakeTensor, w_ih: FakeTensor, w_hh: FakeTensor, b_ih: FakeTensor, b_hh: FakeTensor,
                    hidden: FakeTensor, cell: FakeTensor, *settings: Any) -> Any:
    """The output and both states by rows, and a workspace of a size that the library is asked for."""
    if torch_compat.has_symbolic_layout(x):
        return NotImplemented
    steps, batch, width = x.shape
    size = settings[3]
    kept = workspace_bytes(steps, batch, width, size, x.dtype)
    return (new_fake((steps, batch, size), None, x.dtype, x.device), _like(hidden), _like(cell),
            new_fake((kept,), None, torch.uint8, x.device))


@rule("aten.mkldnn_rnn_layer_backward.default")
def recurrent_layer_backward(x: FakeTensor, w_ih: FakeTensor, w_hh: FakeTensor, b_ih: FakeTensor, b_hh: FakeTensor,
                             hidden: FakeTensor, cell: FakeTensor, *rest: Any) -> Any:
    """One gradient for each of the tensors, by rows and in single precision."""
    if torch_compat.has_symbolic_layout(x):
        return NotImplemented
    return tuple([new_fake(tuple(tensor.shape), None, torch.float32, tensor.device)
                  for tensor in (x, w_ih, w_hh, b_ih, b_hh, hidden, cell)])


def _like(tensor: FakeTensor) -> FakeTensor:
    return new_fake(tuple(tensor.shape), None, tensor.dtype, tensor.device)
