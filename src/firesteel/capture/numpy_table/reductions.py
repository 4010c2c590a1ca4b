"""Reductions and running totals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import torch

from ..signals import GraphBreak
from ..values.arrays import ArrayValue
from .context import Context, count_of
from .dtypes import FLOAT, INT, NUMPY, WIDE, dtype_argument
from .layouts import as_numpy_lays_out, copied_order, in_order, laid_out
from .registry import function, method, refuse
from .traced import Tensor
from .ufunc_calls import call_ufunc

NO_VALUE = numpy._NoValue


def _both(*functions: Any) -> Callable[[Any], Any]:
    """Registers a function of the table for functions of NumPy's and the method of the same name."""
    def add(made: Any) -> Any:
        method(functions[0].__name__)(made)
        return function(*functions)(made)

    return add


def _keeps(keepdims: Any) -> bool:
    return False if keepdims is NO_VALUE else bool(keepdims)


def _reduced(ctx: Context, array: ArrayValue, traced: Tensor, axis: Any, keepdims: bool, out: Any = None,
             like: Any = numpy.sum) -> Any:
    """The result of a reduction as NumPy gives it: a scalar without dimensions, in the order of the operand with."""
    if isinstance(axis, list):
        raise GraphBreak("a reduction with a list as axis=, which NumPy refuses")
    if out is not None:
        return ctx.write_result(out, traced)
    dims: Any = axis if axis is None or isinstance(axis, int) else tuple(axis)
    traced = as_numpy_lays_out(
        traced, array, lambda small: numpy.asarray(like(small, axis=dims, keepdims=keepdims)))
    return ctx.array(traced, traced.ndim == 0)


def _sum_dtype(array: ArrayValue, dtype: Any) -> Any:
    """Sums and products of small integers are computed in the platform's integers."""
    if dtype is not None:
        return dtype_argument(dtype)
    if array.dtype.kind in "bi" and array.dtype.itemsize < 8:
        return INT
    if array.dtype.kind == "u" and array.dtype.itemsize < 8:
        return numpy.dtype(numpy.uint64)
    return array.dtype


def _summed(ctx: Context, array: ArrayValue, dtype: Any, where: Any, neutral: Any) -> Tensor:
    """The operand of a sum, in the dtype that it is computed in, with what does not count replaced."""
    # All short integers are numbers of the signed ones that unsigned ones are computed in.
    short = array.dtype.kind in "bu" and array.dtype.itemsize < 8 and dtype == numpy.uint64
    traced = ctx.cast_to(array, INT if short else dtype)
    if where is not NO_VALUE and where is not True:
        traced = torch.where(ctx.tensor(ctx.asarray(where)), traced, neutral)
    wide = WIDE.get(traced.dtype)
    return traced if wide is None else traced.to(wide)


@_both(numpy.sum)
def sum_(ctx: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
         initial: Any = NO_VALUE, where: Any = NO_VALUE) -> Any:
    array = ctx.asarray(a)
    kind = _sum_dtype(array, dtype)
    traced = _summed(ctx, array, kind, where, 0)
    computed = traced.sum(dim=list(ctx.axes(axis, array.ndim)), keepdim=_keeps(keepdims), dtype=traced.dtype) \
        if array.ndim else traced.clone()
    if initial is not NO_VALUE:
        computed = computed + ctx.cast(ctx.cast_to(initial, kind), NUMPY[computed.dtype])
    return _reduced(ctx, array, ctx.cast(computed, kind), axis, _keeps(keepdims), out)


@_both(numpy.prod)
def prod(ctx: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
         initial: Any = NO_VALUE, where: Any = NO_VALUE) -> Any:
    array = ctx.asarray(a)
    kind = _sum_dtype(array, dtype)
    traced = _summed(ctx, array, kind, where, 1)
    dims = ctx.axes(axis, array.ndim)
    for dim in sorted(dims, reverse=True):
        traced = traced.prod(dim, keepdim=_keeps(keepdims), dtype=traced.dtype)
    if initial is not NO_VALUE:
        traced = traced * ctx.cast(ctx.cast_to(initial, kind), NUMPY[traced.dtype])
    return _reduced(ctx, array, ctx.cast(traced, kind), axis, _keeps(keepdims), out)


