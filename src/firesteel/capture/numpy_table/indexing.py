"""Subscripts of arrays: views for integers and slices, copies for arrays of integers and masks."""

from __future__ import annotations

import operator
from typing import Any

import numpy
import torch

from ..signals import GraphBreak
from ..undecidable import SYMBOLIC
from ..values.arrays import ArrayValue
from .context import Context, count_of
from .dtypes import INT, is_number
from .layouts import laid_out, small_order, stand_in
from .traced import Tensor, Traced, record

ATEN_INDEX = torch.ops.aten.index.Tensor
ATEN_INDEX_PUT = torch.ops.aten.index_put_.default


def get_item(ctx: Context, array: ArrayValue, key: Any) -> Any:
    """``array[key]``."""
    parts = _expanded(ctx, array, key)
    advanced = [part for part in parts if isinstance(part, ArrayValue)]
    if not advanced:
        return _basic(ctx, array, parts, key)
    if all(part.ndim == 0 and part.dtype.kind in "iu" for part in advanced):
        return _chosen(ctx, array, parts, key)
    if array.scalar:
        raise GraphBreak("an array as a subscript of a NumPy scalar")
    traced, indices = _with_indices(ctx, array, parts)
    result = _take(ctx, traced, indices)
    if result.ndim > 1:
        result = _as_numpy_lays_out(array, parts, result)
    return ctx.array(result)


def _expanded(ctx: Context, array: ArrayValue, key: Any) -> list[Any]:
    """One part for each dimension and each new one: integers, slices, None and arrays; the ellipsis is filled in."""
    parts: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, numpy.generic) and part.dtype.kind in "iu":
            part = int(part)
        elif isinstance(part, (list, range)):
            part = ctx.asarray(part, INT if not part else None)
        if isinstance(part, (bool, numpy.bool_)) or not (
                part is None or part is Ellipsis or isinstance(part, (int, torch.SymInt, slice, ArrayValue))):
            raise GraphBreak(f"{type(part).__name__} as a subscript of a NumPy array")
        if isinstance(part, ArrayValue) and part.dtype.kind not in "biu":
            raise GraphBreak(f"an array of {part.dtype} as a subscript, which NumPy refuses")
        if isinstance(part, ArrayValue) and part.dtype.kind == "b" and part.ndim == 0:
            raise GraphBreak("a truth value of the graph as a subscript of a NumPy array")
        parts.append(part)
    used = sum(part.ndim if isinstance(part, ArrayValue) and part.dtype.kind == "b" else 1
               for part in parts if part is not None and part is not Ellipsis)
    if used > array.ndim or parts.count(Ellipsis) > 1:
        raise GraphBreak("too many subscripts for a NumPy array")
    missing = [slice(None)] * (array.ndim - used)
    at = next((position for position, part in enumerate(parts) if part is Ellipsis), None)
    if at is None:
        return [*parts, *missing]
    return [*parts[:at], *missing, *parts[at + 1:]]


def _basic(ctx: Context, array: ArrayValue, parts: list[Any], key: Any) -> Any:
    """A view, or a scalar where nothing but integers is given."""
    traced, flipped = _sliced(ctx, array, parts)
    integers = bool(parts) and all(isinstance(part, (int, torch.SymInt)) for part in parts) or \
        not parts and isinstance(key, tuple) and not key
    if integers and key is not Ellipsis and not (isinstance(key, tuple) and Ellipsis in [
            part for part in key if part is Ellipsis]):
        return ctx.scalar(traced.clone())
    if array.scalar:
        return ctx.array(traced.clone())
    value = ctx.view(array, traced, "item", None, key)
    value.flipped = flipped
    return value


def _sliced(ctx: Context, array: ArrayValue, parts: list[Any]) -> tuple[Tensor, frozenset[int]]:
    """The view that integers, slices and new dimensions make, and the dimensions that it goes through backwards."""
    key: list[Any] = []
    flipped: list[bool] = []
    dim = 0
    for part in parts:
        if part is None:
            key.append(None)
            flipped.append(False)
            continue
        size, backwards = array.shape[dim], dim in array.flipped
        dim += 1
        if isinstance(part, (int, torch.SymInt)):
            key.append(_inside(part, size, backwards))
            continue
        if not isinstance(part, slice):
            raise GraphBreak("a subscript of a NumPy array that is not captured")
        piece, reversed_ = _piece(ctx, part, size, backwards)
        key.append(piece)
        flipped.append(reversed_)
    traced = Traced(ctx.tx, array.tensor)
    if key:
        traced = record(ctx.tx, operator.getitem, (traced, tuple(key)), {})
    return traced, frozenset(position for position, one in enumerate(flipped) if one)


