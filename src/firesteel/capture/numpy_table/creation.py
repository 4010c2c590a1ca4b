"""Making arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy
import torch
from numpy.lib.array_utils import normalize_axis_index

from ..signals import GraphBreak
from ..values.arrays import ArrayValue
from .context import Context
from .dtypes import FLOAT, check_fits, descriptor, dtype_argument, is_number, result_type, torch_dtype
from .layouts import (
    asked_order,
    in_order,
    is_by_columns,
    is_by_rows,
    is_column_ordered,
    laid_out,
    lies_in,
    order_argument,
)
from .registry import function, method, refuse
from .traced import Tensor, Traced, record
from .ufunc_calls import call_ufunc


def _in_order(ctx: Context, traced: Tensor, order: Any) -> ArrayValue:
    letter = order_argument(order, "C")
    if letter == "F":
        return ctx.array(laid_out(traced, reversed(range(traced.ndim))))
    if letter != "C":
        raise GraphBreak(f"order={order!r} of a new array")
    return ctx.array(traced)


@function(numpy.zeros, numpy.empty)
def zeros(ctx: Context, shape: Any, dtype: Any = float, order: Any = "C") -> Any:
    kind = dtype_argument(dtype, FLOAT)
    return _in_order(ctx, ctx.make(torch.zeros, ctx.shape(shape), dtype=torch_dtype(kind)), order)


@function(numpy.ones)
def ones(ctx: Context, shape: Any, dtype: Any = None, order: Any = "C") -> Any:
    kind = dtype_argument(dtype, FLOAT)
    return _in_order(ctx, ctx.make(torch.ones, ctx.shape(shape), dtype=torch_dtype(kind)), order)


def _window(window: Any) -> None:
    def fixed(ctx: Context, M: Any) -> Any:  # noqa: N803 - NumPy's own name
        if type(M) is not int:
            raise GraphBreak(f"np.{window.__name__} of a length that is not known while capturing")
        return ctx.array(ctx.make(torch.tensor, window(M).tolist(), dtype=torch.float64))

    function(window)(fixed)


for _name in (numpy.bartlett, numpy.blackman, numpy.hamming, numpy.hanning):
    _window(_name)


@function(numpy.full)
def full(ctx: Context, shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C") -> Any:
    value = fill_value if is_number(fill_value) or isinstance(fill_value, numpy.generic) else ctx.asarray(fill_value)
    kind = dtype_argument(dtype) or (value.dtype if not is_number(value) else result_type(value))
    if isinstance(value, ArrayValue):
        filled = ctx.make(torch.empty, ctx.shape(shape), dtype=torch_dtype(kind))
        filled.copy_(ctx.cast_to(value, kind))
        return _in_order(ctx, filled, order)
    if kind.kind in "iu" and isinstance(value, (float, numpy.floating)):
        value = int(value)
    return _in_order(ctx, ctx.full(ctx.shape(shape), value, kind), order)


def _like(ctx: Context, a: Any, value: Any, dtype: Any, order: Any, shape: Any) -> Any:
    array = ctx.asarray(a)
    kind = dtype_argument(dtype, array.dtype)
    sizes = array.shape if shape is None else ctx.shape(shape)
    filled: Any = full(ctx, sizes, value, kind)
    letter = order_argument(order, "K")
    if len(sizes) == array.ndim:
        layout = asked_order(array, letter)
    else:  # NumPy keeps no order of other dimensions
        layout = asked_order(filled, "F" if letter == "A" and is_by_columns(array) else letter)
    if lies_in(filled.tensor.fake, layout):
        return filled
    return ctx.array(in_order(ctx.tensor(filled), layout, always=True))


@function(numpy.zeros_like, numpy.empty_like)
def zeros_like(ctx: Context, a: Any, dtype: Any = None, order: Any = "K", subok: bool = True,
               shape: Any = None) -> Any:
    return _like(ctx, a, 0, dtype, order, shape)


@function(numpy.ones_like)
def ones_like(ctx: Context, a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None) -> Any:
    return _like(ctx, a, 1, dtype, order, shape)


@function(numpy.full_like)
def full_like(ctx: Context, a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: bool = True,
              shape: Any = None) -> Any:
    return _like(ctx, a, fill_value, dtype, order, shape)


@function(numpy.eye)
def eye(ctx: Context, N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> Any:  # noqa: N803
    kind = dtype_argument(dtype, FLOAT)
    rows, columns = ctx.shape((N, N if M is None else M))
    offset = ctx.integer(k)
    if offset == 0:
        return ctx.array(ctx.make(torch.eye, rows, columns, dtype=torch_dtype(kind)))
    one = ctx.make(torch.arange, rows).reshape((rows, 1)) + offset == ctx.make(torch.arange, columns)
    return ctx.array(one, dtype=kind)


@function(numpy.identity)
def identity(ctx: Context, n: Any, dtype: Any = None) -> Any:
    return eye(ctx, n, dtype=dtype if dtype is not None else float)


@function(numpy.arange)
def arange(ctx: Context, *given: Any, dtype: Any = None, **named: Any) -> Any:
    args = list(given[:3])
    if len(given) == 4:
        dtype = given[3]
    start, stop, step = named.get("start"), named.get("stop"), named.get("step")
    if len(args) == 1 and start is None and stop is None:
        start, stop = 0, args[0]
    elif args:
        start, stop, step = (*args, stop, step)[0], (*args, stop, step)[1], (*args, None, step)[2]
    if start is None:
        start = 0
    numbers = [start, stop] + ([step] if step is not None else [])
    if any(isinstance(number, ArrayValue) for number in numbers) or stop is None:
        raise GraphBreak("np.arange with bounds that data decides on")
    kind = dtype_argument(dtype) or result_type(*numbers)
    step = 1 if step is None else step
    if kind.kind in "iu" and all(isinstance(number, (int, torch.SymInt, numpy.integer)) for number in numbers):
        plain = [int(number) if isinstance(number, numpy.integer) else number for number in (start, stop, step)]
        for number in (start, start + step):
            check_fits(number, kind)
        return ctx.array(ctx.make(torch.arange, *plain, dtype=torch_dtype(kind)))
    first, last, stride = (float(number) for number in (start, stop, step))
    if kind.kind != "f":
        raise GraphBreak(f"np.arange of {kind}")
    count = max(math.ceil((last - first) / stride), 0)
    # NumPy computes the second element, and every other one from the difference of the first two
    with numpy.errstate(all="ignore"):
        delta = kind.type(first + stride) - kind.type(first)
    if not numpy.isfinite(delta):
        raise GraphBreak(f"np.arange of numbers that {kind} does not have")
    places = ctx.make(torch.arange, count, dtype=torch_dtype(kind))
    return ctx.array(places * float(delta) + float(kind.type(first)))


@function(numpy.linspace)
def linspace(ctx: Context, start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False,
             dtype: Any = None, axis: Any = 0) -> Any:
    count = ctx.integer(num)
    refuse("np.linspace", {
        "a bound that is an array": any(isinstance(bound, ArrayValue) for bound in (start, stop)),
        "retstep=": retstep, "num=0": not count, f"axis={axis!r}": ctx.integer(axis),
    })
    first, last = (float(bound) for bound in (start, stop))
    kind = result_type(start, stop, FLOAT)
    parts = count - 1 if endpoint else count
    step = (last - first) / parts if parts > 0 else math.nan
    places = ctx.make(torch.arange, count, dtype=torch_dtype(kind))
    if parts <= 0:
        values = places * (last - first) + first
    elif step == 0:
        values = places / parts * (last - first) + first
    else:
        values = places * step + first
    if endpoint and count > 1:
        values = torch.where(places == count - 1, last, values)
    wanted = dtype_argument(dtype, kind)
    if wanted.kind in "iu":
        values = torch.floor(values)
    return ctx.array(values, dtype=wanted)


@function(numpy.logspace)
def logspace(ctx: Context, start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0,
             dtype: Any = None, axis: Any = 0) -> Any:
    powers = linspace(ctx, start, stop, num, endpoint, axis=axis)
    result = call_ufunc(ctx, numpy.power, base, powers)
    return result if dtype is None else ctx.array(ctx.cast_to(result, dtype_argument(dtype)))


@function(numpy.array)
def array(ctx: Context, obj: Any, dtype: Any = None, *, copy: Any = True, order: Any = "K", subok: bool = False,
          ndmin: Any = 0) -> Any:
    if isinstance(obj, Traced):
        if copy is False:
            raise GraphBreak("np.array of a tensor with copy=False, which tensors refuse")
        obj = _of_tensor(ctx, obj)
    result = _ordered_array(ctx, obj, dtype, order_argument(order, "K"), copy is True)
    if copy is False and result is not obj:
        raise GraphBreak("np.array with copy=False of what has to be copied")
    if result.ndim < ctx.integer(ndmin):
        if not is_by_rows(result):
            raise GraphBreak("np.array with ndmin= of an array that does not lie in memory by rows")
        result = ctx.array(ctx.tensor(result).reshape((*(1,) * (ndmin - result.ndim), *result.shape)))
    return result


def _ordered_array(ctx: Context, obj: Any, dtype: Any, order: str, copy: bool) -> ArrayValue:
    """What ``np.array`` makes of something: an array of that dtype and order itself, where it need not be copied."""
    array = ctx.asarray(obj, dtype)
    if array is obj and array.scalar:
        return _copied(ctx, array, "C")
    if array is obj:
        suits = order in "KA" or (is_by_rows(array) if order == "C" else is_column_ordered(array))
        return array if suits and not copy else _copied(ctx, array, order)
    if order in "KA":  # a conversion keeps the order in either case
        return _copied(ctx, array, "K") if array.scalar else array
    layout = asked_order(array, order)
    return array if lies_in(array.tensor.fake, layout) and not array.scalar else _copied(ctx, array, order)


@function(numpy.ascontiguousarray)
def contiguous_array(ctx: Context, a: Any, dtype: Any = None) -> Any:
    array: ArrayValue = asarray(ctx, a, dtype)
    if not array.ndim:
        return ctx.call(numpy.atleast_1d, array)
    return array if is_by_rows(array) else _copied(ctx, array, "C")


@function(numpy.asfortranarray)
def fortran_array(ctx: Context, a: Any, dtype: Any = None) -> Any:
    array: ArrayValue = asarray(ctx, a, dtype, "F")
    return array if array.ndim else ctx.call(numpy.atleast_1d, array)


@function(numpy.asarray, numpy.asanyarray)
def asarray(ctx: Context, a: Any, dtype: Any = None, order: Any = None) -> Any:
    if isinstance(a, Traced):
        a = _of_tensor(ctx, a)
    return _ordered_array(ctx, a, dtype, order_argument(order, "K"), False)


def _of_tensor(ctx: Context, tensor: Tensor) -> ArrayValue:
    return ctx.tx.arrays.of_tensor(ctx.tx, tensor.value)


def _copied(ctx: Context, array: ArrayValue, order: Any) -> ArrayValue:
    """A copy that lies in memory as ``order`` asks, one of NumPy's letters."""
    return ctx.array(in_order(ctx.tensor(array), asked_order(array, order), always=True))


