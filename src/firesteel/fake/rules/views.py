"""Views: operators whose result shares the storage of their argument, and their in-place forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...torch_compat import has_symbolic_layout
from ..dims import (
    contiguous_strides,
    dim_of,
    is_one,
    known_equal,
    larger,
    layout_of,
    layout_question,
    numel_of,
    offset_of,
    product,
    require_equal,
    shape_of,
    smaller,
    stride_of,
)
from ..tensor import FakeTensor, FakeUnsupported, new_fake, update_metadata, view_of
from .operands import wrap_dim
from .registry import rule
from .strides import TOO_LONG, preserved_strides


def infer_size(sizes: Sequence[Any], numel: Any) -> tuple[Any, ...] | None:
    """Fill in the one -1 of a requested shape; None when the shape does not fit.

    >>> infer_size((2, -1), 6)
    (2, 3)
    """
    unknown = [i for i, size in enumerate(sizes) if size == -1]
    if len(unknown) > 1 or any(size < -1 for size in sizes):
        return None
    if not unknown:
        return tuple(sizes) if require_equal(product(sizes), numel) else None
    known = product([size for size in sizes if size != -1])
    if known == 0 or numel % known != 0:
        return None
    return tuple(numel // known if size == -1 else size for size in sizes)


@layout_question
def viewed_strides(shape: Sequence[Any], stride: Sequence[Any], new: Sequence[Any]) -> tuple[Any, ...] | None:
    """Strides with which the elements of one layout are read in a new shape, or None where only a copy would do.

    >>> viewed_strides((2, 3), (3, 1), (6,)), viewed_strides((2, 3), (1, 2), (6,))
    ((1,), None)
    """
    if not shape:
        return (1,) * len(new)
    if all(known_equal(*pair) for pair in zip(stride, contiguous_strides(shape), strict=True)):
        return contiguous_strides(new)  # of a tensor without elements too, unless the shape stays: the same then
    if any(size == 0 for size in shape):
        return tuple(stride) if tuple(shape) == tuple(new) else contiguous_strides(new)
    result: list[Any] = [0] * len(new)
    at = len(new) - 1  # the next dimension of the new shape to place, from the right
    dim = len(shape) - 1
    while dim >= 0:
        # A run of dimensions that lie next to each other in memory can be cut up in any way.
        step, run = stride[dim], shape[dim]
        while dim > 0 and (shape[dim - 1] == 1 or stride[dim - 1] == run * step):
            dim -= 1
            run = run * shape[dim]
        dim -= 1
        placed: Any = 1
        while at >= 0 and (placed < run or new[at] == 1):
            result[at] = placed * step
            placed = placed * new[at]
            at -= 1
        if placed != run:
            return None
    return tuple(result) if at < 0 else None


@rule("aten.view.default", "aten._unsafe_view.default")
def view(x: FakeTensor, size: Sequence[Any]) -> Any:
    """The same elements in another shape."""
    shape = infer_size(size, numel_of(x))
    stride = None if shape is None else viewed_strides(shape_of(x), stride_of(x), shape)
    if shape is not None and stride is None and has_symbolic_layout(x):
        raise FakeUnsupported("aten.view", "only a copy has that shape, which meta kernels let pass")
    if shape is None or stride is None:
        return NotImplemented
    return view_of(x, shape, stride, offset_of(x))


@rule("aten.view_copy.default")
def view_copy(x: FakeTensor, size: Sequence[Any]) -> Any:
    """By rows, also of what no view could show in that shape."""
    shape = infer_size(size, numel_of(x))
    return NotImplemented if shape is None else new_fake(shape, None, x.dtype, x.device)


@rule("aten._reshape_alias.default")
def reshape_alias(x: FakeTensor, size: Sequence[Any], stride: Sequence[Any]) -> Any:
    """The view that reshape has already worked out."""
    return view_of(x, size, stride, offset_of(x))


@rule("aten.detach.default", "aten.alias.default")
def alias(x: FakeTensor) -> Any:
    """Another tensor on the same storage."""
    return view_of(x, shape_of(x), stride_of(x), offset_of(x))


Layout = tuple[Sequence[Any], Sequence[Any], Any]
"""Sizes, strides and offset."""


def _both_forms(views: str, in_place: str) -> Callable[[Callable[..., Layout | None]], Callable[..., Layout | None]]:
    """Registers the layout of a view, a function of the operator's arguments, for the view and its form in place."""

    def register(layout_for: Callable[..., Layout | None]) -> Callable[..., Layout | None]:
        def make_view(x: FakeTensor, *args: Any, **kwargs: Any) -> Any:
            layout = layout_for(x, *args, **kwargs)
            return NotImplemented if layout is None else view_of(x, *layout)

        def change(x: FakeTensor, *args: Any, **kwargs: Any) -> Any:
            layout = layout_for(x, *args, **kwargs)
            return NotImplemented if layout is None else update_metadata(x, *layout)

        rule(*[f"aten.{name}" for name in views.split()])(make_view)
        rule(*[f"aten.{name}" for name in in_place.split()])(change)
        return layout_for

    return register


