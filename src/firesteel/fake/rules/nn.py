"""Layers: normalisation, softmax, embedding, convolution, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ... import torch_compat
from ..tensor import FakeTensor, FakeUnsupported, new_fake
from . import rule
from .operands import CPU, wrap_dim
from .strides import channels_last_strides, elementwise_layout, preserved_strides, suggests_channels_last


def _same(x: FakeTensor, *others: FakeTensor | None) -> bool:
    """Whether all tensors that are there have the dtype and device of the first."""
    return all(t is None or (t.dtype is x.dtype and t.device == x.device) for t in others)


@rule("aten.native_layer_norm.default")
def native_layer_norm(
    x: FakeTensor, normalized_shape: Sequence[Any], weight: FakeTensor | None, bias: FakeTensor | None, eps: float
) -> Any:
    """Result, mean and reciprocal deviation, all contiguous. Parameters of another dtype are left to torch."""
    count = len(normalized_shape)
    shape = list(x.shape)
    if not count or count > len(shape) or shape[-count:] != list(normalized_shape) or x.device != CPU:
        return NotImplemented
    if not x.dtype.is_floating_point or not _same(x, weight, bias):
        return NotImplemented
    for parameter in (weight, bias):
        if parameter is not None and list(parameter.shape) != list(normalized_shape):
            return NotImplemented
    statistics = shape[:-count] + [1] * count
    return (
        new_fake(shape, None, x.dtype, x.device),
        new_fake(statistics, None, x.dtype, x.device),
        new_fake(statistics, None, x.dtype, x.device),
    )


@rule("aten._softmax.default", "aten._log_softmax.default")
def softmax(x: FakeTensor, dim: int, half_to_float: bool) -> Any:
    """Contiguous, the dtype of the argument."""
    if wrap_dim(dim, x.ndim) is None:
        raise FakeUnsupported("softmax", "the dimension is out of range, which meta kernels let pass")
    if not x.dtype.is_floating_point or half_to_float or not x.is_contiguous():
        return NotImplemented
    return new_fake(x.shape, None, x.dtype, x.device)


@rule("aten.embedding.default")
def embedding(
    weight: FakeTensor,
    indices: FakeTensor,
    padding_idx: Any = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """One row of the weight per index."""
    if weight.ndim != 2 or indices.dtype not in (torch.int64, torch.int32) or weight.device != indices.device:
        return NotImplemented
    return new_fake((*indices.shape, weight.shape[1]), None, weight.dtype, weight.device)


@rule("aten.convolution.default")
def convolution(
    x: FakeTensor,
    weight: FakeTensor,
    bias: FakeTensor | None,
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    transposed: bool,
    output_padding: Sequence[Any],
    groups: int,
) -> Any:
    """Batched convolutions on the CPU. The memory format of the result depends on the library that computes it."""
    spatial = x.ndim - 2
    if spatial not in (1, 2, 3) or weight.ndim != x.ndim or x.device != CPU or not _same(x, weight, bias):
        return NotImplemented
    if not x.dtype.is_floating_point or x.numel() == 0 or weight.numel() == 0 or groups <= 0:
        return NotImplemented
    if not len(stride) == len(padding) == len(dilation) == len(output_padding) == spatial:
        return NotImplemented
    if spatial == 1 and not (x.is_contiguous() and weight.is_contiguous()):
        return NotImplemented  # computed in four dimensions, with a choice of format there
    inputs, outputs = weight.shape[1] * groups, weight.shape[0]
    if transposed:
        inputs, outputs = outputs, inputs
    if x.shape[1] != inputs or weight.shape[0] % groups != 0:
        raise FakeUnsupported("aten.convolution", "the channels do not fit, which meta kernels let pass")
    if bias is not None and (bias.ndim != 1 or bias.shape[0] != outputs):
        return NotImplemented
    shape = [x.shape[0], outputs]
    for i in range(spatial):
        size, reach = x.shape[i + 2], dilation[i] * (weight.shape[i + 2] - 1)
        if stride[i] <= 0 or padding[i] < 0 or dilation[i] <= 0:
            return NotImplemented
        if transposed:
            if output_padding[i] >= stride[i] and output_padding[i] >= dilation[i]:
                return NotImplemented
            shape.append((size - 1) * stride[i] - 2 * padding[i] + reach + output_padding[i] + 1)
        else:
            shape.append((size + 2 * padding[i] - reach - 1) // stride[i] + 1)
        if shape[-1] <= 0:
            return NotImplemented
    memory_format = torch.contiguous_format
    if spatial > 1:
        memory_format = torch_compat.convolution_memory_format(
            x, weight, bias, stride, padding, dilation, transposed, output_padding, groups
        )
    strides = None if memory_format == torch.contiguous_format else channels_last_strides(shape)
    if strides is not None and x.dtype is torch.float64 and groups > 1:
        # One convolution per group, joined by cat, which looks at the format of the pieces.
        piece = (shape[0], outputs // groups, *shape[2:])
        if not suggests_channels_last(piece, channels_last_strides(piece)):
            strides = None
    return new_fake(shape, strides, x.dtype, x.device)


@rule("aten.native_batch_norm.default", "aten._native_batch_norm_legit.default")
def batch_norm(
    x: FakeTensor,
    weight: FakeTensor | None,
    bias: FakeTensor | None,
    running_mean: FakeTensor | None,
    running_var: FakeTensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Result and, when training, the statistics used. Running statistics are updated in place by the kernel."""
    if x.ndim < 2 or x.device != CPU or x.numel() == 0:
        return NotImplemented
    if not x.dtype.is_floating_point:
        return NotImplemented
    if not _same(x, weight, bias, running_mean, running_var):
        if x.dtype in (torch.float32, torch.float64):
            raise FakeUnsupported("batch norm", "parameters of another dtype, which meta kernels let pass")
        return NotImplemented
    channels = x.shape[1]
    for t in (weight, bias, running_mean, running_var):
        if t is not None and (t.ndim != 1 or t.shape[0] != channels):
            return NotImplemented
    if not training and (running_mean is None or running_var is None):
        return NotImplemented
    statistics = (channels,) if training else (0,)
    strides = channels_last_strides(x.shape) if suggests_channels_last(x.shape, x.stride()) else None
    return (
        new_fake(x.shape, strides, x.dtype, x.device),
        new_fake(statistics, None, x.dtype, x.device),
        new_fake(statistics, None, x.dtype, x.device),
    )


@rule("aten._native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(
    x: FakeTensor, weight: FakeTensor | None, bias: FakeTensor | None, training: bool, momentum: float, eps: float
) -> Any:
    """Instance norm and its like."""
    return batch_norm(x, weight, bias, None, None, training, momentum, eps)


@rule("aten.native_dropout.default")
def native_dropout(x: FakeTensor, p: float, train: bool | None) -> Any:
    """Result and mask. On the CPU the mask is made like the argument, the result is their product."""
    if train is False or x.device != CPU or not x.dtype.is_floating_point or not 0 < p < 1 or x.numel() == 0:
        return NotImplemented
    mask_stride = preserved_strides(x.shape, x.stride())
    layout = elementwise_layout(((x.shape, x.stride()), (x.shape, mask_stride)))
    if layout is None:
        return NotImplemented
    return new_fake(*layout, x.dtype, x.device), new_fake(x.shape, mask_stride, torch.bool, x.device)