@function(numpy.copy)
def copy(ctx: Context, a: Any, order: Any = "K", subok: bool = False) -> Any:
    return _copied(ctx, ctx.asarray(a), order_argument(order, "K"))


@method("copy")
def copy_method(ctx: Context, a: ArrayValue, order: Any = "C") -> Any:
    if a.scalar:
        return a
    return _copied(ctx, a, order_argument(order, "C"))


@method("__copy__")
def copy_of(ctx: Context, a: ArrayValue) -> Any:
    return a if a.scalar else _copied(ctx, a, "K")


@method("__deepcopy__")
def deep_copy(ctx: Context, a: ArrayValue, memo: Any = None) -> Any:
    return copy_of(ctx, a)


@method("astype")
def astype(ctx: Context, a: ArrayValue, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True,
           copy: bool = True) -> Any:
    kind = dtype_argument(dtype)
    if not numpy.can_cast(a.dtype, kind, casting):
        raise GraphBreak(f"astype from {a.dtype} to {kind}")
    letter = order_argument(order, "K")
    if a.scalar:
        return a if kind == a.dtype and not copy else ctx.scalar(ctx.cast_to(a, kind))
    if kind == a.dtype:
        by_rows, by_columns = is_by_rows(a), is_column_ordered(a)
        suits = {"K": True, "A": by_rows or by_columns, "C": by_rows, "F": by_columns}
        return a if suits[letter] and not copy else _copied(ctx, a, letter)
    return ctx.array(laid_out(ctx.cast_to(a, kind), asked_order(a, letter)))


