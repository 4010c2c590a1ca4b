"""Gradients of layers and activations: operators that autograd calls.

Most are given the tensor whose gradient they compute, and answer in its shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..dims import layout_of, shape_of
from ..tensor import FakeTensor, FakeUnsupported, new_fake
from .operands import CPU, same_kind, statistics_dtype, wrap_dim
from .registry import rule
from .strides import (
    broadcast_shapes,
    contiguous,
    elementwise_layout,
    in_first_format_of,
    in_format_of,
    is_contiguous,
    is_dense,
    suggests_channels_last,
)

_ACTIVATIONS = "tanh sigmoid gelu silu elu hardswish hardsigmoid hardtanh softplus hardshrink softshrink"


@rule(*(f"aten.{name}_backward.default" for name in _ACTIVATIONS.split()))
def activation(grad: FakeTensor, *params: Any, **kwargs: Any) -> Any:
    """Elementwise in the gradient and the activation's input or result. Operands of different dtypes are torch's."""
    other = next(value for value in params if isinstance(value, FakeTensor))
    if not grad.dtype.is_floating_point or not same_kind(grad, other):
        return NotImplemented
    layout = elementwise_layout((layout_of(grad), layout_of(other)))
    return NotImplemented if layout is None else new_fake(*layout, grad.dtype, grad.device)


@rule("aten.threshold_backward.default", "aten.leaky_relu_backward.default")
def rectifier(grad: FakeTensor, x: FakeTensor, *params: Any) -> Any:
    """Elementwise in the activation's input, which comes first where the layouts differ, and the gradient."""
    return activation(x, grad)


@rule("aten.native_dropout_backward.default")
def dropout(grad: FakeTensor, mask: FakeTensor, scale: float) -> Any:
    """The gradient where the mask is set."""
    if not grad.dtype.is_floating_point or mask.dtype is not torch.bool or mask.device != grad.device:
        return NotImplemented
    layout = elementwise_layout((layout_of(grad), layout_of(mask)))
    return NotImplemented if layout is None else new_fake(*layout, grad.dtype, grad.device)


@rule("aten.slice_backward.default", "aten.select_backward.default", "aten.diagonal_backward.default")
def view(grad: FakeTensor, input_sizes: Sequence[Any], *where: Any) -> Any:
    """Zeros in the shape of the tensor that was looked into, with the gradient at its place."""
    return new_fake(input_sizes, None, grad.dtype, grad.device)


@rule("aten._softmax_backward_data.default", "aten._log_softmax_backward_data.default")
def softmax(grad: FakeTensor, output: FakeTensor, dim: int, input_dtype: torch.dtype) -> Any:
    """Contiguous."""
    if wrap_dim(dim, output.ndim) is None or grad.dtype is not input_dtype or not same_kind(grad, output):
        return NotImplemented
    if not grad.dtype.is_floating_point or broadcast_shapes([shape_of(grad), shape_of(output)]) is None:
        return NotImplemented
    return new_fake(shape_of(grad), None, grad.dtype, grad.device)


@rule("aten.native_layer_norm_backward.default")
def layer_norm(
    grad: FakeTensor,
    x: FakeTensor,
    normalized_shape: Sequence[Any],
    mean: FakeTensor,
    rstd: FakeTensor,
    weight: FakeTensor | None,
    bias: FakeTensor | None,
    output_mask: Sequence[bool],
) -> Any:
    """All contiguous. Parameters of another dtype are left to torch."""
    if x.device != CPU or not x.dtype.is_floating_point:
        return NotImplemented
    if weight is None and mean.dtype is not x.dtype:
        raise FakeUnsupported("aten.native_layer_norm_backward", "statistics of another dtype, which eager refuses")
    if not same_kind(x, grad, mean, rstd, weight, bias):
        return NotImplemented
    wanted, parameters = (x, weight, bias), []
    for asked, t in zip(output_mask[1:], wanted[1:], strict=True):
        if asked and t is None:
            return NotImplemented
        parameters.append(new_fake(shape_of(t), None, x.dtype, x.device) if asked and t is not None else None)
    return (new_fake(shape_of(x), None, x.dtype, x.device) if output_mask[0] else None, *parameters)


