"""Sorting, order statistics and sets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy
import torch

from ..signals import GraphBreak
from ..values.arrays import ArrayValue
from .context import Context
from .dtypes import FLOAT, result_type
from .host_operators import operator
from .indexing import get_item
from .layouts import as_numpy_lays_out, laid_out
from .reductions import NO_VALUE
from .registry import function, method, refuse
from .traced import Tensor, record


def _sortable(ctx: Context, a: Any, kind: Any, order: Any, stable: Any) -> tuple[ArrayValue, str]:
    """What is sorted, and in which of NumPy's ways."""
    array = ctx.asarray(a)
    if order is not None or array.dtype.kind == "c":
        raise GraphBreak("sorting of complex numbers or by fields")
    if not (kind is None or isinstance(kind, str)) or kind is not None and stable is not None:
        raise GraphBreak("sorting of an unusual kind")  # NumPy may raise
    return array, kind or ("stable" if stable else "")


def _sorted(ctx: Context, traced: Tensor, dim: int, kind: str) -> Tensor:
    if ctx.tx.compiler.exports:
        return torch.sort(traced, dim=dim)[0]
    return record(ctx.tx, operator("numpy_sort"), (traced, dim, kind), {})


def _places(ctx: Context, traced: Tensor, dim: int, kind: str) -> Tensor:
    """Which elements come first, second and so on."""
    if ctx.tx.compiler.exports:
        return torch.argsort(traced, dim=dim, stable=True)
    return record(ctx.tx, operator("numpy_argsort"), (traced, dim, kind), {})


