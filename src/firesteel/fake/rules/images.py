"""Pooling and resampling of images, and their gradients. Results keep the memory format of the argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...devices import KINDS
from ..dims import layout_of, numel_of, shape_of
from ..tensor import FakeTensor, FakeUnsupported, new_fake
from .operands import CPU
from .registry import rule
from .strides import in_format_of, preserved_strides, suggests_channels_last


def _pair(values: Sequence[Any], default: Sequence[Any] = ()) -> tuple[Any, ...] | None:
    """One number for both dimensions, or two; none means the default."""
    values = tuple(values) or tuple(default)
    if len(values) == 1:
        return values * 2
    return values if len(values) == 2 else None


def _image(x: FakeTensor) -> bool:
    """Whether a rule here knows the argument: a floating-point image or batch of images on the CPU."""
    return x.device == CPU and x.dtype.is_floating_point and x.ndim in (3, 4)


def _resampled(x: FakeTensor) -> bool:
    """Whether resampling an image is known; one function of torch says for CPU and GPU what comes out."""
    return x.device.type in KINDS and x.dtype.is_floating_point and x.ndim in (3, 4)


def _pooled_shape(
    x: FakeTensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> list[Any] | None:
    kernel, padding, dilation = _pair(kernel), _pair(padding), _pair(dilation)
    stride = _pair(stride, kernel or ())
    if kernel is None or stride is None or padding is None or dilation is None:
        return None
    shape = list(shape_of(x))
    if any(size == 0 for size in shape[1:]):
        return None
    for i in range(2):
        dim = len(shape) - 2 + i
        if kernel[i] <= 0 or stride[i] <= 0 or dilation[i] <= 0 or padding[i] < 0 or padding[i] * 2 > kernel[i]:
            return None
        size = shape[dim]
        room = size + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1
        out = (room + (stride[i] - 1 if ceil_mode else 0)) // stride[i] + 1
        # The last window must start inside the image or its left padding.
        if ceil_mode and (out - 1) * stride[i] >= size + padding[i]:
            out = out - 1
        if out <= 0:
            return None
        shape[dim] = out
    return shape


@rule("aten.max_pool2d_with_indices.default")
def max_pool2d(
    x: FakeTensor,
    kernel_size: Sequence[Any],
    stride: Sequence[Any] = (),
    padding: Sequence[Any] = (0,),
    dilation: Sequence[Any] = (1,),
    ceil_mode: bool = False,
) -> Any:
    """The largest of each window, and where it was."""
    shape = _pooled_shape(x, kernel_size, stride, padding, dilation, ceil_mode) if _image(x) else None
    return NotImplemented if shape is None else (in_format_of(x, shape), in_format_of(x, shape, torch.int64))


@rule("aten.avg_pool2d.default")
def avg_pool2d(
    x: FakeTensor,
    kernel_size: Sequence[Any],
    stride: Sequence[Any] = (),
    padding: Sequence[Any] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window."""
    if not _image(x) or divisor_override == 0:
        return NotImplemented
    shape = _pooled_shape(x, kernel_size, stride, padding, (1,), ceil_mode)
    return NotImplemented if shape is None else in_format_of(x, shape)