def _norm_gradients(
    x: FakeTensor, channels: Any, output_mask: Sequence[bool], dtype: torch.dtype
) -> tuple[FakeTensor | None, ...]:
    parameters = [new_fake((channels,), None, dtype, x.device) if asked else None for asked in output_mask[1:]]
    return (in_format_of(x, shape_of(x)) if output_mask[0] else None, *parameters)


@rule("aten.native_group_norm_backward.default")
def group_norm(
    grad: FakeTensor,
    x: FakeTensor,
    mean: FakeTensor,
    rstd: FakeTensor,
    weight: FakeTensor | None,
    batch: Any,
    channels: Any,
    elements: Any,
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    """The layout of the argument; of the parameters a number per channel."""
    dtype = statistics_dtype(x, mean, rstd, weight)
    if x.device != CPU or not x.dtype.is_floating_point or dtype is None or not same_kind(x, grad):
        return NotImplemented
    return _norm_gradients(x, channels, output_mask, dtype)


@rule("aten.native_batch_norm_backward.default")
def batch_norm(
    grad: FakeTensor,
    x: FakeTensor,
    weight: FakeTensor | None,
    running_mean: FakeTensor | None,
    running_var: FakeTensor | None,
    save_mean: FakeTensor | None,
    save_invstd: FakeTensor | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> Any:
    """The memory format of the argument; of the parameters a number per channel."""
    if x.device != CPU or x.dtype not in (torch.float32, torch.float64) or x.ndim < 2:
        return NotImplemented
    if not same_kind(x, grad, weight, running_mean, running_var, save_mean, save_invstd):
        return NotImplemented
    gradient, *parameters = _norm_gradients(x, shape_of(x)[1], output_mask, x.dtype)
    if gradient is not None and all(suggests_channels_last(*layout_of(t)) for t in (x, grad)) and contiguous(grad):
        gradient = in_first_format_of(x)  # of both memory formats that both may have, eager takes the contiguous one
    return gradient, *parameters


@rule("aten.embedding_dense_backward.default")
def embedding(grad: FakeTensor, indices: FakeTensor, rows: Any, padding_idx: Any, scale_grad_by_freq: bool) -> Any:
    """A whole table of gradients."""
    if indices.device != grad.device or indices.dtype not in (torch.int64, torch.int32) or grad.ndim == 0:
        return NotImplemented
    return new_fake((rows, shape_of(grad)[-1]), None, grad.dtype, grad.device)


@rule("aten.mse_loss_backward.default")
def mse_loss(grad: FakeTensor, x: FakeTensor, target: FakeTensor, reduction: int) -> Any:
    """Contiguous, in the shape of the argument."""
    if not x.dtype.is_floating_point or not same_kind(x, grad, target):
        return NotImplemented
    shape = broadcast_shapes([shape_of(grad), shape_of(x), shape_of(target)])
    return NotImplemented if shape != tuple(shape_of(x)) else new_fake(shape, None, x.dtype, x.device)


@rule("aten.nll_loss_backward.default", "aten.nll_loss2d_backward.default")
def nll_loss(
    grad: FakeTensor,
    x: FakeTensor,
    target: FakeTensor,
    weight: FakeTensor | None,
    reduction: int,
    ignore_index: Any,
    total_weight: FakeTensor,
) -> Any:
    """Contiguous, in the shape of the scores."""
    if not x.dtype.is_floating_point or not same_kind(x, grad, weight, total_weight) or target.device != x.device:
        return NotImplemented
    shape, stride = layout_of(x)
    if len(shape) == 4 and is_dense(shape, stride) and not is_contiguous(shape, stride):
        raise FakeUnsupported("aten.nll_loss2d_backward", "scores not contiguous, which meta kernels let pass")
    return new_fake(shape_of(x), None, x.dtype, x.device)
