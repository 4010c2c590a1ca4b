"""Strides that eager gives to results: contiguity, memory formats, and the layout of elementwise results.

Sizes and strides are ints or :class:`~firesteel.fake.dims.Dim`. A comparison of those may leave a guard, so questions
that follow from what is known come first, and a question is only asked where its answer matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...devices import kind_of
from ...torch_compat import has_symbolic_layout
from ..dims import Dim, at_least_one, contiguous_strides, known_equal, layout_of, layout_question, require_equal
from ..tensor import FakeTensor, new_fake

Shape = Sequence[Any]
Stride = Sequence[Any]
Layout = tuple[tuple[Any, ...], tuple[Any, ...]]

# Strides from here on are too long when they are counted in bytes: eager computes with what is left of them.
TOO_LONG = 1 << 55


def channels_last_strides(shape: Shape) -> tuple[Any, ...]:
    """
    >>> channels_last_strides((2, 3, 4, 5))
    (60, 1, 15, 3)
    """
    strides: list[Any] = [0] * len(shape)
    step: Any = 1
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[dim] = step
        step = step * shape[dim]  # a size of 0 counts as 0 here, unlike in contiguous_strides, as in eager
    return tuple(strides)


def _packed_in_order(shape: Shape, stride: Stride, order: Sequence[int]) -> bool:
    """Whether a tensor with elements is dense with its dimensions in the order given, innermost first."""
    step: Any = 1
    for dim in order:
        size = shape[dim]
        if not known_equal(stride[dim], step) and size != 1 and stride[dim] != step:
            return False
        step = step * size
    return True


@layout_question
def is_contiguous(shape: Shape, stride: Stride) -> bool:
    """Whether elements lie in row order without gaps; strides of dimensions of size 1 do not matter."""
    if any(type(step) is Dim for step in stride) and all(map(known_equal, stride, contiguous_strides(shape))):
        return True  # also where a size may be 0
    return _packed_in_order(shape, stride, range(len(shape) - 1, -1, -1)) or any(size == 0 for size in shape)


def contiguous(x: torch.Tensor) -> bool:
    """``x.is_contiguous()``"""
    return is_contiguous(*layout_of(x)) if has_symbolic_layout(x) else x.is_contiguous()


@layout_question
def has_no_elements(shape: Shape) -> bool:
    """Whether a size is 0, asked where results lie in another way then."""
    return any(size == 0 for size in shape)


@layout_question
def is_channels_last(shape: Shape, stride: Stride) -> bool:
    """Whether a 4-d layout is contiguous with the channels innermost."""
    return len(shape) == 4 and _packed_in_order(shape, stride, (1, 3, 2, 0))


@layout_question
def is_dense(shape: Shape, stride: Stride) -> bool:
    """Whether the layout is a permutation of a contiguous one: no gap and no overlap."""
    if is_contiguous(shape, stride):
        return True
    order = [dim for dim in range(len(shape)) if shape[dim] != 1]
    order.sort(key=lambda dim: (stride[dim], shape[dim]))
    return _packed_in_order(shape, stride, order)


def _swap_order(dim0: int, dim1: int, shape: Shape, strides: Sequence[Stride]) -> int:
    """-1 when dim0 is rightly inside dim1, 1 when it should be outside, 0 when no operand can tell."""
    for stride in strides:
        st0, st1 = stride[dim0], stride[dim1]
        if st0 == 0 or st1 == 0:  # broadcast: ask the next operand
            continue
        if st0 < st1:
            return -1
        if st0 > st1 or shape[dim0] > shape[dim1]:
            return 1
    return 0


@layout_question
def memory_order(shape: Shape, strides: Sequence[Stride]) -> list[int]:
    """Dimensions from innermost to outermost as the elementwise iterator orders them for these operands."""
    order = list(range(len(shape) - 1, -1, -1))
    for i in range(1, len(order)):
        at = i
        for before in range(i - 1, -1, -1):
            wanted = _swap_order(order[before], order[at], shape, strides)
            if wanted > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif wanted < 0:
                break
    return order


def packed_strides(shape: Shape, order: Sequence[int]) -> tuple[Any, ...]:
    """Strides of a dense tensor whose dimensions lie in the given order, innermost first."""
    strides: list[Any] = [0] * len(shape)
    step: Any = 1
    for dim in order:
        strides[dim] = step
        step = step * shape[dim]
    return tuple(strides)


def broadcast_shapes(shapes: Sequence[Shape]) -> tuple[Any, ...] | None:
    """The common shape, or None when the shapes do not fit.

    >>> broadcast_shapes([(3, 1), (4,), ()])
    (3, 4)
    """
    ndim = max((len(shape) for shape in shapes), default=0)
    out: list[Any] = [1] * ndim
    for dim in range(-ndim, 0):
        claims: list[Any] = []  # sizes other than 1, each once
        for shape in shapes:
            if len(shape) >= -dim:
                size = shape[dim]
                if (type(size) is not int or size != 1) and not any(size is claim for claim in claims):
                    claims.append(size)
        if claims:
            # Asked only where operands differ: whether a symbol is 1 matters to nobody else.
            wide = claims if len(claims) == 1 else [size for size in claims if size != 1]
            if any(not require_equal(wide[0], size) for size in wide[1:]):
                return None
            out[dim] = wide[0] if wide else 1
    return tuple(out)


def check_broadcast(shapes: Sequence[Shape]) -> None:
    """Raise what eager raises for shapes that do not fit together."""
    sofar: tuple[Any, ...] = tuple(shapes[0]) if shapes else ()
    for shape in shapes[1:]:
        joined = broadcast_shapes([sofar, shape])
        if joined is None:
            ndim = max(len(sofar), len(shape))
            for dim in range(ndim - 1, -1, -1):
                a, b = ((1,) * (ndim - len(s)) + tuple(s) for s in (sofar, shape))
                if a[dim] != b[dim] and a[dim] != 1 and b[dim] != 1:
                    raise RuntimeError(
                        f"The size of tensor a ({a[dim]}) must match the size of tensor b ({b[dim]}) "
                        f"at non-singleton dimension {dim}"
                    )
        else:
            sofar = joined


def _same_shape(own: Shape, common: Shape) -> bool:
    # They broadcast, so they differ only where one is 1.
    return all(a is b or a == b for a, b in zip(own, common, strict=True))


def is_repeated(own: Any, common: Any) -> bool:
    """Whether a size is 1 where the result's is not."""
    return own is not common and own == 1 and common != 1