@rule("aten._adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(x: FakeTensor, output_size: Sequence[Any]) -> Any:
    """As many windows as asked for."""
    if not _image(x) or len(output_size) != 2 or any(size == 0 for size in shape_of(x)[1:]):
        return NotImplemented
    if any(size <= 0 for size in output_size):
        return NotImplemented
    return in_format_of(x, (*shape_of(x)[:-2], *output_size))


@rule(
    "aten.max_pool2d_with_indices_backward.default",
    "aten.avg_pool2d_backward.default",
    "aten._adaptive_avg_pool2d_backward.default",
)
def pool2d_backward(grad: FakeTensor, x: FakeTensor, *params: Any) -> Any:
    """In the shape of the argument."""
    return in_format_of(x, shape_of(x)) if _image(x) and x.dtype is grad.dtype else NotImplemented


@rule("aten.upsample_nearest2d.default", "aten._upsample_nearest_exact2d.default", "aten.upsample_bilinear2d.default",
      "aten.upsample_bicubic2d.default")
def upsample2d(x: FakeTensor, output_size: Sequence[Any], *params: Any) -> Any:
    """Batch and channels stay."""
    if x.ndim != 4:
        raise FakeUnsupported("aten.upsample", "not a batch of images, which meta kernels let pass")
    if not _resampled(x) or len(output_size) != 2:
        return NotImplemented
    if any(size <= 0 for size in output_size) or any(size == 0 for size in shape_of(x)[1:]):
        raise FakeUnsupported("aten.upsample", "an image without pixels, which meta kernels let pass")
    return in_format_of(x, (*shape_of(x)[:2], *output_size))


@rule("aten.upsample_bicubic2d_backward.default")
def upsample_bicubic2d_backward(grad: FakeTensor, output_size: Any, input_size: Sequence[Any], *params: Any) -> Any:
    """In the shape of the argument, by rows."""
    if not _resampled(grad) or grad.ndim != 4:
        return NotImplemented
    return new_fake(input_size, None, grad.dtype, grad.device)


@rule("aten.upsample_nearest2d_backward.default", "aten._upsample_nearest_exact2d_backward.default",
      "aten.upsample_bilinear2d_backward.default")
def upsample2d_backward(grad: FakeTensor, output_size: Any, input_size: Sequence[Any], *params: Any) -> Any:
    """In the shape of the argument, which is given as numbers."""
    return in_format_of(grad, input_size) if _resampled(grad) and grad.ndim == 4 else NotImplemented


def _padded_shape(x: FakeTensor, padding: Sequence[Any], reflects: bool) -> list[Any] | None:
    """The shape of padded images. On the CPU the memory format stays, though torch's meta kernels say that results are
    contiguous. That of a single volume too: its depth is taken for channels. None where theirs are right."""
    count = len(padding) // 2
    if x.device != CPU or x.ndim not in (count + 1, count + 2) or not suggests_channels_last(*layout_of(x)):
        return None
    shape = list(shape_of(x))
    for k in range(count):
        size, before, after = shape[-1 - k], padding[2 * k], padding[2 * k + 1]
        if reflects and (before >= size or after >= size):
            return None
        shape[-1 - k] = size + before + after
        if shape[-1 - k] < 1:
            return None
    return shape


def _padded(x: FakeTensor, padding: Sequence[Any], reflects: bool) -> Any:
    shape = _padded_shape(x, padding, reflects)
    return NotImplemented if shape is None else in_format_of(x, shape)


def _padded_backward(grad: FakeTensor, x: FakeTensor, padding: Sequence[Any], reflects: bool) -> Any:
    """The gradient has the format of the images, whatever that of `grad` is."""
    shape = _padded_shape(x, padding, reflects)
    if shape is None or list(shape_of(grad)) != shape or grad.dtype != x.dtype:
        return NotImplemented
    return in_format_of(x, shape_of(x))


@rule("aten.reflection_pad2d.default", "aten.reflection_pad3d.default")
def reflection_pad(x: FakeTensor, padding: Sequence[Any]) -> Any:
    return _padded(x, padding, True)


@rule("aten.replication_pad2d.default", "aten.replication_pad3d.default")
def replication_pad(x: FakeTensor, padding: Sequence[Any]) -> Any:
    return _padded(x, padding, False)


@rule("aten.reflection_pad2d_backward.default", "aten.reflection_pad3d_backward.default")
def reflection_pad_backward(grad: FakeTensor, x: FakeTensor, padding: Sequence[Any]) -> Any:
    return _padded_backward(grad, x, padding, True)


@rule("aten.replication_pad2d_backward.default", "aten.replication_pad3d_backward.default")
def replication_pad_backward(grad: FakeTensor, x: FakeTensor, padding: Sequence[Any]) -> Any:
    return _padded_backward(grad, x, padding, False)


@rule("aten.pixel_shuffle.default")
def pixel_shuffle(x: FakeTensor, factor: int) -> Any:
    """Channels become pixels. As with padding, only torch's meta kernel says that the result is always contiguous."""
    if x.device != CPU or x.ndim != 4 or factor <= 0 or not suggests_channels_last(*layout_of(x)):
        return NotImplemented
    batch, channels, height, width = shape_of(x)
    if channels % (factor * factor) != 0:
        return NotImplemented
    return in_format_of(x, (batch, channels // (factor * factor), height * factor, width * factor))


@rule("aten.pixel_unshuffle.default")
def pixel_unshuffle(x: FakeTensor, factor: int) -> Any:
    """Pixels become channels, except that eager copies what has no elements as it is."""
    if factor <= 0 or x.ndim < 3 or numel_of(x) != 0:
        return NotImplemented
    if any(size % factor != 0 for size in shape_of(x)[-2:]):
        raise FakeUnsupported("aten.pixel_unshuffle", "sizes that are no multiples, which meta kernels let pass")
    return new_fake(shape_of(x), preserved_strides(*layout_of(x)), x.dtype, x.device)


@rule("aten.channel_shuffle.default", "aten.native_channel_shuffle.default")
def channel_shuffle(x: FakeTensor, groups: int) -> Any:
    """A copy in the memory format of the argument; what has no elements is given back as it lies."""
    if x.device != CPU or x.ndim != 4 or groups <= 0:
        return NotImplemented
    if shape_of(x)[1] % groups != 0:
        raise FakeUnsupported("aten.channel_shuffle", "channels that are no multiple, which some meta kernels let pass")
    return new_fake(*layout_of(x), x.dtype, x.device) if numel_of(x) == 0 else in_format_of(x, shape_of(x))


@rule("aten.im2col.default")
def im2col(x: FakeTensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Windows as columns, contiguous: torch's decomposition permutes a view, and copies only where it has to."""
    settings = (kernel_size, dilation, padding, stride)
    if x.ndim not in (3, 4) or any(len(setting) != 2 for setting in settings) or min(*kernel_size, *dilation) <= 0 \
            or min(*stride) <= 0 or min(*padding) < 0:
        return NotImplemented
    *batch, channels, height, width = shape_of(x)
    columns: Any = 1
    for size, k, d, p, step in zip((height, width), *settings, strict=True):
        windows = (size + 2 * p - d * (k - 1) - 1) // step + 1
        if size == 0 or windows < 1:
            return NotImplemented
        columns = columns * windows
    if channels == 0:
        return NotImplemented
    return new_fake((*batch, channels * kernel_size[0] * kernel_size[1], columns), None, x.dtype, x.device)