def _inside(index: Any, size: Any, backwards: bool) -> Any:
    if not backwards:
        return index
    return size - 1 - (index + size if index < 0 else index)


def _piece(ctx: Context, part: slice, size: Any, backwards: bool) -> tuple[slice, bool]:
    """A slice with a positive step, and whether its elements come in the opposite order."""
    step = 1 if part.step is None else ctx.integer(part.step)
    bounds = [ctx.shape(bound)[0] if bound is not None else None for bound in (part.start, part.stop)]
    if step > 0 and not backwards:
        return slice(bounds[0], bounds[1], step), False
    if part.start is None and part.stop is None and step in (1, -1):
        return slice(None), backwards == (step > 0)
    plain = [int(bound) if bound is not None else None for bound in bounds]
    length = int(size)
    places = range(*slice(plain[0], plain[1], step).indices(length))
    if backwards:
        places = range(length - 1 - places.start, length - 1 - places.stop, -places.step)
    if len(places) == 0:
        return slice(0, 0, 1), places.step < 0
    if places.step < 0:
        return slice(places[-1], places[0] + 1, -places.step), True
    return slice(places[0], places[-1] + 1, places.step), False


def _chosen(ctx: Context, array: ArrayValue, parts: list[Any], key: Any) -> Any:
    """A view whose place data decides on: its elements are copied, and NumPy makes the view itself if it is needed."""
    if array.flipped:
        raise GraphBreak("a subscript that data decides on of a reversed NumPy array")
    scalar = all(isinstance(part, (int, torch.SymInt, ArrayValue)) for part in parts)
    places = [position for position, part in enumerate(parts) if isinstance(part, ArrayValue)]
    if not scalar and (len(places) > 1 or not all(isinstance(part, (slice, ArrayValue)) for part in parts)):
        raise GraphBreak("several subscripts of a NumPy array of which data decides on some")
    traced, indices = _with_indices(ctx, array, parts)
    result = _take(ctx, traced, [None if index is None else index.reshape(1) for index in indices])
    result = result.squeeze(0 if scalar else places[0])
    if scalar:
        return ctx.scalar(result)
    value = ctx.view(array, ctx.tensor(ctx.array(result)), "item", None, key)
    value.copied = True
    ctx.state.copied_of.add(array.tensor.fake.storage_key)
    return value


def _with_indices(ctx: Context, array: ArrayValue, parts: list[Any]) -> tuple[Tensor, list[Any]]:
    """The tensor with slices taken, and for each of its dimensions a tensor of indices, a mask, or None."""
    basic: list[Any] = []
    indices: list[Any] = []
    for part in parts:
        if isinstance(part, ArrayValue):
            count = part.ndim if part.dtype.kind == "b" else 1
            basic.extend([slice(None)] * count)
            index = ctx.tensor(part)
            if part.dtype.kind == "b" and part.shape != array.shape[len(basic) - basic.count(None) - count:][:count]:
                raise GraphBreak("a mask of another shape than the NumPy array that it is a subscript of")
            indices.append(index if part.dtype.kind == "b" else index.to(torch.int64))
        elif isinstance(part, (int, torch.SymInt)):
            basic.append(slice(None))
            indices.append(ctx.full((), part, INT))
        else:
            basic.append(part)
            indices.append(None)
    plain = ArrayValue(ctx.tensor(array).value, array.dtype)
    return _sliced(ctx, plain, basic)[0], indices


def _take(ctx: Context, traced: Tensor, indices: list[Any]) -> Tensor:
    """Copies of the elements that tensors of indices name."""
    while indices and indices[-1] is None:
        indices = indices[:-1]
    if all(index is None or index.ndim for index in indices):
        key = tuple(slice(None) if index is None else index for index in indices)
        return record(ctx.tx, operator.getitem, (traced, key), {})
    return record(ctx.tx, ATEN_INDEX, (traced, indices), {})