def _mean_dtype(array: ArrayValue, dtype: Any) -> tuple[Any, Any]:
    """The dtype that a mean is computed in, and that of its result."""
    if dtype is not None:
        return dtype_argument(dtype), dtype_argument(dtype)
    if array.dtype.kind in "biu":
        return FLOAT, FLOAT
    if array.dtype == numpy.float16:
        return numpy.dtype(numpy.float32), array.dtype
    return array.dtype, array.dtype


def _count(array: ArrayValue, dims: Any) -> Any:
    return count_of([array.shape[dim] for dim in dims])


@_both(numpy.mean)
def mean(ctx: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
         *, where: Any = NO_VALUE) -> Any:
    array = ctx.asarray(a)
    kind, wanted = _mean_dtype(array, dtype)
    dims = ctx.axes(axis, array.ndim)
    traced = _summed(ctx, array, kind, where, 0)
    total = traced.sum(dim=list(dims), keepdim=_keeps(keepdims)) if array.ndim else traced.clone()
    if where is not NO_VALUE and where is not True:
        mask = ctx.tensor(ctx.asarray(where)).expand(array.shape)
        count = mask.sum(dim=list(dims), keepdim=_keeps(keepdims)) if array.ndim else mask.to(torch.int64)
        computed = total / count.to(traced.dtype)
    else:
        computed = total / _count(array, dims)
    # from single to half precision, NumPy makes the result anew
    return _reduced(ctx, array, ctx.cast(computed, wanted), axis, _keeps(keepdims), out, like=lambda small, **along:
                    numpy.mean(small.astype(wanted), **along) if kind != wanted else numpy.sum(small, **along))


@_both(numpy.var)
def var(ctx: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
        keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE, mean: Any = NO_VALUE, correction: Any = NO_VALUE) -> Any:
    array = ctx.asarray(a)
    if where is not NO_VALUE or mean is not NO_VALUE:
        raise GraphBreak("np.var with where= or mean=")
    kind, wanted = _mean_dtype(array, dtype)
    if dtype is None and array.dtype == numpy.float16:  # which only means are computed in another dtype for
        kind = array.dtype
    dims = list(ctx.axes(axis, array.ndim))
    traced = ctx.cast_to(array, kind)
    freedom = ddof if correction is NO_VALUE else correction
    count = _count(array, dims)
    if array.ndim:
        centered = traced - traced.sum(dim=dims, keepdim=True) / count
    else:
        centered = traced - traced
    if traced.dtype.is_complex:
        squares = centered.real * centered.real + centered.imag * centered.imag
        wanted = numpy.dtype(wanted.char.lower())
    else:
        squares = centered * centered
    total = squares.sum(dim=dims, keepdim=_keeps(keepdims)) if array.ndim else squares
    free = count - freedom
    computed = total / (free if free > 0 else 0)
    return _reduced(ctx, array, ctx.cast(computed, wanted), axis, _keeps(keepdims), out)