def _elementwise(layouts: Sequence[Layout]) -> Layout | None:
    shape = broadcast_shapes([layout[0] for layout in layouts])
    if shape is None:
        return None
    if len(shape) < 2:  # nothing to ask about
        return shape, contiguous_strides(shape)
    if all(len(layout[0]) == len(shape) and _same_shape(layout[0], shape) for layout in layouts):
        if all(is_contiguous(*layout) for layout in layouts):
            return shape, contiguous_strides(shape)
        if all(is_channels_last(*layout) for layout in layouts):
            return shape, channels_last_strides(shape)
        first = tuple(layouts[0][1])
        if all(tuple(layout[1]) == first for layout in layouts) and is_dense(shape, first):
            return shape, first
    expanded = []
    for own_shape, own_stride in layouts:
        lead = len(shape) - len(own_shape)
        expanded.append(
            [0] * lead
            + [0 if is_repeated(own_shape[i], shape[lead + i]) else own_stride[i] for i in range(len(own_shape))]
        )
    order = memory_order(shape, expanded)
    if order == list(range(len(shape) - 1, -1, -1)):
        return shape, contiguous_strides(shape)
    return shape, packed_strides(shape, order)


_elementwise_cache: dict[Any, Layout | None] = {}


def elementwise_layout(layouts: tuple[Layout, ...]) -> Layout | None:
    """Shape and strides of an elementwise result of operands with these layouts, or None if they do not broadcast.

    >>> elementwise_layout((((2, 3), (1, 2)), ((3,), (1,))))
    ((2, 3), (1, 2))
    """
    try:
        return _elementwise_cache[layouts]
    except KeyError:
        result = _elementwise(layouts)
    # Symbols live shorter than this cache; for them the dispatcher keeps whole results.
    if not any(type(number) is Dim for layout in layouts for numbers in layout for number in numbers):
        if len(_elementwise_cache) > 50_000:
            _elementwise_cache.clear()
        _elementwise_cache[layouts] = result
    return result


def preserved_strides(shape: Shape, stride: Stride) -> tuple[Any, ...]:
    """Strides of ``empty_like`` and ``clone`` with ``torch.preserve_format``."""
    if is_dense(shape, stride):
        return tuple(stride)
    strides: list[Any] = [0] * len(shape)
    step: Any = 1
    for dim in memory_order(shape, [stride]):
        strides[dim] = step
        step = step * at_least_one(shape[dim])
    return tuple(strides)


def cast_layout(x: torch.Tensor, dtype: torch.dtype | None) -> Layout:
    """How an operand lies that is computed with in a dtype: the iterator of the CPU reads a copy if that is another."""
    shape, stride = layout_of(x)
    if dtype is None or x.dtype is dtype or len(shape) < 2 or not kind_of(x).is_host:
        return shape, stride
    return shape, preserved_strides(shape, stride)


def format_strides(shape: Shape, stride: Stride, memory_format: torch.memory_format | None) -> tuple[Any, ...] | None:
    """Strides for a result like ``(shape, stride)`` in a memory format; None means contiguous."""
    if memory_format is None or memory_format == torch.preserve_format:
        return preserved_strides(shape, stride)
    if memory_format == torch.contiguous_format:
        return None
    return channels_last_strides(shape)


@layout_question
def suggests_channels_last(shape: Shape, stride: Stride) -> bool:
    """Whether a 4-d or 5-d layout asks operators for a channels-last result.

    The channels must be innermost and the other strides must grow in channels-last order, though not without gaps.
    """
    if len(shape) not in (4, 5):
        return False
    if stride[1] == 0:
        return False
    smallest: Any = 0
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[dim] == 0 or stride[dim] < smallest:
            return False
        if dim == 0 and smallest == stride[1]:
            # (N, 1, 1, 1)-like: ambiguous, read as contiguous
            return False
        smallest = stride[dim] * at_least_one(shape[dim])
    return True


def in_format_of(x: FakeTensor, shape: Shape, dtype: torch.dtype | None = None) -> FakeTensor:
    """A tensor of another shape in the memory format of an argument, and in its dtype unless one is given."""
    strides = channels_last_strides(shape) if suggests_channels_last(*layout_of(x)) else None
    return new_fake(shape, strides, dtype or x.dtype, x.device)


def in_first_format_of(x: FakeTensor) -> FakeTensor:
    """A tensor like an argument in its memory format, contiguous where it has both of them."""
    shape, stride = layout_of(x)
    last = suggests_channels_last(shape, stride) and not contiguous(x)
    return new_fake(shape, channels_last_strides(shape) if last else None, x.dtype, x.device)
