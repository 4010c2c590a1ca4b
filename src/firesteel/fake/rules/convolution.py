"""Convolutions and their gradients. The memory format depends on the library that computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ... import torch_compat
from ...devices import kind_of
from ..dims import known_equal, layout_of, numel_of, require_equal, shape_of
from ..tensor import FakeTensor, FakeUnsupported, new_fake
from .operands import CPU, same_kind
from .registry import rule
from .strides import channels_last_strides, contiguous, suggests_channels_last

# Those of which the layout is known; integers are computed by the plain loops of torch.
_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
           torch.int8, torch.uint8)

_LARGE_KERNELS_PASS = torch.__version__ < "2.13"
"""Whether meta kernels let a kernel pass that is larger than the image by one, which eager does not."""


def _known(x: FakeTensor, weight: FakeTensor, *others: FakeTensor | None) -> bool:
    """Whether a rule here knows the layout of the result."""
    spatial = x.ndim - 2
    if spatial not in (1, 2, 3) or weight.ndim != x.ndim or not same_kind(x, weight, *others):
        return False
    if x.device != CPU and not (_on_gpu(x) and spatial == 2):
        return False
    return x.dtype in _DTYPES and numel_of(x) != 0 and numel_of(weight) != 0


def _on_gpu(x: FakeTensor) -> bool:
    """Whether cuDNN computes images of this kind; then channels last go in and out."""
    return kind_of(x).has_cudnn and x.dtype in (torch.float32, torch.float16, torch.bfloat16) \
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


def _as_image(t: FakeTensor) -> FakeTensor:
    """A signal as an image of one row, as torch computes it."""
    (batch, channels, size), stride = shape_of(t), layout_of(t)[1]
    return new_fake((batch, channels, 1, size), (*stride[:2], size * stride[2], stride[2]), t.dtype, t.device)


def _as_signal(t: FakeTensor) -> FakeTensor:
    shape, stride = layout_of(t)
    return new_fake((*shape[:2], shape[3]), (*stride[:2], stride[3]), t.dtype, t.device)


def _by_rows(t: FakeTensor) -> FakeTensor:
    return new_fake(shape_of(t), None, t.dtype, t.device)


def _per_dim(values: Sequence[Any], spatial: int) -> Sequence[Any]:
    return [values[0]] * spatial if len(values) == 1 else values


def _joins_channels_last(x: FakeTensor, shape: Sequence[Any], dim: int, groups: int) -> bool:
    """Whether a result in channels-last format stays in it where the groups are computed one by one: they are joined by
    ``cat``, which looks at the format of the pieces."""
    if groups == 1 or x.dtype is not torch.float64:
        return True
    piece = [size // groups if at == dim else size for at, size in enumerate(shape)]
    return suggests_channels_last(piece, channels_last_strides(piece))


def _require_fit(sizes: Sequence[Any], kernel: Sequence[Any], padding: Sequence[Any], dilation: Sequence[Any]) -> None:
    """Refuse kernels that are larger than an image, in eager's words where the sizes are plain numbers."""
    if not len(kernel) == len(padding) == len(dilation) == len(sizes):
        return
    padded = [size + 2 * pad for size, pad in zip(sizes, padding, strict=True)]
    reach = [step * (size - 1) + 1 for size, step in zip(kernel, dilation, strict=True)]
    if not any(size < extent for size, extent in zip(padded, reach, strict=True)):
        return
    if not all(type(number) is int for number in (*padded, *reach)):
        raise FakeUnsupported("aten.convolution", "the kernel is too large, which meta kernels let pass")
    raise RuntimeError(f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel size: "
                       f"({' x '.join(map(str, reach))}). Kernel size can't be greater than actual input size")


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
    spatial = x.ndim - 2
    stride, padding, dilation, output_padding = (
        _per_dim(values, spatial) for values in (stride, padding, dilation, output_padding))
    if not transposed and _LARGE_KERNELS_PASS and x.ndim == weight.ndim and known_equal(
            shape_of(x)[1], shape_of(weight)[1] * groups):
        _require_fit(shape_of(x)[2:], shape_of(weight)[2:], padding, dilation)
    if spatial == 1 and weight.ndim == 3 and not (contiguous(x) and contiguous(weight)):
        image = convolution(_as_image(_by_rows(x)), _as_image(weight), bias, [1, *stride], [0, *padding],
                            [1, *dilation], transposed, [0, *output_padding], groups)
        return NotImplemented if image is NotImplemented else _as_signal(image)
    arguments = (stride, padding, dilation, transposed, output_padding, groups)
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
    if strides is not None and not _joins_channels_last(x, shape, 1, groups):
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
    spatial = x.ndim - 2
    if spatial == 1 and weight.ndim == grad.ndim == 3 and not (contiguous(x) and contiguous(weight)):
        images = convolution_backward(
            _as_image(grad), _as_image(_by_rows(x)), _as_image(weight), bias_sizes, [1, *stride], [0, *padding],
            [1, *dilation], transposed, [0, *output_padding], groups, output_mask)
        if images is NotImplemented:
            return NotImplemented
        return (*(t if t is None else _as_signal(t) for t in images[:2]), images[2])
    arguments = (stride, padding, dilation, transposed, output_padding, groups)
    if not _known(x, weight, grad) or groups <= 0 or (x.device != CPU and groups != 1):
        return NotImplemented
    last = _channels_last(x, weight, None, arguments)
    results: list[FakeTensor | None] = []
    for joined, (asked, t) in zip((1, 0), zip(output_mask, (x, weight), strict=False), strict=True):
        shape = shape_of(t)
        strides = channels_last_strides(shape) if last and _joins_channels_last(t, shape, joined, groups) else None
        results.append(new_fake(shape, strides, x.dtype, x.device) if asked else None)
    channels = shape_of(grad)[1]
    results.append(new_fake((channels,), None, x.dtype, x.device) if output_mask[2] else None)
    return tuple(results)
