"""Shapes of arrays: views where NumPy gives views, joining and splitting, repeating, rolling, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import torch

from ...fake.dims import known_equal, layout_of
from ..signals import GraphBreak
from ..undecidable import SYMBOLIC
from ..values.arrays import ArrayValue
from .context import Context
from .dtypes import dtype_argument, result_type, torch_dtype
from .indexing import get_item
from .layouts import as_numpy_lays_out, is_by_columns, is_by_rows, order_argument, read_order, rows_or_columns
from .registry import function, method
from .traced import Traced, record

# Views


def permuted(ctx: Context, a: ArrayValue, dims: Sequence[int], kind: str, name: Any, *args: Any) -> ArrayValue:
    """A view with the dimensions in another order."""
    value = ctx.view(a, Traced(ctx.tx, a.tensor).permute(list(dims)), kind, name, *args)
    value.flipped = frozenset(position for position, dim in enumerate(dims) if dim in a.flipped)
    return value


@function(numpy.transpose)
def transpose(ctx: Context, a: Any, axes: Any = None) -> Any:
    array = ctx.asarray(a)
    if array.scalar:
        return array
    dims = tuple(reversed(range(array.ndim))) if axes is None else ctx.axes(axes, array.ndim)
    if len(dims) != array.ndim:
        raise GraphBreak("a transposition of other dimensions than an array has")
    return permuted(ctx, array, dims, "method", "transpose", *dims)


@method("transpose")
def transpose_method(ctx: Context, a: ArrayValue, *axes: Any) -> Any:
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        return transpose(ctx, a, axes[0])
    return transpose(ctx, a, axes or None)


@function(numpy.swapaxes)
def swapaxes(ctx: Context, a: Any, axis1: Any, axis2: Any) -> Any:
    array = ctx.asarray(a)
    one, two = ctx.axis(axis1, array.ndim), ctx.axis(axis2, array.ndim)
    dims = list(range(array.ndim))
    dims[one], dims[two] = two, one
    return permuted(ctx, array, dims, "method", "swapaxes", one, two)


@function(numpy.moveaxis)
def moveaxis(ctx: Context, a: Any, source: Any, destination: Any) -> Any:
    array = ctx.asarray(a)
    sources, places = ctx.axes(source, array.ndim), ctx.axes(destination, array.ndim)
    if len(sources) != len(places):
        raise GraphBreak("np.moveaxis of other numbers of dimensions")
    order = [dim for dim in range(array.ndim) if dim not in sources]
    for place, dim in sorted(zip(places, sources, strict=True)):
        order.insert(place, dim)
    return permuted(ctx, array, order, "method", "transpose", *order)


@function(numpy.rollaxis)
def rollaxis(ctx: Context, a: Any, axis: Any, start: Any = 0) -> Any:
    array = ctx.asarray(a)
    dim = ctx.axis(axis, array.ndim)
    place = ctx.integer(start)
    place = place + array.ndim if place < 0 else place
    if dim < place:
        place -= 1
    order = [one for one in range(array.ndim) if one != dim]
    order.insert(place, dim)
    return permuted(ctx, array, order, "method", "transpose", *order)


@function(numpy.reshape)
def reshape(ctx: Context, a: Any, shape: Any, order: Any = "C", *, copy: Any = None) -> Any:
    array = ctx.asarray(a)
    sizes = ctx.shape(shape)
    if copy is not None:
        raise GraphBreak("np.reshape with copy=")
    letter = order_argument(order, "C")
    if letter == "K":
        raise GraphBreak("np.reshape with order='K', which NumPy refuses")
    if letter == "F" or letter == "A" and is_by_columns(array):
        turned = transpose(ctx, array)
        return transpose(ctx, reshape(ctx, turned, tuple(reversed(sizes))))
    if any(not isinstance(size, SYMBOLIC) and size < -1 for size in sizes):
        raise GraphBreak("np.reshape with a negative size")
    if array.scalar:
        return ctx.rows(ctx.tensor(array).reshape(sizes))
    traced = Traced(ctx.tx, array.tensor)
    shaped = traced.reshape(sizes)
    flipped = _reshaped_flips(array, shaped.shape) if array.flipped else frozenset()
    if flipped is None or shaped.fake.storage_key != traced.fake.storage_key:
        return ctx.rows(ctx.tensor(array).reshape(sizes)) if array.flipped else ctx.array(shaped)
    value = ctx.view(array, shaped, "method", "reshape", sizes)
    value.flipped = flipped
    return value


def _reshaped_flips(array: ArrayValue, shape: Sequence[Any]) -> frozenset[int] | None:
    """The dimensions that a reshaped view of a reversed array goes through backwards; None where NumPy copies."""
    if all(dim in array.flipped or known_equal(size, 1) for dim, size in enumerate(layout_of(array.tensor.fake)[0])):
        return frozenset(range(len(shape)))
    strides = array.tensor.fake.stride()
    if any(isinstance(number, SYMBOLIC) for number in (*array.shape, *shape, *strides)):
        raise GraphBreak("np.reshape of an array with reversed dimensions whose sizes vary", "copy the array first")
    # NumPy decides, on an array of the same strides of which no element is read.
    small = numpy.lib.stride_tricks.as_strided(numpy.empty(1, numpy.int8), array.shape, [
        -step if dim in array.flipped else step for dim, step in enumerate(strides)])
    try:
        small.shape = tuple(shape)
    except AttributeError:
        return None
    return frozenset(dim for dim, step in enumerate(small.strides) if step < 0)


@method("reshape")
def reshape_method(ctx: Context, a: ArrayValue, *shape: Any, order: Any = "C", copy: Any = None) -> Any:
    if len(shape) == 1:
        return reshape(ctx, a, shape[0], order, copy=copy)
    return reshape(ctx, a, shape, order, copy=copy)


@function(numpy.ravel)
def ravel(ctx: Context, a: Any, order: Any = "C") -> Any:
    array = ctx.asarray(a)
    letter = order_argument(order, "C")
    dims = read_order(array, letter)
    turned = array if dims == sorted(dims) else permuted(ctx, array, dims, "method", "transpose", *dims)
    if turned.scalar or not is_by_rows(turned):
        return ctx.rows(ctx.tensor(turned).reshape(-1))
    return ctx.view(array, Traced(ctx.tx, turned.tensor).reshape(-1), "method", "ravel", letter)


@method("flatten")
def flatten(ctx: Context, a: ArrayValue, order: Any = "C") -> Any:
    traced = ctx.tensor(a)
    dims = read_order(a, order_argument(order, "C"))
    if dims != sorted(dims):
        traced = traced.permute(dims)
    return ctx.array(traced.reshape(-1).clone())


@function(numpy.squeeze)
def squeeze(ctx: Context, a: Any, axis: Any = None) -> Any:
    array = ctx.asarray(a)
    if array.scalar:
        return array
    dims = [dim for dim, size in enumerate(array.shape) if size == 1] if axis is None else \
        list(ctx.axes(axis, array.ndim))
    if any(array.shape[dim] != 1 for dim in dims):
        raise GraphBreak("np.squeeze of a dimension of another size than 1")
    key = tuple(0 if dim in dims else slice(None) for dim in range(array.ndim))
    args = () if axis is None else (tuple(dims),)
    return _renamed(ctx, get_item(ctx, array, (*key, Ellipsis)), array, "method", "squeeze", *args)


def _renamed(ctx: Context, value: ArrayValue, of: ArrayValue, kind: str, name: Any, *args: Any) -> ArrayValue:
    """A view that another function of NumPy's makes."""
    again = ctx.view(of, Traced(ctx.tx, value.tensor), kind, name, *args)
    again.flipped, again.copied = value.flipped, value.copied
    return again