@method("fill")
def fill(ctx: Context, a: ArrayValue, value: Any) -> None:
    if isinstance(value, (list, tuple, range)) or isinstance(value, ArrayValue) and value.ndim:
        raise GraphBreak("fill of a NumPy array with a sequence, which NumPy refuses")
    ctx.check_element(value, a.dtype)
    ctx.write(a, ctx.cast_to(value, a.dtype))


@function(numpy.meshgrid)
def meshgrid(ctx: Context, *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    arrays = [ctx.tensor(ctx.asarray(one)).reshape(-1) for one in xi]
    count = len(arrays)
    if not copy or indexing not in ("xy", "ij"):
        raise GraphBreak(f"np.meshgrid without copies, or with indexing={indexing!r}")
    order = list(range(count))
    if indexing == "xy" and count > 1:
        order[:2] = [1, 0]
    sizes = [arrays[at].shape[0] for at in order]
    grids = []
    for position, one in enumerate(arrays):
        shape = [1] * count
        shape[order.index(position)] = one.shape[0]
        placed = one.reshape(shape)
        grids.append(ctx.array((placed if sparse else placed.expand(sizes)).clone(
            memory_format=torch.contiguous_format)))
    return tuple(grids)


@function(numpy.indices)
def indices(ctx: Context, dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    sizes = ctx.shape(dimensions)
    if sparse:
        raise GraphBreak("np.indices with sparse=True")
    grids = meshgrid(ctx, *(arange(ctx, size, dtype=dtype) for size in sizes), indexing="ij")
    return ctx.array(record(ctx.tx, torch.stack, ([ctx.tensor(grid) for grid in grids],), {}))


@function(numpy.tri)
def tri(ctx: Context, N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> Any:  # noqa: N803
    rows, columns = ctx.shape((N, N if M is None else M))
    one = ctx.make(torch.arange, rows).reshape((rows, 1)) + ctx.integer(k) >= ctx.make(torch.arange, columns)
    return ctx.array(one, dtype=dtype_argument(dtype, FLOAT))


@function(numpy.vander)
def vander(ctx: Context, x: Any, N: Any = None, increasing: bool = False) -> Any:  # noqa: N803
    array = ctx.asarray(x)
    if array.ndim != 1:
        raise GraphBreak("np.vander of other arrays than of one dimension, which NumPy refuses")
    kind = numpy.result_type(array.dtype, int)
    count = array.shape[0] if N is None else ctx.integer(N)
    column = ctx.cast_to(array, kind).reshape((-1, 1))
    powers = ctx.make(torch.arange, count, dtype=torch_dtype(kind))
    columns = torch.pow(column, powers)
    return ctx.array(columns if increasing else columns.flip(1))


@function(numpy.diag)
def diag(ctx: Context, v: Any, k: Any = 0) -> Any:
    array = ctx.asarray(v)
    if array.ndim == 1:
        return ctx.array(record(ctx.tx, torch.diag, (ctx.tensor(array), ctx.integer(k)), {}))
    if array.ndim != 2:
        raise GraphBreak("np.diag of other arrays than of one or two dimensions, which NumPy refuses")
    return ctx.call(numpy.diagonal, array, k)


@function(numpy.diagflat)
def diagflat(ctx: Context, v: Any, k: Any = 0) -> Any:
    flat = ctx.tensor(ctx.asarray(v)).reshape(-1)
    return ctx.array(record(ctx.tx, torch.diag, (flat, ctx.integer(k)), {}))


@function(numpy.result_type)
def result_dtype(ctx: Context, *operands: Any) -> Any:
    parts = [numpy.dtype(one) if isinstance(one, (type, str)) else one for one in operands]
    return result_type(*parts)


# What is known of an array without looking at its elements.
function(numpy.shape)(lambda ctx, a: ctx.asarray(a).shape)
function(numpy.ndim)(lambda ctx, a: ctx.asarray(a).ndim)
function(numpy.iscomplexobj)(lambda ctx, x: ctx.asarray(x).dtype.kind == "c")
function(numpy.isrealobj)(lambda ctx, x: ctx.asarray(x).dtype.kind != "c")


@function(numpy.size)
def size_of(ctx: Context, a: Any, axis: Any = None) -> Any:
    array = ctx.asarray(a)
    return math.prod(array.shape) if axis is None else array.shape[ctx.axis(axis, array.ndim)]


@function(numpy.can_cast)
def can_cast(ctx: Context, from_: Any, to: Any, casting: Any = "safe") -> Any:
    return numpy.can_cast(descriptor(from_) if isinstance(from_, ArrayValue) else from_, to, casting)



@function(normalize_axis_index)
def normalized_axis(ctx: Context, axis: Any, ndim: Any, msg_prefix: Any = None) -> Any:
    return ctx.axis(axis, ctx.integer(ndim))
