"""Reading and writing by index tensors, and orders: gather, scatter, index, topk, sort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..dims import contiguous_strides, depends_on_data, known_equal, layout_of, shape_of
from ..tensor import FakeTensor, FakeUnsupported, new_fake
from .operands import wrap_dim
from .registry import rule
from .strides import (
    Layout,
    Shape,
    Stride,
    broadcast_shapes,
    elementwise_layout,
    has_no_elements,
    is_repeated,
    memory_order,
    packed_strides,
    preserved_strides,
)

_INDEX = (torch.int64, torch.int32)


@rule("aten.gather.default")
def gather(x: FakeTensor, dim: int, index: FakeTensor, *, sparse_grad: bool = False) -> Any:
    """In the shape of the index."""
    if index.dtype is not torch.int64 or index.ndim != x.ndim or index.device != x.device or x.ndim == 0:
        return NotImplemented
    at = wrap_dim(dim, x.ndim)
    if at is None or not _index_fits(index, x, at):
        return NotImplemented
    return new_fake(shape_of(index), None, x.dtype, x.device)


def _index_fits(index: FakeTensor, x: FakeTensor, at: int) -> bool:
    own, other = shape_of(index), shape_of(x)
    return all(own[i] is other[i] or own[i] <= other[i] for i in range(len(own)) if i != at)


@rule("aten.scatter.value", "aten.scatter.src", "aten.scatter_add.default")
def scatter(x: FakeTensor, dim: int, index: FakeTensor, source: Any) -> Any:
    """Contiguous, in the shape of the first argument."""
    at = wrap_dim(dim, x.ndim)
    if at is None or index.dtype is not torch.int64 or index.ndim != x.ndim or index.device != x.device:
        return NotImplemented
    if x.ndim == 0 or not _index_fits(index, x, at):
        return NotImplemented
    if isinstance(source, FakeTensor):
        if source.dtype is not x.dtype or source.device != x.device or source.ndim != x.ndim:
            return NotImplemented
        if not _index_fits(index, source, -1):
            return NotImplemented
    return new_fake(shape_of(x), None, x.dtype, x.device)


@rule("aten.nonzero_static.default")
def nonzero_static(x: FakeTensor, *, size: Any, fill_value: int = -1) -> Any:
    """By rows, unlike the places that ``nonzero`` gives."""
    return new_fake((size, x.ndim), None, torch.int64, x.device) if size >= 0 else NotImplemented


@rule("aten.index_select.default")
def index_select(x: FakeTensor, dim: int, index: FakeTensor) -> Any:
    """As many as indices along one dimension."""
    at = wrap_dim(dim, x.ndim)
    if index.ndim > 1 or (x.ndim == 0 and index.ndim == 1 and shape_of(index)[0] != 1):
        raise FakeUnsupported("aten.index_select", "the index does not fit, which meta kernels let pass")
    if at is None or x.ndim == 0 or index.ndim != 1 or index.dtype not in _INDEX or index.device != x.device:
        return NotImplemented
    shape = list(shape_of(x))
    shape[at] = shape_of(index)[0]
    return new_fake(shape, None, x.dtype, x.device)


def _common_index(x: FakeTensor, indices: Sequence[FakeTensor | None]) -> tuple[Any, ...] | None:
    """The shape that index tensors have together; None where torch should see to them."""
    tensors = [t for t in indices if t is not None]
    if not tensors or any(t.dtype not in _INDEX or t.device != x.device for t in tensors):
        return None
    common = broadcast_shapes([shape_of(t) for t in tensors])
    if common is None or len(indices) > x.ndim:
        raise FakeUnsupported("indexing", "the index tensors do not fit, which meta kernels let pass")
    shape = shape_of(x)
    if any(t is not None and shape[i] == 0 for i, t in enumerate(indices)) and all(size != 0 for size in common):
        raise FakeUnsupported("indexing", "an index into nothing")
    return common


@rule("aten.index.Tensor")
def index(x: FakeTensor, indices: Sequence[FakeTensor | None]) -> Any:
    """Indices broadcast against each other, in the place of the dimensions they index if those are neighbours."""
    common = _common_index(x, indices)
    if common is None:
        return NotImplemented
    places = [i for i, t in enumerate(indices) if t is not None]
    shape, stride = layout_of(x)
    at = places[0] if places == list(range(places[0], places[-1] + 1)) else 0
    kept = [i for i in range(x.ndim) if i not in places]
    # (before, after) the place of the indices
    before, after = (kept[:at], kept[at:])
    result = (*[shape[i] for i in before], *common, *[shape[i] for i in after])
    # The iterator sees the argument with strides of 0 for the indices, and every index with sizes of 1 for all else.
    layouts: list[Layout] = [(result, (*[stride[i] for i in before], *[0] * len(common), *[stride[i] for i in after]))]
    for t in indices:
        if t is None:
            continue
        own_shape, own_stride = layout_of(t)
        lead = len(common) - len(own_shape)
        steps = [0 if is_repeated(own_shape[i], common[lead + i]) else own_stride[i] for i in range(len(own_shape))]
        layouts.append(_among_ones(common, (*[0] * lead, *steps), len(before), len(after)))
    if all(type(size) is int for size in result) or _is_empty(result):
        layout = elementwise_layout(tuple(layouts))
        assert layout is not None
        return new_fake(*layout, x.dtype, x.device)
    outside = [*range(len(before)), *range(len(result) - len(after), len(result))]
    repeated = [i for i in outside if not known_equal(result[i], 1)]
    operands = [list(layouts[0][1]), *[[0 if i in repeated else step for i, step in enumerate(steps)]
                                       for _, steps in layouts[1:]]]  # fmt: skip
    order = memory_order(result, operands)
    if order == list(range(len(result) - 1, -1, -1)):
        return new_fake(result, contiguous_strides(result), x.dtype, x.device)
    return new_fake(result, packed_strides(result, order), x.dtype, x.device)


def _is_empty(shape: Shape) -> bool:
    """Whether there are no elements. Where data decides there are, or the program would have to check that."""
    return has_no_elements([size for size in shape if not depends_on_data(size)])


def _among_ones(shape: Shape, stride: Stride, before: int, after: int) -> Layout:
    """A layout reshaped to have sizes of 1 in front and behind, which gives all sizes of 1 new strides."""
    longer = (*(1,) * before, *shape, *(1,) * after)
    if len(longer) == len(shape) or not shape or _is_empty(shape):
        return longer, tuple(stride) if len(longer) == len(shape) else contiguous_strides(longer)
    strides: list[Any] = [stride[-1]] * after
    length = stride[-1]  # of the dimensions so far that are one in memory
    for size, step in zip(reversed(shape), reversed(stride), strict=True):
        if known_equal(size, 1):
            strides.append(length)
        else:
            strides.append(step)
            length = step * size
    return longer, tuple(reversed([*strides, *(length,) * before]))


@rule("aten.index_fill.int_Scalar")
def index_fill(x: FakeTensor, dim: int, index: FakeTensor, value: Any) -> Any:
    """A copy, whose strides meta kernels do not pack as the copy that eager fills."""
    at = wrap_dim(dim, x.ndim)
    if at is None or x.ndim == 0 or index.ndim != 1 or index.dtype is not torch.int64 or index.device != x.device:
        return NotImplemented
    if isinstance(value, complex):
        return NotImplemented
    return new_fake(shape_of(x), preserved_strides(*layout_of(x)), x.dtype, x.device)


@rule("aten.index_fill.int_Tensor")
def index_fill_tensor(x: FakeTensor, dim: int, index: FakeTensor, value: FakeTensor) -> Any:
    """A copy filled with the only element of `value`."""
    if value.ndim or value.dtype.is_complex or value.device != x.device:
        return NotImplemented
    return index_fill(x, dim, index, 0)


@rule("aten.index_put.default")
def index_put(x: FakeTensor, indices: Sequence[FakeTensor | None], values: FakeTensor, accumulate: bool = False) -> Any:
    """A copy with some elements replaced."""
    if values.dtype is not x.dtype or _common_index(x, indices) is None:
        return NotImplemented
    return new_fake(shape_of(x), preserved_strides(*layout_of(x)), x.dtype, x.device)


@rule("aten.index_add.default", "aten.index_copy.default", "aten.index_reduce.default")
def index_add(x: FakeTensor, dim: int, index: FakeTensor, source: FakeTensor, *rest: Any, **more: Any) -> Any:
    """By rows, where torch's meta kernels for symbolic sizes keep the argument's layout."""
    if x.ndim == 0 or source.dtype is not x.dtype or index.ndim != 1 or index.dtype not in _INDEX:
        return NotImplemented
    if not index.device == source.device == x.device or wrap_dim(dim, x.ndim) is None:
        return NotImplemented
    return new_fake(shape_of(x), None, x.dtype, x.device)


@rule("aten.topk.default")
def topk(x: FakeTensor, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Values and their places."""
    at = wrap_dim(dim, x.ndim)
    if at is None or x.ndim == 0 or x.dtype is torch.bool or x.dtype.is_complex:
        return NotImplemented
    shape = list(shape_of(x))
    if k < 0 or k > shape[at]:
        return NotImplemented
    shape[at] = k
    return new_fake(shape, None, x.dtype, x.device), new_fake(shape, None, torch.int64, x.device)


@rule("aten.sort.default")
def sort(x: FakeTensor, dim: int = -1, descending: bool = False) -> Any:
    """Values and their places, in the layout of the argument, its gaps left out."""
    if wrap_dim(dim, x.ndim) is None:
        raise FakeUnsupported("aten.sort", "the dimension is out of range, which meta kernels let pass")
    if x.dtype.is_complex:
        return NotImplemented
    shape, stride = layout_of(x)
    strides = preserved_strides(shape, stride)
    return new_fake(shape, strides, x.dtype, x.device), new_fake(shape, strides, torch.int64, x.device)


@rule("aten.sort.stable")
def stable_sort(x: FakeTensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    """Values and their places, in the layout of the argument, its gaps left out."""
    return sort(x, dim, descending)