@function(numpy.expand_dims)
def expand_dims(ctx: Context, a: Any, axis: Any) -> Any:
    array = ctx.asarray(a)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    dims = ctx.axes(axis, array.ndim + count)
    key = tuple(None if dim in dims else slice(None) for dim in range(array.ndim + count))
    if array.scalar:
        return ctx.array(ctx.tensor(array).reshape((1,) * count))
    return _renamed(ctx, get_item(ctx, array, key), array, "function", numpy.expand_dims, dims)


def _at_least(ctx: Context, arrays: Any, widen: Any) -> Any:
    results = [widen(ctx.asarray(one)) for one in arrays]
    return results[0] if len(results) == 1 else tuple(results)


def _as_plain(ctx: Context, array: ArrayValue) -> ArrayValue:
    return ctx.array(ctx.tensor(array).clone()) if array.scalar else array


@function(numpy.atleast_1d)
def atleast_1d(ctx: Context, *arys: Any) -> Any:
    return _at_least(ctx, arys, lambda x: reshape(ctx, _as_plain(ctx, x), (1,)) if x.ndim == 0 else x)


@function(numpy.atleast_2d)
def atleast_2d(ctx: Context, *arys: Any) -> Any:
    def widen(x: ArrayValue) -> Any:
        if x.ndim == 0:
            return reshape(ctx, _as_plain(ctx, x), (1, 1))
        return get_item(ctx, x, (None, slice(None))) if x.ndim == 1 else x

    return _at_least(ctx, arys, widen)