@_both_forms("transpose.int", "transpose_.default")
def _swapped(x: FakeTensor, dim0: int, dim1: int) -> Layout | None:
    """Two dimensions exchanged."""
    first, second = wrap_dim(dim0, x.ndim), wrap_dim(dim1, x.ndim)
    if first is None or second is None:
        return None
    shape, stride = list(shape_of(x)), list(stride_of(x))
    if shape:
        shape[first], shape[second] = shape[second], shape[first]
        stride[first], stride[second] = stride[second], stride[first]
    return shape, stride, offset_of(x)


@_both_forms("t.default", "t_.default")
def _transposed(x: FakeTensor) -> Layout | None:
    """Matrices transposed, fewer dimensions as they are."""
    if x.ndim > 2:
        return None
    return _swapped(x, 0, 1) if x.ndim == 2 else (*layout_of(x), offset_of(x))


@rule("aten.permute.default")
def permute(x: FakeTensor, dims: Sequence[int]) -> Any:
    """All dimensions in a new order."""
    ndim = x.ndim
    order = [wrap_dim(dim, ndim) for dim in dims]
    if len(order) != ndim or None in order or len(set(order)) != ndim:
        return NotImplemented
    shape, stride = shape_of(x), stride_of(x)
    return view_of(x, [shape[d] for d in order], [stride[d] for d in order], offset_of(x))  # type: ignore[index]


@layout_question
def _stays(own: Any, wanted: Any) -> bool:
    """Whether a dimension is not repeated, and so keeps its stride."""
    return bool(wanted == own)


@rule("aten.expand.default")
def expand(x: FakeTensor, size: Sequence[Any], *, implicit: bool = False) -> Any:
    """Dimensions of size 1 repeated without memory, new ones in front."""
    lead = len(size) - x.ndim
    if lead < 0:
        return NotImplemented
    own_shape, own_stride = layout_of(x)
    shape: list[Any] = [0] * len(size)
    stride: list[Any] = [0] * len(size)
    for i in range(len(size) - 1, -1, -1):
        wanted = size[i]
        if i >= lead:
            own, step = own_shape[i - lead], own_stride[i - lead]
            if wanted == -1:
                wanted = own
        else:
            # A new dimension that stays of size 1 gets the stride it would have in a contiguous tensor.
            own, step = 1, shape[i + 1] * stride[i + 1] if x.ndim else 0
        if wanted < 0 or (own != 1 and wanted != own):
            return NotImplemented
        shape[i] = wanted
        stride[i] = step if _stays(own, wanted) else 0
    return view_of(x, shape, stride, offset_of(x))


@_both_forms("unsqueeze.default", "unsqueeze_.default")
def _unsqueezed(x: FakeTensor, dim: int) -> Layout | None:
    """A new dimension of size 1."""
    at = wrap_dim(dim, x.ndim + 1)
    if at is None:
        return None
    shape, stride = list(shape_of(x)), list(stride_of(x))
    step = shape[at] * stride[at] if at < len(shape) else 1
    shape.insert(at, 1)
    stride.insert(at, step)
    return shape, stride, offset_of(x)