def _as_numpy_lays_out(array: ArrayValue, parts: list[Any], result: Tensor) -> Tensor:
    """The result of advanced indexing in the order in memory that NumPy gives it, seen on a small array."""
    small = stand_in(array.tensor.fake, array.flipped)
    key: list[Any] = []
    for part in parts:
        if isinstance(part, ArrayValue):
            if part.dtype.kind == "b":
                key.append(numpy.ones([min(int(size), 2) if not isinstance(size, SYMBOLIC) else 2
                                       for size in part.shape], bool))
            else:
                key.append(numpy.zeros([1 if _is_one(size) else 2 for size in part.shape], int))
        elif isinstance(part, (int, torch.SymInt)):
            key.append(0)
        else:
            key.append(part if part is None else slice(None, None, -1 if _negative(part.step) else 1))
    try:
        chosen = small[tuple(key)]
    except IndexError:
        return laid_out(result, range(result.ndim))
    return laid_out(result, small_order(chosen))


def _negative(step: Any) -> bool:
    return step is not None and not isinstance(step, ArrayValue) and step < 0


# Writing


def set_item(ctx: Context, array: ArrayValue, key: Any, value: Any) -> None:
    """``array[key] = value``."""
    ctx.check_writable(array)
    parts = _expanded(ctx, array, key)
    if isinstance(value, (list, tuple, range)):
        value = ctx.asarray(value)
    if not is_number(value) and not isinstance(value, (ArrayValue, numpy.generic)):
        raise GraphBreak(f"{type(value).__name__} written into a NumPy array")
    ctx.check_element(value, array.dtype)
    traced = ctx.cast_to(value, array.dtype)
    if not any(isinstance(part, ArrayValue) for part in parts):
        view, flipped = _sliced(ctx, array, parts)
        target = ArrayValue(view.value, array.dtype)
        target.flipped = flipped
        while traced.ndim > view.ndim and _is_one(traced.shape[0]):
            traced = traced.squeeze(0)
        ctx.write(target, traced)
        ctx.written(array)
        return
    if array.flipped:
        raise GraphBreak("an array as a subscript of a reversed NumPy array that is written to")
    target_tensor, indices = _with_indices(ctx, array, parts)
    masks = [index for index in indices if index is not None and index.dtype is torch.bool]
    if len(masks) == 1 and len(indices) >= 1 and indices[0] is masks[0] and traced.ndim == 0 and \
            all(part == slice(None) for part in parts[1:] if isinstance(part, slice)) and \
            all(isinstance(part, slice) for part in parts[1:]):
        mask = masks[0].reshape((*masks[0].shape, *(1,) * (target_tensor.ndim - masks[0].ndim)))
        target_tensor.copy_(torch.where(mask, traced, target_tensor))
    elif traced.ndim == 0 or masks:
        if masks and len(indices) - indices.count(None) > 1:
            raise GraphBreak("a mask beside other arrays as subscripts of a NumPy array that is written to")
        record(ctx.tx, ATEN_INDEX_PUT, (target_tensor, indices, traced), {})
    else:
        _put_in_order(ctx, target_tensor, indices, traced)
    ctx.written(array)


def _is_one(size: Any) -> bool:
    return not isinstance(size, SYMBOLIC) and size == 1


def _put_in_order(ctx: Context, target: Tensor, indices: list[Any], values: Tensor) -> None:
    """Write values at indices that may occur more than once: the last value of each stays.

    For every place the position of the last index that names it is found first; then all places are written at once.
    """
    count = len(indices) - indices[::-1].index(next(index for index in indices[::-1] if index is not None))
    leading = indices[:count]
    if any(index is None for index in leading):
        raise GraphBreak("values written to indices of a later dimension of a NumPy array")
    sizes = target.shape[:count]
    flat: Any = None
    valid: Any = None
    for index, size in zip(leading, sizes, strict=True):
        inside = (index >= -size) & (index < size)
        index = torch.where(index < 0, index + size, index)
        flat, valid = (index, inside) if flat is None else (flat * size + index, valid & inside)
    flat = torch.where(valid, flat, -1)  # which the operation below refuses
    rest = target.shape[count:]
    values = values.expand((*flat.shape, *rest)).reshape((-1, *rest))
    flat = flat.reshape(-1)
    places = count_of(sizes)
    last = ctx.make(torch.full, (places,), -1, dtype=torch.int64)
    positions = ctx.make(torch.arange, flat.shape[0], dtype=torch.int64)
    last = torch.scatter_reduce(last, 0, flat, positions, "amax")
    chosen: Any = values[torch.clamp(last, min=0)].reshape(target.shape)
    written: Any = (last >= 0).reshape((*sizes, *(1,) * len(rest)))
    target.copy_(torch.where(written, chosen, target))