@function(numpy.atleast_3d)
def atleast_3d(ctx: Context, *arys: Any) -> Any:
    def widen(x: ArrayValue) -> Any:
        if x.ndim == 0:
            return reshape(ctx, _as_plain(ctx, x), (1, 1, 1))
        if x.ndim == 1:
            return get_item(ctx, x, (None, slice(None), None))
        return get_item(ctx, x, (slice(None), slice(None), None)) if x.ndim == 2 else x

    return _at_least(ctx, arys, widen)


@function(numpy.broadcast_to)
def broadcast_to(ctx: Context, array: Any, shape: Any, subok: bool = False) -> Any:
    base = _as_plain(ctx, ctx.asarray(array))
    sizes = ctx.shape(shape)
    if base.flipped:
        raise GraphBreak("np.broadcast_to of a reversed array")
    value = ctx.view(base, ctx.tensor(base).expand(sizes), "function", numpy.broadcast_to, sizes)
    value.writeable = False
    return value


@function(numpy.broadcast_arrays)
def broadcast_arrays(ctx: Context, *args: Any, subok: bool = False) -> Any:
    arrays = [_as_plain(ctx, ctx.asarray(one)) for one in args]
    shape = tuple(torch.broadcast_shapes(*(one.shape for one in arrays)))
    same = [one.shape == shape for one in arrays]
    if any(one.flipped for one in arrays):
        raise GraphBreak("np.broadcast_arrays of a reversed array")
    return tuple(one if unchanged else
                 ctx.view(one, ctx.tensor(one).expand(shape), "function", broadcast_member, shape)
                 for one, unchanged in zip(arrays, same, strict=True))


def broadcast_member(array: Any, shape: tuple[int, ...]) -> Any:
    """An array as ``np.broadcast_arrays`` gives it, which may be written to with a warning."""
    return numpy.broadcast_arrays(array, numpy.broadcast_to(0, shape))[0]


