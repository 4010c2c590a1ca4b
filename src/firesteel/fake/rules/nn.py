"""Layers: normalisation, softmax, embedding, convolution, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ... import torch_compat
from ..dims import layout_of, numel_of, require_equal, shape_of
from ..tensor import FakeTensor, FakeUnsupported, new_fake
from .operands import CPU, same_kind, statistics_dtype, wrap_dim
from .registry import rule
from .strides import (
    channels_last_strides,
    contiguous,
    elementwise_layout,
    in_first_format_of,
    in_format_of,
    is_channels_last,
    preserved_strides,
    suggests_channels_last,
)


@rule("aten.native_layer_norm.default")
def native_layer_norm(
    x: FakeTensor, normalized_shape: Sequence[Any], weight: FakeTensor | None, bias: FakeTensor | None, eps: float
) -> Any:
    """Result, mean and reciprocal deviation, all contiguous. Parameters of another dtype are left to torch."""
    count = len(normalized_shape)
    shape = list(shape_of(x))
    if not count or count > len(shape) or shape[-count:] != list(normalized_shape) or x.device != CPU:
        return NotImplemented
    if not x.dtype.is_floating_point or not same_kind(x, weight, bias):
        return NotImplemented
    for parameter in (weight, bias):
        if parameter is not None and list(shape_of(parameter)) != list(normalized_shape):
            return NotImplemented
    statistics = shape[:-count] + [1] * count
    return (
        new_fake(shape, None, x.dtype, x.device),
        new_fake(statistics, None, x.dtype, x.device),
        new_fake(statistics, None, x.dtype, x.device),
    )


@rule("aten.native_group_norm.default")
def native_group_norm(
    x: FakeTensor,
    weight: FakeTensor | None,
    bias: FakeTensor | None,
    batch: Any,
    channels: Any,
    elements: Any,
    groups: int,
    eps: float,
) -> Any:
    """Result, mean and reciprocal deviation of each group."""
    dtype = statistics_dtype(x, weight, bias)
    if x.device != CPU or not x.dtype.is_floating_point or x.ndim < 2:
        return NotImplemented
    if dtype is None:
        raise FakeUnsupported("group norm", "parameters of another dtype, which meta kernels let pass")
    shape, stride = layout_of(x)
    last = suggests_channels_last(shape, stride)
    for t in (weight, bias):
        if t is not None and (t.ndim != 1 or not require_equal(shape_of(t)[0], channels)):
            return NotImplemented
    if not (is_channels_last(shape, stride) if last else contiguous(x)) and not torch_compat.group_norm_takes_gaps():
        raise FakeUnsupported("aten.native_group_norm", "a layout with gaps, which meta kernels let pass")
    return (
        new_fake(shape, channels_last_strides(shape) if last else None, x.dtype, x.device),
        new_fake((batch, groups), None, dtype, x.device),
        new_fake((batch, groups), None, dtype, x.device),
    )


@rule("aten._safe_softmax.default")
def safe_softmax(x: FakeTensor, dim: int, dtype: torch.dtype | None = None) -> Any:
    """Contiguous, the dtype of the argument; rows of minus infinity give zeros."""
    if dtype not in (None, x.dtype) or wrap_dim(dim, x.ndim) is None or not x.dtype.is_floating_point:
        return NotImplemented
    return new_fake(shape_of(x), None, x.dtype, x.device)


@rule("aten._softmax.default", "aten._log_softmax.default")
def softmax(x: FakeTensor, dim: int, half_to_float: bool) -> Any:
    """Contiguous, the dtype of the argument."""
    if wrap_dim(dim, x.ndim) is None:
        raise FakeUnsupported("softmax", "the dimension is out of range, which meta kernels let pass")
    if not x.dtype.is_floating_point or half_to_float:
        return NotImplemented
    return new_fake(shape_of(x), None, x.dtype, x.device)


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
    return new_fake((*shape_of(indices), shape_of(weight)[1]), None, weight.dtype, weight.device)


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
    if x.ndim < 2 or x.device != CPU or numel_of(x) == 0:
        return NotImplemented
    if not x.dtype.is_floating_point:
        return NotImplemented
    dtype = statistics_dtype(x, weight, bias, running_mean, running_var)
    if dtype is None:
        raise FakeUnsupported("batch norm", "parameters of another dtype, which meta kernels let pass")
    channels = shape_of(x)[1]
    for t in (weight, bias, running_mean, running_var):
        if t is not None and (t.ndim != 1 or shape_of(t)[0] != channels):
            return NotImplemented
    if not training and (running_mean is None or running_var is None):
        return NotImplemented
    statistics = (channels,) if training else (0,)
    packed = all(t is None or contiguous(t) for t in (weight, bias, running_mean, running_var))
    return (
        in_first_format_of(x) if packed else in_format_of(x, shape_of(x)),
        new_fake(statistics, None, dtype, x.device),
        new_fake(statistics, None, dtype, x.device),
    )


@rule("aten._native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(
    x: FakeTensor, weight: FakeTensor | None, bias: FakeTensor | None, training: bool, momentum: float, eps: float
) -> Any:
    """Instance norm and its like."""
    return batch_norm(x, weight, bias, None, None, training, momentum, eps)


@rule("aten._native_batch_norm_legit_no_training.default")
def batch_norm_no_training(
    x: FakeTensor,
    weight: FakeTensor | None,
    bias: FakeTensor | None,
    running_mean: FakeTensor,
    running_var: FakeTensor,
    momentum: float,
    eps: float,
) -> Any:
    """Inference: there are no statistics of the batch."""
    return batch_norm(x, weight, bias, running_mean, running_var, False, momentum, eps)


@rule("aten._native_batch_norm_legit_functional.default")
def batch_norm_functional(
    x: FakeTensor,
    weight: FakeTensor | None,
    bias: FakeTensor | None,
    running_mean: FakeTensor,
    running_var: FakeTensor,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Batch norm with the new running statistics as further results."""
    results = batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps)
    if results is NotImplemented:
        return results
    return *results, *[new_fake(shape_of(t), None, t.dtype, t.device) for t in (running_mean, running_var)]


@rule("aten.native_dropout.default")
def native_dropout(x: FakeTensor, p: float, train: bool | None) -> Any:
    """Result and mask. On the CPU the mask is made like the argument, the result is their product."""
    if train is False or x.device != CPU or not x.dtype.is_floating_point or not 0 < p < 1 or numel_of(x) == 0:
        return NotImplemented
    mask_stride = preserved_strides(*layout_of(x))
    layout = elementwise_layout((layout_of(x), (shape_of(x), mask_stride)))
    if layout is None:
        return NotImplemented
    return new_fake(*layout, x.dtype, x.device), new_fake(shape_of(x), mask_stride, torch.bool, x.device)