@_both(numpy.std)
def std(ctx: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
        keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE, mean: Any = NO_VALUE, correction: Any = NO_VALUE) -> Any:
    squared = var(ctx, a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    return call_ufunc(ctx, numpy.sqrt, squared, out=squared if out is None and not squared.scalar else out)


def _extreme(name: str) -> Callable[..., Any]:
    torch_function = torch.amax if name == "max" else torch.amin
    pairwise: Any = torch.maximum if name == "max" else torch.minimum

    def extreme(ctx: Context, a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
                initial: Any = NO_VALUE, where: Any = NO_VALUE) -> Any:
        array = ctx.asarray(a)
        if array.dtype.kind == "c":
            raise GraphBreak(f"np.{name} of complex numbers")
        dims = list(ctx.axes(axis, array.ndim))
        traced = ctx.tensor(array)
        if where is not NO_VALUE and where is not True:
            if initial is NO_VALUE:
                raise GraphBreak(f"np.{name} with where= and without initial=")
            traced = torch.where(ctx.tensor(ctx.asarray(where)), traced, ctx.cast_to(initial, array.dtype))
        computed: Any = torch_function(traced, dims, _keeps(keepdims)) if array.ndim else traced.clone()
        if initial is not NO_VALUE:
            computed = pairwise(computed, ctx.cast_to(initial, array.dtype))
        return _reduced(ctx, array, computed, axis, _keeps(keepdims), out)

    return extreme


method("max")(function(numpy.max, *({numpy.amax} - {numpy.max}))(_extreme("max")))
method("min")(function(numpy.min, *({numpy.amin} - {numpy.min}))(_extreme("min")))


def _truth(name: str) -> Callable[..., Any]:
    torch_function = torch.all if name == "all" else torch.any

    def truth(ctx: Context, a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
              *, where: Any = NO_VALUE) -> Any:
        array = ctx.asarray(a)
        traced = ctx.tensor(array)
        if traced.dtype is not torch.bool:
            traced = traced != 0
        if where is not NO_VALUE and where is not True:
            mask = ctx.tensor(ctx.asarray(where))
            traced = traced | ~mask if name == "all" else traced & mask
        for dim in sorted(ctx.axes(axis, array.ndim), reverse=True):
            traced = torch_function(traced, dim, keepdim=_keeps(keepdims))
        return _reduced(ctx, array, traced, axis, _keeps(keepdims), out)

    return truth


method("all")(function(numpy.all)(_truth("all")))
method("any")(function(numpy.any)(_truth("any")))


def _arg_extreme(name: str) -> Callable[..., Any]:
    torch_function: Any = getattr(torch, name)

    def arg_extreme(ctx: Context, a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Any:
        array = ctx.asarray(a)
        refuse(f"np.{name}", {f"an array of {array.dtype}": array.dtype.kind == "c", "out=": out is not None})
        traced = ctx.tensor(array)
        if traced.dtype is torch.bool:
            traced = traced.to(torch.uint8)
        if axis is None:
            computed = torch_function(traced.reshape(-1), 0)
            if _keeps(keepdims):
                computed = computed.reshape((1,) * array.ndim)
        else:
            computed = torch_function(traced, ctx.axis(axis, array.ndim), keepdim=_keeps(keepdims))
        return ctx.array_or_scalar(computed.contiguous() if computed.ndim else computed)

    return arg_extreme


method("argmax")(function(numpy.argmax)(_arg_extreme("argmax")))
method("argmin")(function(numpy.argmin)(_arg_extreme("argmin")))


@_both(numpy.ptp)
def ptp(ctx: Context, a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE) -> Any:
    largest = ctx.call(numpy.max, a, axis, None, keepdims)
    return call_ufunc(ctx, numpy.subtract, largest, ctx.call(numpy.min, a, axis, None, keepdims), out=out)


@function(numpy.count_nonzero)
def count_nonzero(ctx: Context, a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    array = ctx.asarray(a)
    traced = ctx.tensor(array)
    truths = traced if traced.dtype is torch.bool else traced != 0
    counted = truths.to(torch.int64)
    counted = counted.sum(dim=list(ctx.axes(axis, array.ndim)), keepdim=_keeps(keepdims)) if array.ndim else counted
    if axis is None and not _keeps(keepdims):
        return ctx.scalar(counted)
    return _reduced(ctx, array, counted, axis, _keeps(keepdims))


def _running(name: str) -> Callable[..., Any]:
    torch_function: Any = getattr(torch, name)

    def running(ctx: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        array = ctx.asarray(a)
        kind = _sum_dtype(array, dtype)
        traced = ctx.cast_to(array, kind)
        wide = WIDE.get(traced.dtype)
        if wide is not None:
            traced = traced.to(wide)
        if axis is None or not array.ndim:
            traced, axis = traced.reshape(-1), 0
        dim = ctx.axis(axis, traced.ndim)
        computed = ctx.cast(torch_function(traced, dim), kind)
        if out is not None:
            return ctx.write_result(out, computed)
        return ctx.array(as_numpy_lays_out(computed, array, lambda small: numpy.cumsum(small, axis=dim)))

    return running


method("cumsum")(function(numpy.cumsum)(_running("cumsum")))
method("cumprod")(function(numpy.cumprod)(_running("cumprod")))


# Without NaN


def _without_nan(name: str, neutral: Any) -> None:
    def reduction(ctx: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
                  keepdims: Any = NO_VALUE) -> Any:
        array = ctx.asarray(a)
        if array.dtype.kind in "fc":
            traced = ctx.tensor(array)
            replaced = torch.where(torch.isnan(traced), neutral, traced)
            array = ctx.array(laid_out(replaced, copied_order(array.tensor.fake, array.flipped)))
        return ctx.call(getattr(numpy, name), array, axis, dtype, out, keepdims)

    function(getattr(numpy, f"nan{name}"))(reduction)


_without_nan("sum", 0.0)
_without_nan("prod", 1.0)


def _nan_extreme(name: str) -> None:
    def extreme(ctx: Context, a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE) -> Any:
        array = ctx.asarray(a)
        if array.dtype.kind != "f":
            return ctx.call(getattr(numpy, name), array, axis, out, keepdims)
        traced = ctx.tensor(array)
        missing = torch.isnan(traced)
        limit = -numpy.inf if name == "max" else numpy.inf
        known: Any = ctx.call(getattr(numpy, name), ctx.array(torch.where(missing, limit, traced)), axis, None,
                              keepdims)
        empty: Any = ctx.call(numpy.all, ctx.array(missing), axis, None, keepdims)
        filled: Any = torch.where(ctx.tensor(empty), numpy.nan, ctx.tensor(known))
        return _reduced(ctx, array, filled, axis, _keeps(keepdims), out)

    function(getattr(numpy, f"nan{name}"))(extreme)


_nan_extreme("max")
_nan_extreme("min")


@function(numpy.nanmean)
def nanmean(ctx: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
            keepdims: Any = NO_VALUE) -> Any:
    array = ctx.asarray(a)
    if array.dtype.kind not in "fc":
        return mean(ctx, array, axis, dtype, out, keepdims)
    known = call_ufunc(ctx, numpy.logical_not, call_ufunc(ctx, numpy.isnan, array))
    order = copied_order(array.tensor.fake, array.flipped)
    if order != list(range(array.ndim)) or array.flipped:
        array = ctx.array(in_order(ctx.tensor(array), order, always=True))
    return mean(ctx, array, axis, array.dtype if dtype is None else dtype, out, keepdims, where=known)


@function(numpy.nanvar)
def nanvar(ctx: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
           keepdims: Any = NO_VALUE) -> Any:
    array = ctx.asarray(a)
    if array.dtype.kind not in "fc":
        return var(ctx, array, axis, dtype, out, ddof, keepdims)
    refuse("np.nanvar", {"dtype=": dtype is not None})
    dims = list(ctx.axes(axis, array.ndim))
    traced = ctx.tensor(array)
    known = ~torch.isnan(traced)
    count: Any = known.to(traced.real.dtype if traced.dtype.is_complex else traced.dtype).sum(dim=dims, keepdim=True)
    zeroed: Any = torch.where(known, traced, 0.0)
    centered: Any = torch.where(known, zeroed - zeroed.sum(dim=dims, keepdim=True) / count, 0.0)
    squares = centered.real * centered.real + centered.imag * centered.imag if traced.dtype.is_complex else \
        centered * centered
    total = squares.sum(dim=dims, keepdim=_keeps(keepdims))
    free = count.sum(dim=dims, keepdim=_keeps(keepdims)) - ddof
    computed: Any = torch.where(free <= 0, numpy.nan, total / free)
    return _reduced(ctx, array, computed, axis, _keeps(keepdims), out, like=numpy.nanvar)


@function(numpy.nanstd)
def nanstd(ctx: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
           keepdims: Any = NO_VALUE) -> Any:
    squared = nanvar(ctx, a, axis, dtype, None, ddof, keepdims)
    return call_ufunc(ctx, numpy.sqrt, squared, out=squared if out is None and not squared.scalar else out)