@function(numpy.diagonal)
def diagonal(ctx: Context, a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
    array = ctx.asarray(a)
    if array.flipped:
        raise GraphBreak("np.diagonal of a reversed array")
    places = [ctx.integer(offset), ctx.axis(axis1, array.ndim), ctx.axis(axis2, array.ndim)]
    value = ctx.view(array, Traced(ctx.tx, array.tensor).diagonal(*places), "method", "diagonal", *places)
    value.writeable = False
    return value


@function(numpy.flip)
def flip(ctx: Context, m: Any, axis: Any = None) -> Any:
    array = ctx.asarray(m)
    dims = ctx.axes(axis, array.ndim)
    return get_item(ctx, array, tuple(slice(None, None, -1) if dim in dims else slice(None)
                                      for dim in range(array.ndim)))


function(numpy.flipud)(lambda ctx, m: flip(ctx, m, 0))
function(numpy.fliplr)(lambda ctx, m: flip(ctx, m, 1))


@function(numpy.rot90)
def rot90(ctx: Context, m: Any, k: Any = 1, axes: Any = (0, 1)) -> Any:
    array = ctx.asarray(m)
    one, two = ctx.axes(tuple(axes), array.ndim)
    turns = ctx.integer(k) % 4
    if turns == 0:
        return get_item(ctx, array, slice(None))
    if turns == 2:
        return flip(ctx, flip(ctx, array, one), two)
    if turns == 1:
        return swapaxes(ctx, flip(ctx, array, two), one, two)
    return flip(ctx, swapaxes(ctx, array, one, two), two)


@method("view")
def view_method(ctx: Context, a: ArrayValue, dtype: Any = None, type: Any = None) -> Any:
    if type is not None or dtype is None or a.scalar:
        raise GraphBreak("a view of a NumPy array as another class")
    kind = dtype_argument(dtype)
    if kind.itemsize != a.dtype.itemsize or kind.kind == "b" or a.flipped:
        raise GraphBreak(f"a view of {a.dtype} as {kind}")
    return ctx.view(a, Traced(ctx.tx, a.tensor).view(torch_dtype(kind)), "method", "view", kind)


# Joining


def _joined(ctx: Context, arrays: list[ArrayValue], dtype: Any, dim: int) -> ArrayValue:
    kind = dtype_argument(dtype) or result_type(*arrays)
    tensors = [ctx.cast_to(one, kind) for one in arrays]
    result = record(ctx.tx, torch.cat, (tensors, dim), {})
    return ctx.array(as_numpy_lays_out(result, arrays, lambda *small: numpy.concatenate(small, dim)))


def _sequence(ctx: Context, arrays: Any) -> list[ArrayValue]:
    if isinstance(arrays, ArrayValue):
        arrays = [get_item(ctx, arrays, at) for at in range(ctx.integer(arrays.shape[0]))]
    if not arrays:
        raise GraphBreak("nothing to join")
    return [ctx.asarray(one) for one in arrays]


# the second is what NumPy's own Python calls
@function(numpy.concatenate, getattr(numpy.concatenate, "__wrapped__", None))
def concatenate(ctx: Context, arrays: Any, axis: Any = 0, out: Any = None, dtype: Any = None) -> Any:
    parts = _sequence(ctx, arrays)
    if out is not None:
        raise GraphBreak("np.concatenate with out=")
    if axis is None:
        return _joined(ctx, [ctx.array(ctx.tensor(one).reshape(-1)) for one in parts], dtype, 0)
    if any(one.ndim != parts[0].ndim or not one.ndim for one in parts):
        raise GraphBreak("np.concatenate of arrays of different dimensions")
    return _joined(ctx, parts, dtype, ctx.axis(axis, parts[0].ndim))


@function(numpy.stack)
def stack(ctx: Context, arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None) -> Any:
    parts = _sequence(ctx, arrays)
    if out is not None:
        raise GraphBreak("np.stack with out=")
    dim = ctx.axis(axis, parts[0].ndim + 1)
    return concatenate(ctx, [expand_dims(ctx, _as_plain(ctx, one), dim) for one in parts], dim, dtype=dtype)


@function(numpy.vstack)
def vstack(ctx: Context, tup: Any, *, dtype: Any = None) -> Any:
    return concatenate(ctx, [atleast_2d(ctx, one) for one in _sequence(ctx, tup)], 0, dtype=dtype)


@function(numpy.hstack)
def hstack(ctx: Context, tup: Any, *, dtype: Any = None) -> Any:
    parts = [atleast_1d(ctx, one) for one in _sequence(ctx, tup)]
    return concatenate(ctx, parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype)


@function(numpy.dstack)
def dstack(ctx: Context, tup: Any) -> Any:
    return concatenate(ctx, [atleast_3d(ctx, one) for one in _sequence(ctx, tup)], 2)


@function(numpy.column_stack)
def column_stack(ctx: Context, tup: Any) -> Any:
    parts = [one if one.ndim > 1 else transpose(ctx, atleast_2d(ctx, one)) for one in _sequence(ctx, tup)]
    return concatenate(ctx, parts, 1)


@function(numpy.append)
def append(ctx: Context, arr: Any, values: Any, axis: Any = None) -> Any:
    return concatenate(ctx, [ctx.asarray(arr), ctx.asarray(values)], axis)


@function(numpy.split)
def split(ctx: Context, ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    array = ctx.asarray(ary)
    dim = ctx.axis(axis, array.ndim)
    if not isinstance(indices_or_sections, (list, tuple)):
        if ctx.integer(array.shape[dim]) % ctx.integer(indices_or_sections):
            raise GraphBreak("np.split into parts of different sizes")
    return array_split(ctx, array, indices_or_sections, dim)


@function(numpy.array_split)
def array_split(ctx: Context, ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    array = ctx.asarray(ary)
    dim = ctx.axis(axis, array.ndim)
    size = ctx.integer(array.shape[dim])
    if isinstance(indices_or_sections, (list, tuple)):
        bounds = [0, *(ctx.integer(at) for at in indices_or_sections), size]
    else:
        count = ctx.integer(indices_or_sections)
        each, extra = divmod(size, count)
        bounds = [0]
        for part in range(count):
            bounds.append(bounds[-1] + each + (part < extra))
    before = (slice(None),) * dim
    return [get_item(ctx, array, (*before, slice(begin, end)))
            for begin, end in zip(bounds, bounds[1:], strict=False)]


@function(numpy.hsplit)
def hsplit(ctx: Context, ary: Any, indices_or_sections: Any) -> Any:
    return split(ctx, ary, indices_or_sections, 1 if ctx.asarray(ary).ndim > 1 else 0)


@function(numpy.vsplit)
def vsplit(ctx: Context, ary: Any, indices_or_sections: Any) -> Any:
    return split(ctx, ary, indices_or_sections, 0)


# Copies in other shapes


@function(numpy.tile)
def tile(ctx: Context, A: Any, reps: Any) -> Any:  # noqa: N803
    array = ctx.asarray(A)
    counts = [ctx.integer(one) for one in (reps if isinstance(reps, (tuple, list)) else (reps,))]
    counts = [1] * (array.ndim - len(counts)) + counts
    return ctx.rows(record(ctx.tx, "repeat", (ctx.tensor(array), *counts), {}))


@function(numpy.repeat)
def repeat(ctx: Context, a: Any, repeats: Any, axis: Any = None) -> Any:
    array = ctx.asarray(a)
    traced = ctx.tensor(array)
    if axis is None:
        traced, axis = traced.reshape(-1), 0
    dim = ctx.axis(axis, traced.ndim)
    if isinstance(repeats, (list, tuple)):
        repeats = ctx.asarray(repeats)
    if isinstance(repeats, ArrayValue):
        repeats = ctx.tensor(repeats).to(torch.int64)
    else:
        repeats = ctx.integer(repeats)
    return ctx.rows(torch.repeat_interleave(traced, repeats, dim=dim))


@function(numpy.roll)
def roll(ctx: Context, a: Any, shift: Any, axis: Any = None) -> Any:
    array = ctx.asarray(a)
    shifts = [ctx.integer(one) for one in (shift if isinstance(shift, (tuple, list)) else (shift,))]
    if axis is None:
        if len(shifts) > 1:
            raise GraphBreak("np.roll by several numbers without axes")
        return ctx.rows(torch.roll(ctx.tensor(array), shifts[0]))
    axes = [ctx.axis(one, array.ndim) for one in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    if len(shifts) == 1:
        shifts = shifts * len(axes)
    rolled = torch.roll(ctx.tensor(array), shifts, axes)
    return ctx.array(as_numpy_lays_out(rolled, array, numpy.empty_like))


@function(numpy.pad)
def pad(ctx: Context, array: Any, pad_width: Any, mode: Any = "constant", *, constant_values: Any = 0) -> Any:
    base = ctx.asarray(array)
    widths = _widths(ctx, pad_width, base.ndim)
    traced = ctx.tensor(base)
    if mode == "constant":
        value = constant_values
        if isinstance(value, (tuple, list, ArrayValue)):
            raise GraphBreak("np.pad with several constants")
        sizes = [size + before + after for size, (before, after) in zip(base.shape, widths, strict=True)]
        padded = ctx.full(sizes, value, base.dtype)
        inside = tuple(slice(before, before + size) for size, (before, _) in zip(base.shape, widths, strict=True))
        record(ctx.tx, "copy_", (padded[inside] if inside else padded, traced), {})
        return ctx.array(rows_or_columns(padded, base))
    if mode not in ("edge", "reflect", "wrap", "symmetric"):
        raise GraphBreak(f"np.pad with mode {mode!r}")
    for dim, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        size = ctx.integer(base.shape[dim])
        places = numpy.pad(numpy.arange(size), (before, after), mode).tolist()
        index = ctx.make(torch.tensor, places, dtype=torch.int64)
        traced = torch.index_select(traced, dim, index)
    return ctx.array(rows_or_columns(traced, base))


def _widths(ctx: Context, pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, (dict, ArrayValue)):
        raise GraphBreak("np.pad with widths in an array or a dictionary", "give a tuple of pairs of numbers")
    widths = numpy.broadcast_to(numpy.asarray(pad_width), (ndim, 2))
    return [(int(before), int(after)) for before, after in widths]


@function(numpy.delete)
def delete(ctx: Context, arr: Any, obj: Any, axis: Any = None) -> Any:
    array = ctx.asarray(arr)
    if axis is None:
        array, axis = ctx.array(ctx.tensor(array).reshape(-1)), 0
    if isinstance(obj, ArrayValue):
        raise GraphBreak("np.delete at places that data decides on")
    dim = ctx.axis(axis, array.ndim)
    kept = numpy.delete(numpy.arange(ctx.integer(array.shape[dim])), obj).tolist()
    index = ctx.make(torch.tensor, kept, dtype=torch.int64)
    remaining = torch.index_select(ctx.tensor(array), dim, index)
    if isinstance(obj, slice) or numpy.size(obj) == 1 and numpy.asarray(obj).dtype != bool:
        return ctx.array(rows_or_columns(remaining, array))
    # the others NumPy chooses with a mask
    return ctx.array(as_numpy_lays_out(remaining, array, lambda small: small[
        (*(slice(None),) * dim, numpy.ones(small.shape[dim], bool))], by_rows=False))
