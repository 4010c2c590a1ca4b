"""Convolutions and their gradients. The memory format depends on the library that computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ... import torch_compat
from ..dims import layout_of, numel_of, require_equal, shape_of
from ..tensor import FakeTensor, FakeUnsupported, new_fake
from . import rule
from .operands import CPU, same_kind
from .strides import channels_last_strides, contiguous, suggests_channels_last


def _known(x: FakeTensor, weight: FakeTensor, *others: FakeTensor | None) -> bool:
    """Whether a rule here knows the layout of the result."""
    spatial = x.ndim - 2
    if spatial not in (1, 2, 3) or weight.ndim != x.ndim or not same_kind(x, weight, *others):
        return False
    if x.device != CPU and not (_on_gpu(x) and spatial == 2):
        return False
    if not x.dtype.is_floating_point or numel_of(x) == 0 or numel_of(weight) == 0:
        return False
    # One dimension is computed as two, with a choice of format there.
    return spatial > 1 or (contiguous(x) and contiguous(weight))


def _on_gpu(x: FakeTensor) -> bool:
    """Whether cuDNN computes images of this kind; then channels last go in and out."""
    return x.device.type == "cuda" and x.dtype in (torch.float32, torch.float16, torch.bfloat16) \
        and torch.backends.cudnn.enabled and torch.backends.cudnn.is_available()


def _channels_last(x: FakeTensor, weight: FakeTensor, bias: FakeTensor | None, arguments: Sequence[Any]) -> bool:
    spatial = x.ndim - 2
    if spatial == 1 or not any(suggests_channels_last(*layout_of(t)) for t in (x, weight)):
        return False
    if x.device != CPU:
        return True
    if spatial == 2 and torch_compat.has_symbolic_layout(x):
        return True  # which library it is depends on sizes; for images they agree on the format
    return torch_compat.convolution_memory_format(x, weight, bias, *arguments) != torch.contiguous_format


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
    """Batched convolutions."""
    arguments = (stride, padding, dilation, transposed, output_padding, groups)
    spatial = x.ndim - 2
    if not _known(x, weight, bias) or groups <= 0 or (groups != 1 and transposed and x.device != CPU):
        return NotImplemented
    if not len(stride) == len(padding) == len(dilation) == len(output_padding) == spatial:
        return NotImplemented
    own, kernel = shape_of(x), shape_of(weight)
    inputs, outputs = kernel[1] * groups, kernel[0]
    if transposed:
        inputs, outputs = outputs, inputs
    if not require_equal(own[1], inputs) or kernel[0] % groups != 0:
        raise FakeUnsupported("aten.convolution", "the channels do not fit, which meta kernels let pass")
    if bias is not None and (bias.ndim != 1 or not require_equal(shape_of(bias)[0], outputs)):
        return NotImplemented
    shape = [own[0], outputs]
    for i in range(spatial):
        size, reach = own[i + 2], dilation[i] * (kernel[i + 2] - 1)
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
    strides = channels_last_strides(shape) if _channels_last(x, weight, bias, arguments) else None
    if strides is not None and x.dtype is torch.float64 and groups > 1:
        # One convolution per group, joined by cat, which looks at the format of the pieces.
        piece = (shape[0], outputs // groups, *shape[2:])
        if not suggests_channels_last(piece, channels_last_strides(piece)):
            strides = None
    return new_fake(shape, strides, x.dtype, x.device)


@rule("aten.convolution_backward.default")
def convolution_backward(
    grad: FakeTensor,
    x: FakeTensor,
    weight: FakeTensor,
    bias_sizes: Sequence[Any] | None,
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    transposed: bool,
    output_padding: Sequence[Any],
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    """Gradients of argument and weight in the format of the convolution; of the bias, a number per channel."""
    arguments = (stride, padding, dilation, transposed, output_padding, groups)
    if not _known(x, weight, grad) or ((x.dtype is torch.float64 or x.device != CPU) and groups != 1):
        return NotImplemented  # computed one group at a time
    last = _channels_last(x, weight, None, arguments)
    results: list[FakeTensor | None] = []
    for asked, t in zip(output_mask, (x, weight), strict=False):
        shape = shape_of(t)
        strides = channels_last_strides(shape) if last else None
        results.append(new_fake(shape, strides, x.dtype, x.device) if asked else None)
    channels = shape_of(grad)[1]
    results.append(new_fake((channels,), None, x.dtype, x.device) if output_mask[2] else None)
    return tuple(results)