def _sorting(numpys_own: Any, run: Callable[[Context, Tensor, int, str], Tensor]) -> None:
    def sort(ctx: Context, a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
        array, how = _sortable(ctx, a, kind, order, stable)
        traced = ctx.tensor(array)
        if axis is None:
            traced, axis = traced.reshape(-1), 0
        dim = ctx.axis(axis, traced.ndim)
        return ctx.array(as_numpy_lays_out(run(ctx, traced, dim, how), array,
                                           lambda small: numpys_own(small, axis=dim)))

    function(numpys_own)(sort)


_sorting(numpy.sort, _sorted)
_sorting(numpy.argsort, _places)


@method("sort")
def sort_in_place(ctx: Context, a: ArrayValue, axis: Any = -1, kind: Any = None, order: Any = None,
                  *, stable: Any = None) -> None:
    array, how = _sortable(ctx, a, kind, order, stable)
    ctx.write(array, _sorted(ctx, ctx.tensor(array), ctx.axis(axis, array.ndim), how))


@function(numpy.lexsort)
def lexsort(ctx: Context, keys: Any, axis: Any = -1) -> Any:
    arrays = [ctx.asarray(key) for key in keys]
    if arrays[0].ndim != 1:
        raise GraphBreak("np.lexsort of arrays of several dimensions")
    place = _places(ctx, ctx.tensor(arrays[0]), 0, "stable")
    for array in arrays[1:]:
        place = place[_places(ctx, ctx.tensor(array)[place], 0, "stable")]
    return ctx.array(place)


# Order statistics


def _rows(ctx: Context, array: ArrayValue, axis: Any) -> tuple[Tensor, list[int]]:
    """The elements along the named dimensions, in the last dimension; and those dimensions."""
    dims = list(ctx.axes(axis, array.ndim))
    kept = [dim for dim in range(array.ndim) if dim not in dims]
    kind = array.dtype if array.dtype.kind == "f" else FLOAT
    traced = ctx.cast_to(array, kind).permute([*kept, *dims])
    rows = traced.reshape((*(array.shape[dim] for dim in kept), -1))
    return rows, dims


@function(numpy.partition)
def partition(ctx: Context, a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    array = ctx.asarray(a)
    places = list(kth) if isinstance(kth, (list, tuple)) else [kth]
    refuse("np.partition", {
        "order=": order is not None, f"an array of {array.dtype}": array.dtype.kind not in "iuf",
        "an array without dimensions": not array.ndim, "axis=None": axis is None,
        "a graph that is exported": ctx.tx.compiler.exports,
        "places that are no constant integers": not all(type(place) is int for place in places),
    })
    dim = ctx.axis(axis, array.ndim)
    computed = record(ctx.tx, operator("numpy_partition"), (ctx.tensor(array), places, dim), {})
    return ctx.array(as_numpy_lays_out(computed, array, lambda small: numpy.partition(small, 0, dim)))


def _with_sorted(ctx: Context, rows: Tensor, places: list[int]) -> Tensor:
    """Rows that have what sorted ones have at some places; the last is always among these."""
    last = rows.ndim - 1
    if ctx.tx.compiler.exports:
        return torch.sort(rows, dim=last)[0]
    wanted = sorted({*places, int(rows.shape[-1]) - 1})
    return record(ctx.tx, operator("numpy_partition"), (rows, wanted, last), {})


def _placed(ctx: Context, array: ArrayValue, computed: Tensor, dims: list[int], keepdims: Any, leading: int = 0) -> Any:
    """The result of a reduction of some dimensions; those that are kept are new ones of a view."""
    computed = computed if computed.ndim else computed.clone()
    if keepdims is NO_VALUE or not keepdims or not array.ndim:
        return ctx.array_or_scalar(computed)
    result = ctx.array(computed)
    return get_item(ctx, result, (*(slice(None),) * leading, *(None if dim in dims else slice(None) for dim in range(
        array.ndim))))


def _beside(place: float, count: int) -> tuple[int, int]:
    """Between which elements of `count` a place lies."""
    below = math.floor(place)
    return below, min(below + 1, count - 1)


def _at(rows: Tensor, place: float) -> Tensor:
    """The element of sorted rows at a place that may lie between two, as NumPy interpolates."""
    below, above = _beside(place, int(rows.shape[-1]))
    low, high = rows[..., below], rows[..., above]
    part = place - below
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


@function(numpy.median)
def median(ctx: Context, a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
           keepdims: Any = NO_VALUE) -> Any:
    array = ctx.asarray(a)
    refuse("np.median", {"out=": out is not None, "overwrite_input=True": overwrite_input,
                         f"an array of {array.dtype}": array.dtype.kind == "c"})
    rows, dims = _rows(ctx, array, axis)
    count = int(rows.shape[-1])
    if not count:
        raise GraphBreak("np.median of nothing")
    rows = _with_sorted(ctx, rows, [max(count // 2 - 1, 0), count // 2])
    middle = rows[..., count // 2]
    computed = middle if count % 2 else (rows[..., count // 2 - 1] + middle) / 2
    computed = torch.where(torch.isnan(rows[..., -1]), math.nan, computed)
    computed = as_numpy_lays_out(computed, array, lambda small: numpy.median(small, axis=tuple(dims)))
    return _placed(ctx, array, computed, dims, keepdims)


@function(numpy.quantile)
def quantile(ctx: Context, a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
             method: str = "linear", keepdims: Any = NO_VALUE) -> Any:
    array = ctx.asarray(a)
    refuse("np.quantile", {
        "out=": out is not None, "overwrite_input=True": overwrite_input, f"method={method!r}": method != "linear",
        "a q that is an array or a NumPy scalar": isinstance(q, (ArrayValue, numpy.generic)),
        f"an array of {array.dtype}": array.dtype.kind in "bc" or array.dtype == numpy.float16,
        f"several q and an array of {array.dtype}":
            isinstance(q, (list, tuple)) and array.dtype.kind == "f" and array.dtype != FLOAT,
    })
    wanted = [float(one) for one in (q if isinstance(q, (list, tuple)) else (q,))]
    if not all(0 <= one <= 1 for one in wanted):
        raise GraphBreak("np.quantile outside of [0, 1]")
    rows, dims = _rows(ctx, array, axis)
    count = int(rows.shape[-1])
    if not count:
        raise GraphBreak("np.quantile of nothing")
    rows = _with_sorted(ctx, rows, [place for one in wanted for place in _beside(one * (count - 1), count)])
    missing = torch.isnan(rows[..., -1])
    quantiles = [torch.where(missing, math.nan, _at(rows, one * (count - 1))) for one in wanted]
    if not isinstance(q, (list, tuple)):
        return _placed(ctx, array, laid_out(quantiles[0], range(quantiles[0].ndim)), dims, keepdims)
    return _placed(ctx, array, torch.stack(quantiles), dims, keepdims, leading=1)


@function(numpy.percentile)
def percentile(ctx: Context, a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
               method: str = "linear", keepdims: Any = NO_VALUE) -> Any:
    if isinstance(q, ArrayValue):
        raise GraphBreak("np.percentile with an array of percentages")
    part = [one / 100 for one in q] if isinstance(q, (list, tuple)) else q / 100
    return quantile(ctx, a, part, axis, out, overwrite_input, method, keepdims)


# Sets


def _flat(ctx: Context, a: Any) -> ArrayValue:
    array = ctx.asarray(a)
    if array.dtype.kind == "c":
        raise GraphBreak("sets of complex numbers")
    return ctx.array(ctx.tensor(array).reshape(-1))


@function(numpy.unique)
def unique(ctx: Context, ar: Any, return_index: bool = False, return_inverse: bool = False,
           return_counts: bool = False, axis: Any = None, *, equal_nan: bool = True, sorted: bool = True) -> Any:
    array = _flat(ctx, ar)
    refuse("np.unique", {f"axis={axis!r}": axis is not None, "return_index=True": return_index,
                         "sorted=False": not sorted, "equal_nan=False": array.dtype.kind == "f" and not equal_nan})
    traced = ctx.tensor(array)
    if not return_inverse and not return_counts:
        values = record(ctx.tx, torch.unique, (traced,), {})
        if array.dtype.kind == "f":  # of which NumPy keeps one NaN
            missing = torch.isnan(values)
            values = values[~missing | (torch.cumsum(missing, 0) == 1)]
        return ctx.array(values)
    if array.dtype.kind == "f":
        raise GraphBreak("np.unique of floats with counts or places, of which NaN may be one")
    values, inverse, counts = record(ctx.tx, torch.unique, (traced,), {"return_inverse": True, "return_counts": True})
    results = [ctx.array(values)]
    if return_inverse:
        results.append(ctx.array(inverse.reshape(ctx.asarray(ar).shape)))
    if return_counts:
        results.append(ctx.array(counts))
    return tuple(results)


@function(numpy.union1d)
def union1d(ctx: Context, ar1: Any, ar2: Any) -> Any:
    return unique(ctx, ctx.call(numpy.concatenate, [_flat(ctx, ar1), _flat(ctx, ar2)]))


@function(numpy.intersect1d)
def intersect1d(ctx: Context, ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    if return_indices:
        raise GraphBreak("np.intersect1d with indices")
    one, two = unique(ctx, ar1), _flat(ctx, ar2)
    kind = result_type(one, two)
    first = ctx.cast_to(one, kind)
    return ctx.array(first[ctx.isin(first, ctx.cast_to(two, kind))])


@function(numpy.setdiff1d)
def setdiff1d(ctx: Context, ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    one, two = unique(ctx, ar1), _flat(ctx, ar2)
    kind = result_type(one, two)
    return ctx.array(ctx.tensor(one)[~ctx.isin(ctx.cast_to(one, kind), ctx.cast_to(two, kind))])


@function(numpy.setxor1d)
def setxor1d(ctx: Context, ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    one, two = setdiff1d(ctx, ar1, ar2), setdiff1d(ctx, ar2, ar1)
    return ctx.call(numpy.sort, ctx.call(numpy.concatenate, [one, two]))