@_both_forms("squeeze.default squeeze.dim squeeze.dims", "squeeze_.default squeeze_.dim squeeze_.dims")
def _squeezed(x: FakeTensor, dim: Any = None) -> Layout | None:
    """Dimensions of size 1 dropped."""
    dims = range(x.ndim) if dim is None else dim if isinstance(dim, (list, tuple)) else (dim,)
    ndim = x.ndim
    wrapped = {wrap_dim(d, ndim) for d in dims}
    if None in wrapped or len(wrapped) != len(dims):
        return None
    shape, stride = layout_of(x)
    kept = [i for i in range(ndim) if i not in wrapped or not is_one(shape[i])]
    return [shape[i] for i in kept], [stride[i] for i in kept], offset_of(x)


@rule("aten.squeeze_copy.default", "aten.squeeze_copy.dim", "aten.squeeze_copy.dims")
def squeeze_copy(x: FakeTensor, dims: Any = None) -> Any:
    """A contiguous copy without dimensions of size 1."""
    layout = _squeezed(x, dims)
    return NotImplemented if layout is None else new_fake(layout[0], None, x.dtype, x.device)


@rule("aten.select.int")
def select(x: FakeTensor, dim: int, index: Any) -> Any:
    """One index of a dimension."""
    at = wrap_dim(dim, x.ndim)
    if at is None or x.ndim == 0:
        return NotImplemented
    shape, stride = list(shape_of(x)), list(stride_of(x))
    size, step = shape[at], stride[at]
    if index >= size or index < -size:
        return NotImplemented
    if index < 0:
        index = index + size
    del shape[at], stride[at]
    return view_of(x, shape, stride, offset_of(x) + index * step)


# Python's and torch's ways to say "to the end".
_FAR = 1 << 62


def _clip(index: Any, size: Any) -> Any:
    if type(index) is int and index >= _FAR:
        return size
    if index < 0:
        index = index + size
    if index < 0:
        return 0
    return smaller(index, size)


