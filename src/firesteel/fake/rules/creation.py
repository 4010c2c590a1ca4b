"""Tensors made from nothing or in the likeness of another: constructors, copies, conversions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...devices import kind_of
from ..dims import (
    contiguous_strides,
    depends_on_data,
    known_equal,
    layout_of,
    layout_question,
    offset_of,
    require_natural,
    shape_of,
    smaller,
    stride_of,
)
from ..tensor import FakeTensor, FakeUnsupported, new_fake, view_of
from .operands import CPU, scalar_dtype, wrap_dim
from .registry import rule
from .strides import (
    channels_last_strides,
    format_strides,
    has_no_elements,
    in_format_of,
    is_dense,
    preserved_strides,
    suggests_channels_last,
)

_MOST = (1 << 63) - 1
_FAR = 1 << 31


def indexed(device: torch.device | None) -> torch.device:
    """The device that a constructor really uses: CPU when none is given, the current one of its kind without index."""
    if device is None:
        return CPU
    return kind_of(device).with_index(device)


def _plain(layout: Any, pin_memory: Any) -> bool:
    return layout in (None, torch.strided) and not pin_memory


def _sound(size: Sequence[Any]) -> bool:
    return all(s >= 0 for s in size)


@rule("aten.empty.memory_format")
def empty(
    size: Sequence[Any],
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: torch.device | None = None,
    pin_memory: Any = None,
    memory_format: torch.memory_format | None = None,
) -> Any:
    """Contiguous unless another memory format is asked for."""
    if not _plain(layout, pin_memory) or not _sound(size):
        return NotImplemented
    stride = None
    if memory_format == torch.channels_last and len(size) == 4:
        stride = channels_last_strides(size)
    elif memory_format not in (None, torch.contiguous_format):
        return NotImplemented
    return new_fake(size, stride, dtype or torch.get_default_dtype(), indexed(device))


@rule("aten.zeros.default", "aten.ones.default", "aten.rand.default", "aten.randn.default")
def filled(size: Sequence[Any], **options: Any) -> Any:
    """Contiguous, of the default dtype unless told otherwise. Random numbers are not drawn."""
    return empty(size, **options)


@rule("aten.full.default")
def full(size: Sequence[Any], fill_value: Any, *, dtype: torch.dtype | None = None, **options: Any) -> Any:
    """The dtype is that of the number unless given."""
    return empty(size, dtype=dtype or scalar_dtype(fill_value), **options)


@rule("aten.scalar_tensor.default")
def scalar_tensor(value: Any, *, dtype: torch.dtype | None = None, **options: Any) -> Any:
    """A tensor without dimensions, of the default dtype even for integers."""
    return empty((), dtype=dtype, **options)


@rule("aten.randint.default")
def randint(high: Any, size: Sequence[Any], *, dtype: torch.dtype | None = torch.int64, **options: Any) -> Any:
    """int64 unless given."""
    return empty(size, dtype=dtype or torch.int64, **options) if high > 0 else NotImplemented


@rule("aten.randint.low")
def randint_low(low: Any, high: Any, size: Sequence[Any], **options: Any) -> Any:
    """int64 unless given."""
    return randint(high - low, size, **options)


@rule("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def arange(*bounds: Any, dtype: torch.dtype | None = None, **options: Any) -> Any:
    """Integer bounds only; the length of floating-point ranges depends on rounding."""
    if any(not isinstance(bound, (int, torch.SymInt)) or isinstance(bound, bool) for bound in bounds):
        return NotImplemented
    start, end, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if step == 0 or (end - start) * step < 0:
        return NotImplemented
    reach = end - start + step
    far = any(type(number) is int and abs(number) >= _FAR for number in (start, step)) or type(step) is not int
    if far and not depends_on_data(reach) and (reach > _MOST or reach < -_MOST):
        raise FakeUnsupported("aten.arange", "counts its elements with numbers of more than 64 bits")
    size = (end - start + step - 1) // step if step > 0 else (start - end - step - 1) // -step
    return empty((size,), dtype=dtype or torch.int64, **options)


@rule("firesteel.bernoulli_strided.default")
def bernoulli_strided(size: Sequence[Any], stride: Sequence[Any], p: float, *, dtype: Any, device: Any) -> Any:
    """No random number is drawn here."""
    return empty_strided(size, stride, dtype=dtype, device=device) if 0 <= p <= 1 else NotImplemented


@rule("aten.empty_strided.default")
def empty_strided(size: Sequence[Any], stride: Sequence[Any], *, dtype: Any = None, **options: Any) -> Any:
    """Strides as given."""
    if len(size) != len(stride) or not _sound(size) or not _sound(stride):
        return NotImplemented
    if not _plain(options.get("layout"), options.get("pin_memory")):
        return NotImplemented
    return new_fake(size, stride, dtype or torch.get_default_dtype(), indexed(options.get("device")))


@rule(
    "aten.empty_like.default",
    "aten.zeros_like.default",
    "aten.ones_like.default",
    "aten.rand_like.default",
    "aten.randn_like.default",
)
def like(
    x: FakeTensor,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: torch.device | None = None,
    pin_memory: Any = None,
    memory_format: torch.memory_format | None = None,
) -> Any:
    """The layout of the argument, made dense."""
    if not _plain(layout, pin_memory) or memory_format == torch.channels_last_3d:
        return NotImplemented
    if memory_format == torch.channels_last and x.ndim != 4:
        return NotImplemented
    stride = format_strides(shape_of(x), stride_of(x), memory_format)
    return new_fake(shape_of(x), stride, dtype or x.dtype, x.device if device is None else indexed(device))


@rule("aten.triu.default", "aten.tril.default")
def triangle(x: FakeTensor, diagonal: int = 0) -> Any:
    """Part of a matrix, contiguous."""
    return NotImplemented if x.ndim < 2 else new_fake(shape_of(x), None, x.dtype, x.device)


@rule("aten.flip.default")
def flip(x: FakeTensor, dims: Sequence[int]) -> Any:
    """A copy in the layout of the argument, made dense."""
    places = {wrap_dim(dim, x.ndim) for dim in dims}
    if None in places or len(places) != len(dims):
        return NotImplemented
    return new_fake(shape_of(x), preserved_strides(*layout_of(x)), x.dtype, x.device)


@rule("aten.rot90.default")
def rot90(x: FakeTensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """Flipped and then transposed, which keeps the strides of the flipped copy; without a turn a contiguous copy."""
    places = [place for dim in dims if (place := wrap_dim(dim, x.ndim)) is not None]
    if len(dims) != 2 or len(set(places)) != 2:
        return NotImplemented
    shape, stride = list(shape_of(x)), list(preserved_strides(*layout_of(x)))
    one, two = places
    if k % 2:
        shape[one], shape[two] = shape[two], shape[one]
        stride[one], stride[two] = stride[two], stride[one]
    return new_fake(shape, stride if k % 4 else None, x.dtype, x.device)


@rule("aten.repeat.default")
def repeat(x: FakeTensor, repeats: Sequence[Any]) -> Any:
    """Copies side by side, contiguous."""
    lead = len(repeats) - x.ndim
    if lead < 0 or any(count < 0 for count in repeats):
        return NotImplemented
    shape = [count * size for count, size in zip(repeats, (*(1,) * lead, *shape_of(x)), strict=True)]
    return new_fake(shape, None, x.dtype, x.device)


@layout_question
def _any_positive(counts: Sequence[Any]) -> bool:
    return any(count > 0 for count in counts)


@rule("aten.roll.default")
def roll(x: FakeTensor, shifts: Sequence[Any], dims: Sequence[int] = ()) -> Any:
    """By rows, and without elements a copy in the same layout. Without dimensions the elements are moved as one row.
    The CPU joins two parts along each dimension, and keeps their memory format."""
    if len(shifts) != (len(dims) or 1) or any(wrap_dim(dim, x.ndim) is None for dim in dims) or x.ndim == 0:
        return NotImplemented
    shape, stride = layout_of(x)
    strides = preserved_strides(shape, stride) if (dims or x.ndim == 1) and has_no_elements(shape) else None
    if strides is None and dims and kind_of(x).is_host and not depends_on_data(shifts) and \
            all(_keeps_channels_last(shape, stride, *move) for move in zip(shifts, dims, strict=True)):
        strides = channels_last_strides(shape)
    return new_fake(shape, strides, x.dtype, x.device)


def _keeps_channels_last(shape: Sequence[Any], stride: Sequence[Any], shift: Any, dim: int) -> bool:
    """Whether both parts that a tensor is rolled as lie with the channels last."""
    if not suggests_channels_last(shape, stride):
        return False
    moved = shift % shape[dim]
    parts = [[size if at != dim % len(shape) else length for at, size in enumerate(shape)]
             for length in (moved, shape[dim] - moved)]
    return all(suggests_channels_last(part, stride) for part in parts)


@rule("aten.constant_pad_nd.default")
def pad(x: FakeTensor, padding: Sequence[Any], value: Any = 0) -> Any:
    """Wider at the ends, in the memory format of the argument; negative padding cuts, but not more than there is."""
    shape = list(shape_of(x))
    if len(padding) % 2 or len(padding) > 2 * len(shape):
        return NotImplemented
    left, stride, offset = list(shape), stride_of(x), offset_of(x)
    unknown: list[Any] = []
    # What is only cut keeps its layout as a copy does; where nothing is cut, a contiguous tensor gives one either way.
    grows = all(known_equal(*pair) for pair in zip(stride, contiguous_strides(shape), strict=True)) and not any(
        not depends_on_data(count) and count < 0 for count in padding)
    for i in range(len(padding) // 2):
        at = -1 - i
        for position, count in enumerate(padding[2 * i : 2 * i + 2]):
            cut: Any = 0
            if depends_on_data(count):
                cut = smaller(count, 0)
                unknown.append(count)
            elif count < 0:
                cut = count
            else:
                grows = grows or bool(count > 0)
            left[at] = left[at] + cut
            shape[at] = shape[at] + count
            offset = offset - cut * stride[at] if position == 0 else offset
            if not require_natural(left[at]):
                raise FakeUnsupported("aten.constant_pad_nd", "cuts more than there is")
    if not grows and not _any_positive(unknown):
        return like(view_of(x, left, stride, offset))
    return in_format_of(x, shape)


@rule("aten.full_like.default")
def full_like(x: FakeTensor, fill_value: Any, **options: Any) -> Any:
    """The dtype of the argument, not of the number."""
    return like(x, **options)


@rule("aten.clone.default")
def clone(x: FakeTensor, *, memory_format: torch.memory_format | None = None) -> Any:
    """A copy in the same layout, made dense."""
    return like(x, memory_format=memory_format)


@rule("aten._to_copy.default")
def to_copy(x: FakeTensor, *, non_blocking: bool = False, **options: Any) -> Any:
    """A copy of another dtype or device. Layouts with gaps or overlaps are left to torch."""
    if not isinstance(x, FakeTensor):  # a number, as batches of scalars are multiplied by
        return scalar_tensor(x, dtype=options.get("dtype"))
    return like(x, **options) if is_dense(*layout_of(x)) else NotImplemented


@rule("aten.new_empty.default", "aten.new_zeros.default", "aten.new_ones.default")
def new(x: FakeTensor, size: Sequence[Any], *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """dtype and device of the argument unless given."""
    return empty(size, dtype=dtype or x.dtype, device=x.device if device is None else device, **options)


@rule("aten.new_full.default")
def new_full(x: FakeTensor, size: Sequence[Any], fill_value: Any, **options: Any) -> Any:
    """dtype and device of the argument unless given; the number does not matter."""
    return new(x, size, **options)


@rule("aten.new_empty_strided.default")
def new_empty_strided(
    x: FakeTensor, size: Sequence[Any], stride: Sequence[Any], *, dtype: Any = None, device: Any = None, **options: Any
) -> Any:
    """dtype and device of the argument unless given, strides as given."""
    return empty_strided(size, stride, dtype=dtype or x.dtype, device=x.device if device is None else device, **options)