@rule("aten.slice.Tensor")
def slice_(x: FakeTensor, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    """Every step-th index of a range in one dimension."""
    at = wrap_dim(dim, x.ndim)
    if at is None or x.ndim == 0 or step <= 0:
        return NotImplemented
    if step >= TOO_LONG:
        raise FakeUnsupported("aten.slice", "steps farther than memory goes")
    shape, stride = list(shape_of(x)), list(stride_of(x))
    size = shape[at]
    first = 0 if start is None else _clip(start, size)
    last = size if end is None else _clip(end, size)
    if last is not size:
        last = larger(last, first)
    shape[at] = (last - first + step - 1) // step
    offset = offset_of(x) + first * stride[at]
    stride[at] = stride[at] * step
    return view_of(x, shape, stride, offset)


def _pieces(x: FakeTensor, at: int, sizes: Sequence[Any]) -> list[FakeTensor]:
    shape, stride, offset = list(shape_of(x)), stride_of(x), offset_of(x)
    result = []
    for size in sizes:
        shape[at] = size
        result.append(view_of(x, shape, stride, offset))
        offset = offset + size * stride[at]
    return result


@rule("aten.split.Tensor")
def split(x: FakeTensor, split_size: Any, dim: int = 0) -> Any:
    """Pieces of one size along a dimension, the last maybe smaller."""
    at = wrap_dim(dim, x.ndim)
    if at is None or x.ndim == 0:
        return NotImplemented
    size = shape_of(x)[at]
    if split_size < 0 or (split_size == 0 and size != 0):
        raise FakeUnsupported("aten.split", "has no pieces of that size, which meta kernels may let pass")
    if split_size == 0:
        return _pieces(x, at, [size])
    count = int((size + split_size - 1) // split_size)
    if count <= 1:
        return _pieces(x, at, [size])
    return _pieces(x, at, [split_size] * (count - 1) + [size - split_size * (count - 1)])


@rule("aten.split_with_sizes.default")
def split_with_sizes(x: FakeTensor, sizes: Sequence[Any], dim: int = 0) -> Any:
    """Pieces of given sizes."""
    at = wrap_dim(dim, x.ndim)
    if at is None or x.ndim == 0 or any(size < 0 for size in sizes):
        return NotImplemented
    if not require_equal(sum(sizes), shape_of(x)[at]):
        return NotImplemented
    return _pieces(x, at, sizes)


@rule("aten.unbind.int")
def unbind(x: FakeTensor, dim: int = 0) -> Any:
    """All indices of a dimension, each as a view."""
    at = wrap_dim(dim, x.ndim)
    if at is None or x.ndim == 0:
        return NotImplemented
    return [select(x, at, i) for i in range(int(shape_of(x)[at]))]


@rule("aten.unfold.default")
def unfold(x: FakeTensor, dimension: int, size: Any, step: Any) -> Any:
    """Windows of a dimension, their elements in a new one."""
    at = wrap_dim(dimension, x.ndim)
    if at is None or x.ndim == 0:
        return NotImplemented
    shape, stride = list(shape_of(x)), list(stride_of(x))
    if size < 0 or step <= 0 or size > shape[at]:
        raise FakeUnsupported("aten.unfold", "has no such windows, which meta kernels let pass")
    if step >= TOO_LONG:
        raise FakeUnsupported("aten.unfold", "steps farther than memory goes")
    shape[at] = (shape[at] - size) // step + 1
    inner = stride[at]
    stride[at] = inner * step
    return view_of(x, (*shape, size), (*stride, inner), offset_of(x))


@rule("aten.diagonal.default")
def diagonal(x: FakeTensor, offset: Any = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A diagonal as the last dimension; one without elements begins where the argument does."""
    row, column = wrap_dim(dim1, x.ndim), wrap_dim(dim2, x.ndim)
    if row is None or column is None or row == column:
        return NotImplemented
    shape, stride = shape_of(x), stride_of(x)
    begin = offset_of(x)
    if offset >= 0:
        length, skipped = smaller(shape[row], shape[column] - offset), offset * stride[column]
    else:
        length, skipped = smaller(shape[row] + offset, shape[column]), -offset * stride[row]
    if length > 0:
        begin = begin + skipped
    else:
        length = 0
    rest = [dim for dim in range(x.ndim) if dim not in (row, column)]
    return view_of(x, (*[shape[dim] for dim in rest], length),
                   (*[stride[dim] for dim in rest], stride[row] + stride[column]), begin)


@rule("aten.slice_scatter.default", "aten.select_scatter.default", "aten.diagonal_scatter.default")
def scatter_to_view(x: FakeTensor, source: FakeTensor, *where: Any, **more: Any) -> Any:
    """A copy with gaps and all, of which a part is another; the source fits, that was looked at."""
    shape, stride = layout_of(x)
    return new_fake(shape, preserved_strides(shape, stride) if _is_expanded(x) else stride, x.dtype, x.device)


def _is_expanded(x: FakeTensor) -> bool:
    return any(type(step) is int and step == 0 and size > 1 for size, step in zip(*layout_of(x), strict=True))


@_both_forms("as_strided.default", "as_strided_.default")
def _in_storage(x: FakeTensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None) -> Layout:
    """Any view of the storage. What is not sound is left to eager, which says what is wrong; meta kernels take any."""
    offset = offset_of(x) if storage_offset is None else storage_offset
    if len(size) != len(stride) or offset < 0 or any(s < 0 for s in size) or any(s < 0 for s in stride):
        raise FakeUnsupported("aten.as_strided", "is no layout of a tensor")
    if any(s == 0 for s in size):
        return size, stride, offset
    last: Any = offset + 1
    for s, st in zip(size, stride, strict=True):
        last = last + (s - 1) * st
    if not x.unbounded and last * x.dtype.itemsize > dim_of(x.untyped_storage().nbytes()):
        raise FakeUnsupported("aten.as_strided", "reaches outside the storage")
    return size, stride, offset


@rule("aten.as_strided_scatter.default")
def as_strided_scatter(x: FakeTensor, source: FakeTensor, size: Sequence[Any], stride: Sequence[Any],
                       storage_offset: Any = None) -> Any:
    """A copy of which a part is another; that of an expanded tensor is dense."""
    if x.unbounded or not known_equal(offset_of(x), 0):
        return NotImplemented
    copy = scatter_to_view(x, source)
    _in_storage(copy, size, stride, storage_offset)
    return copy


@rule("aten.resize_.default")
def resize_(x: FakeTensor, size: Sequence[Any], *, memory_format: torch.memory_format | None = None) -> Any:
    """New sizes, contiguous, on the same storage."""
    if memory_format not in (None, torch.contiguous_format) or any(s < 0 for s in size):
        return NotImplemented
    if tuple(size) == tuple(shape_of(x)):
        return x
    return update_metadata(x, size, contiguous_strides(size), offset_of(x))
