"""Choosing elements: where, select, clip, take, choose, and what sets some of them."""

from __future__ import annotations

import math
from typing import Any

import numpy
import torch

from ..signals import GraphBreak
from ..undecidable import SYMBOLIC
from ..values.arrays import ArrayValue
from .context import Context
from .dtypes import BOOL, INT, is_number, result_type, rounded
from .host_operators import operator
from .indexing import ATEN_INDEX, get_item, set_item
from .layouts import as_numpy_lays_out, copied_order, in_order, laid_out, lies_in, rows_or_columns
from .registry import function, method, refuse
from .traced import Tensor, record
from .ufunc_calls import call_ufunc, ordered

NO_VALUE = numpy._NoValue


def truths(ctx: Context, array: ArrayValue) -> Tensor:
    """Which elements are not zero."""
    traced = ctx.tensor(array)
    return traced if traced.dtype is torch.bool else traced != 0


@function(numpy.where)
def where(ctx: Context, condition: Any, x: Any = NO_VALUE, y: Any = NO_VALUE) -> Any:
    mask = ctx.asarray(condition)
    if x is NO_VALUE and y is NO_VALUE:
        return nonzero(ctx, mask)
    sides = [one if is_number(one) or isinstance(one, numpy.generic) else ctx.asarray(one) for one in (x, y)]
    kind = result_type(*sides)
    chosen = torch.where(truths(ctx, mask), ctx.cast_to(sides[0], kind), ctx.cast_to(sides[1], kind))
    return ctx.array(ordered(ctx, chosen, [mask, *sides]))


@function(numpy.nonzero)
def nonzero(ctx: Context, a: Any) -> Any:
    array = ctx.asarray(a)
    if array.ndim == 0:
        raise GraphBreak("np.nonzero of an array without dimensions")
    # NumPy gives the columns
    places = ctx.rows(record(ctx.tx, "nonzero", (ctx.tensor(array),), {}))
    return tuple(get_item(ctx, places, (slice(None), dim)) for dim in range(array.ndim))


@function(numpy.argwhere)
def argwhere(ctx: Context, a: Any) -> Any:
    return ctx.array(in_order(record(ctx.tx, "nonzero", (ctx.tensor(ctx.asarray(a)),), {}), [1, 0]))


@function(numpy.flatnonzero)
def flatnonzero(ctx: Context, a: Any) -> Any:
    return nonzero(ctx, ctx.array(ctx.tensor(ctx.asarray(a)).reshape(-1)))[0]


@function(numpy.clip)
@method("clip")
def clip(ctx: Context, a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None,
         max: Any = None, dtype: Any = None) -> Any:
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    if dtype is not None:
        raise GraphBreak("np.clip with dtype=")
    array = ctx.asarray(a)
    if low is None and high is None:
        return call_ufunc(ctx, numpy.positive, array, out=out)
    bounds = [one if is_number(one) or isinstance(one, numpy.generic) else ctx.asarray(one)
              for one in (low, high) if one is not None]
    kind = result_type(array, *bounds)
    result: Any = ctx.cast_to(array, kind)
    for one, limit in ((low, torch.maximum), (high, torch.minimum)):
        if one is not None:
            side = one if is_number(one) or isinstance(one, numpy.generic) else ctx.asarray(one)
            result = limit(result, ctx.cast_to(side, kind))
    scalar = all(not isinstance(one, ArrayValue) or one.ndim == 0 for one in (array, *bounds))
    if out is not None:
        return ctx.write_result(out, result)
    converted = any(isinstance(one, ArrayValue) and one.dtype != kind for one in (array, *bounds))
    return ctx.array(ordered(ctx, result, [array, *bounds], 0 if converted else 1 + len(bounds)), scalar)


@function(numpy.select)
def select(ctx: Context, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    refuse("np.select", {f"{len(condlist)} conditions and {len(choicelist)} choices":
                         len(condlist) != len(choicelist) or not condlist})
    sides = [one if is_number(one) or isinstance(one, numpy.generic) else ctx.asarray(one)
             for one in (*choicelist, default)]
    kind = result_type(*sides)
    # NumPy makes arrays of numbers before it copies the choices
    refuse("np.select", {f"a choice of {one}, which {kind} does not take": is_number(one) and not numpy.can_cast(
        result_type(one), kind, "same_kind") for one in sides[:-1]})
    masks = [ctx.asarray(one) for one in condlist]
    if any(one.dtype != BOOL for one in masks):
        raise GraphBreak("np.select with conditions that are no truth values")
    result = ctx.cast_to(sides[-1], kind)
    for mask, side in zip(reversed(masks), reversed(sides[:-1]), strict=True):
        result = torch.where(ctx.tensor(mask), ctx.cast_to(side, kind), result)
    return ctx.rows(result)


@function(numpy.choose)
def choose(ctx: Context, a: Any, choices: Any) -> Any:
    if any(map(is_number, choices)):
        raise GraphBreak("np.choose between numbers and arrays")
    index = ctx.asarray(a)
    refuse("np.choose", {f"an array of {index.dtype}": not numpy.can_cast(index.dtype, INT)})
    sides = [ctx.asarray(one) for one in choices]
    kind = result_type(*sides)
    stacked = torch.stack([ctx.cast_to(one, kind).expand(torch.broadcast_shapes(index.shape, *(
        side.shape for side in sides))) for one in sides])
    place = ctx.tensor(index).to(torch.int64).expand(stacked.shape[1:])
    return ctx.array_or_scalar(torch.gather(stacked, 0, place.unsqueeze(0)).squeeze(0))


def _integers(ctx: Context, indices: Any) -> ArrayValue:
    """Indices as NumPy takes them where there are no masks: truth values are 0 and 1."""
    index = ctx.asarray(indices)
    return ctx.array(ctx.cast_to(index, INT), index.scalar) if index.dtype.kind == "b" else index


@function(numpy.take)
def take(ctx: Context, a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    array = ctx.asarray(a)
    refuse("np.take", {f"mode={mode!r}": mode != "raise", "out=": out is not None})
    if axis is None:
        array, axis = ctx.array(ctx.tensor(array).reshape(-1)), 0
    before = (slice(None),) * ctx.axis(axis, array.ndim)
    if is_number(indices) or isinstance(indices, numpy.generic):
        part = get_item(ctx, array, (*before, ctx.integer(int(indices) if isinstance(
            indices, (bool, numpy.bool)) else indices)))
        return part if part.scalar else ctx.rows(ctx.tensor(part))
    index = _integers(ctx, indices)
    part = get_item(ctx, array, (*before, index))
    return part if part.scalar else ctx.rows(ctx.tensor(part))


@function(numpy.take_along_axis)
def take_along_axis(ctx: Context, arr: Any, indices: Any, axis: Any = -1) -> Any:
    array, places = ctx.asarray(arr), ctx.asarray(indices)
    if places.dtype.kind not in "iu":
        raise GraphBreak("np.take_along_axis with other indices than integers")
    if axis is None:
        array, axis = ctx.array(ctx.tensor(array).reshape(-1)), 0
    if places.ndim != array.ndim:
        raise GraphBreak("np.take_along_axis with indices of other dimensions than the array")
    dim = ctx.axis(axis, array.ndim)
    keys = [ctx.make(torch.arange, size, dtype=torch.int64).reshape(
        [-1 if one == at else 1 for one in range(array.ndim)]) for at, size in enumerate(array.shape)]
    keys[dim] = ctx.tensor(places).to(torch.int64)
    return ctx.rows(record(ctx.tx, ATEN_INDEX, (ctx.tensor(array), keys), {}))


@function(numpy.put_along_axis)
def put_along_axis(ctx: Context, arr: Any, indices: Any, values: Any, axis: Any) -> None:
    array = ctx.target(arr)
    if not is_number(values):
        raise GraphBreak("np.put_along_axis of several values, of which the last counts")
    places, dim = ctx.asarray(indices), ctx.axis(axis, array.ndim)
    if places.ndim != array.ndim or places.dtype.kind not in "iu":
        raise GraphBreak("np.put_along_axis with other indices than integers, or of other dimensions than the array")
    index = ctx.tensor(places).to(torch.int64).expand([
        places.shape[dim] if one == dim else size for one, size in enumerate(array.shape)])
    index = torch.where(index < 0, index + array.shape[dim], index)
    side = ctx.cast_to(values, array.dtype).expand(index.shape)
    ctx.write(array, torch.scatter(ctx.tensor(array), dim, index, side))


@function(numpy.compress)
def compress(ctx: Context, condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    array = ctx.asarray(a)
    if axis is None:
        array, axis = ctx.array(ctx.tensor(array).reshape(-1)), 0
    mask = ctx.asarray(condition)
    refuse("np.compress", {"out=": out is not None, f"a condition of {mask.ndim} dimensions": mask.ndim != 1})
    before = (slice(None),) * ctx.axis(axis, array.ndim)
    chosen: ArrayValue = get_item(ctx, array, (*before, ctx.array(truths(ctx, mask))))
    by_rows = lies_in(chosen.tensor.fake, range(chosen.ndim))  # as np.take gives them, unlike subscripts
    return chosen if by_rows else ctx.array(in_order(ctx.tensor(chosen), range(chosen.ndim), always=True))


@function(numpy.extract)
def extract(ctx: Context, condition: Any, arr: Any) -> Any:
    array, mask = ctx.asarray(arr), ctx.asarray(condition)
    return ctx.array(ctx.tensor(array).reshape(-1)[truths(ctx, mask).reshape(-1)])


@function(numpy.putmask)
def putmask(ctx: Context, a: Any, mask: Any, values: Any) -> None:
    array = ctx.target(a)
    given = values if is_number(values) else ctx.asarray(values)
    if not is_number(given) and not numpy.can_cast(given.dtype, array.dtype, "safe"):
        raise GraphBreak(f"np.putmask of {given.dtype} into an array of {array.dtype}, which NumPy refuses")
    side = ctx.cast_to(given, array.dtype)
    if side.ndim and tuple(side.shape) != array.shape:
        raise GraphBreak("np.putmask with values of another shape")
    ctx.write(array, torch.where(truths(ctx, ctx.asarray(mask)), side, ctx.tensor(array)))


@function(numpy.copyto)
def copyto(ctx: Context, dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    array = ctx.target(dst)
    source = src if is_number(src) or isinstance(src, numpy.generic) else ctx.asarray(src)
    fits = result_type(array, source) == array.dtype if is_number(source) else \
        numpy.can_cast(source.dtype, array.dtype, "same_kind")
    if casting != "same_kind" or not fits:
        raise GraphBreak("np.copyto between these dtypes")
    side = ctx.cast_to(source, array.dtype)
    if where is not True:
        side = torch.where(ctx.tensor(ctx.asarray(where)), side, ctx.tensor(array))
    ctx.write(array, side)


@function(numpy.fill_diagonal)
def fill_diagonal(ctx: Context, a: Any, val: Any, wrap: bool = False) -> None:
    array = ctx.target(a)
    refuse("np.fill_diagonal", {f"an array of {array.ndim} dimensions": array.ndim != 2, "wrap=True": wrap,
                                "a reversed array": array.flipped})
    ctx.check_writable(array)
    side = val if is_number(val) or isinstance(val, numpy.generic) else ctx.asarray(val)
    ctx.check_element(side, array.dtype)
    record(ctx.tx, "copy_", (ctx.tensor(array).diagonal(), ctx.cast_to(side, array.dtype)), {})
    ctx.written(array)


@function(numpy.put)
def put(ctx: Context, a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    array = ctx.target(a)
    refuse("np.put", {f"an array of {array.ndim} dimensions": array.ndim != 1, f"mode={mode!r}": mode != "raise"})
    set_item(ctx, array, _integers(ctx, ind), v)


def _triangle(keep: Any) -> Any:
    like: Any = getattr(numpy, keep.__name__)

    def triangle(ctx: Context, m: Any, k: Any = 0) -> Any:
        array = ctx.asarray(m)
        return ctx.array(as_numpy_lays_out(keep(ctx.tensor(array), ctx.integer(k)), array, like))

    return triangle


function(numpy.tril)(_triangle(torch.tril))
function(numpy.triu)(_triangle(torch.triu))


def _triangle_indices(name: str) -> Any:
    def indices(ctx: Context, n: Any, k: Any = 0, m: Any = None) -> Any:
        torch_function: Any = getattr(torch, name)
        rows, columns = ctx.integer(n), ctx.integer(n if m is None else m)
        both = ctx.make(torch_function, rows, columns, ctx.integer(k), dtype=torch.int64)
        return ctx.array(both[0].clone()), ctx.array(both[1].clone())

    return indices


function(numpy.tril_indices)(_triangle_indices("tril_indices"))
function(numpy.triu_indices)(_triangle_indices("triu_indices"))


@function(numpy.nan_to_num)
def nan_to_num(ctx: Context, x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    array = ctx.asarray(x)
    refuse("np.nan_to_num", {"copy=False": not copy, f"an array of {array.dtype}": array.dtype.kind == "c"})
    if array.dtype.kind != "f":
        return ctx.array(_copy(array, ctx.tensor(array).clone()), array.scalar or array.ndim == 0)
    if any(isinstance(one, (*SYMBOLIC, ArrayValue)) for one in (nan, posinf, neginf)):
        raise GraphBreak("np.nan_to_num with numbers that vary")
    numbers = [None if one is None else rounded(float(one), array.dtype) for one in (nan, posinf, neginf)]
    replaced = record(ctx.tx, torch.nan_to_num, (ctx.tensor(array), *numbers), {})
    return ctx.array(_copy(array, replaced), array.ndim == 0)


def _copy(array: ArrayValue, traced: Tensor) -> Tensor:
    """What takes the place of an array's elements, in memory as in a copy of the array."""
    return laid_out(traced, copied_order(array.tensor.fake, array.flipped))


@function(numpy.round, *({numpy.around} - {numpy.round}))
def round_(ctx: Context, a: Any, decimals: Any = 0, out: Any = None) -> Any:
    array = ctx.asarray(a)
    places = ctx.integer(decimals)
    if array.dtype.kind in "biu":
        if places < 0 or array.dtype.kind == "b":
            raise GraphBreak("np.round of integers before the point")
        return call_ufunc(ctx, numpy.positive, array, out=out)
    if places == 0:
        return call_ufunc(ctx, numpy.rint, array, out=out)
    scale = 10.0 ** abs(places)
    one, two = (numpy.multiply, numpy.divide) if places > 0 else (numpy.divide, numpy.multiply)
    scaled = call_ufunc(ctx, numpy.rint, call_ufunc(ctx, one, array, scale))
    rounded = call_ufunc(ctx, two, scaled, scale, out=out)
    traced = ctx.tensor(rounded)
    placed = rows_or_columns(traced, array)
    return rounded if out is not None or placed is traced else ctx.array(placed, rounded.scalar)


@function(numpy.fix)
def fix(ctx: Context, x: Any, out: Any = None) -> Any:
    return call_ufunc(ctx, numpy.trunc, x, out=out)


@function(numpy.real)
def real(ctx: Context, val: Any) -> Any:
    if is_number(val):
        raise GraphBreak("np.real of a number of Python's")
    return ctx.tx.get_attr(ctx.asarray(val), "real")


@function(numpy.imag)
def imag(ctx: Context, val: Any) -> Any:
    if is_number(val):
        raise GraphBreak("np.imag of a number of Python's")
    return ctx.tx.get_attr(ctx.asarray(val), "imag")


@method("conj", "conjugate")
def conjugate(ctx: Context, a: ArrayValue) -> Any:
    return call_ufunc(ctx, numpy.conjugate, a) if a.dtype.kind == "c" else a


@function(numpy.angle)
def angle(ctx: Context, z: Any, deg: bool = False) -> Any:
    array = ctx.asarray(z)
    if array.dtype.kind == "c":
        parts = real(ctx, array), imag(ctx, array)
        angles = call_ufunc(ctx, numpy.arctan2, parts[1], parts[0])
    else:
        angles = call_ufunc(ctx, numpy.arctan2, 0, array)
    return call_ufunc(ctx, numpy.multiply, angles, 180 / numpy.pi) if deg else angles


@function(numpy.isclose)
def isclose(ctx: Context, a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    def call(ufunc: Any, *operands: Any) -> Any:
        return call_ufunc(ctx, ufunc, *operands)

    if not all(isinstance(one, (int, float)) and math.isfinite(one) for one in (atol, rtol)) or \
            isinstance(b, SYMBOLIC):
        raise GraphBreak("np.isclose with numbers that vary or are infinite")
    x: Any = a if is_number(a) else ctx.asarray(a)
    y: Any = b if is_number(b) else ctx.asarray(b, result_type(ctx.asarray(b), 1.0))
    y = float(y) if isinstance(y, int) else y
    distance = call(numpy.absolute, call(numpy.subtract, x, y))
    size = abs(y) if is_number(y) else call(numpy.absolute, y)
    bound = atol + rtol * size if is_number(y) else \
        call(numpy.add, atol, call(numpy.multiply, rtol, size))
    near = call(numpy.less_equal, distance, bound)
    near = call(numpy.bitwise_and, near, bool(numpy.isfinite(y)) if is_number(y) else call(numpy.isfinite, y))
    near = call(numpy.bitwise_or, near, call(numpy.equal, x, y))
    if equal_nan:
        missing = [bool(numpy.isnan(one)) if is_number(one) else call(numpy.isnan, one) for one in (x, y)]
        near = call(numpy.bitwise_or, near, call(numpy.bitwise_and, *missing))
    return near


@function(numpy.allclose)
def allclose(ctx: Context, a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    near = isclose(ctx, a, b, rtol, atol, equal_nan)
    return record(ctx.tx, "item", (ctx.tensor(near).all(),), {})


@function(numpy.array_equal)
def array_equal(ctx: Context, a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    one, two = ctx.asarray(a1), ctx.asarray(a2)
    if one.ndim != two.ndim or any(x != y for x, y in zip(one.shape, two.shape, strict=True)):
        return False
    if equal_nan:
        raise GraphBreak("np.array_equal with equal_nan=")
    kind = result_type(one, two)
    return record(ctx.tx, "item", ((ctx.cast_to(one, kind) == ctx.cast_to(two, kind)).all(),), {})


def _bin_places(ctx: Context, x: Any, bins: Any, right: bool) -> Tensor:
    array, edges = ctx.asarray(x), ctx.asarray(bins)
    kind = result_type(array, edges)
    table, wanted = ctx.cast_to(edges, kind), ctx.cast_to(array, kind)
    if kind.kind != "f":
        return torch.searchsorted(table, wanted, right=right)
    # NaN stands behind all numbers in NumPy, and before all of them in torch.
    missing = torch.isnan(table)
    numbers = (~missing).sum()
    places = torch.searchsorted(torch.where(missing, torch.inf, table), wanted, right=right)
    within = torch.minimum(places, numbers)
    return torch.where(torch.isnan(wanted), places, within) if right else within


@function(numpy.searchsorted)
def searchsorted(ctx: Context, a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    if sorter is not None:
        raise GraphBreak("np.searchsorted with a sorter")
    if side not in ("left", "right"):
        raise GraphBreak("np.searchsorted with a side that is neither left nor right")
    places = _bin_places(ctx, v, a, side == "right")
    return ctx.rows(places, places.ndim == 0)


@function(numpy.digitize)
def digitize(ctx: Context, x: Any, bins: Any, right: bool = False) -> Any:
    edges = ctx.asarray(bins)
    if edges.ndim != 1 or 0 in edges.shape:
        raise GraphBreak("np.digitize without edges, or with some of several dimensions")
    if isinstance(bins, ArrayValue):
        # Data decides whether they rise or fall; NumPy knows, and what to make of NaN among them.
        if ctx.tx.compiler.exports:
            raise GraphBreak("np.digitize with edges of which data decides whether they rise", "use np.searchsorted")
        array = ctx.asarray(x)
        kind = result_type(array, edges)
        operands = (ctx.cast_to(array, kind), ctx.cast_to(edges, kind), bool(right))
        places = record(ctx.tx, operator("numpy_digitize"), operands, {})
        return ctx.rows(places, places.ndim == 0)
    if any(a > b for a, b in zip(bins, bins[1:], strict=False)):
        raise GraphBreak("np.digitize with edges that do not rise")
    places = _bin_places(ctx, x, edges, not right)
    return ctx.rows(places, places.ndim == 0)


@function(numpy.interp)
def interp(ctx: Context, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    if period is not None:
        raise GraphBreak("np.interp with a period")
    kind = numpy.dtype(float)
    at, xs, ys = (ctx.cast_to(ctx.asarray(one), kind) for one in (x, xp, fp))
    refuse("np.interp", {"points of several dimensions": xs.ndim != 1 or ys.ndim != 1,
                         "other numbers of places and values, or fewer than two":
                             xs.shape != ys.shape or xs.shape[0] < 2})
    at = at.contiguous()
    place = torch.clamp(torch.searchsorted(xs, at, right=True) - 1, 0, xs.shape[0] - 2)
    x0, y0 = xs[place], ys[place]
    slope = (ys[place + 1] - y0) / (xs[place + 1] - x0)
    value = slope * (at - x0) + y0
    value = torch.where(at >= xs[-1], ys[-1] if right is None else float(right), value)
    value = torch.where(at == xs[-1], ys[-1], value)
    value = torch.where(at < xs[0], ys[0] if left is None else float(left), value)
    value = torch.where(torch.isnan(at), at, value)
    return ctx.array(value, value.ndim == 0) if value.ndim < 2 else ctx.rows(value)


@function(numpy.bincount)
def bincount(ctx: Context, x: Any, weights: Any = None, minlength: Any = 0) -> Any:
    array = ctx.asarray(x)
    if array.dtype.kind not in "iu":
        raise GraphBreak("np.bincount of other numbers than integers")
    if weights is None:
        return ctx.array(torch.bincount(ctx.tensor(array), minlength=ctx.integer(minlength)), dtype=INT)
    heavy = ctx.cast_to(ctx.asarray(weights), numpy.dtype(float))
    return ctx.array(torch.bincount(ctx.tensor(array), heavy, ctx.integer(minlength)))


@function(numpy.isin)
def isin(ctx: Context, element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    array, tested = ctx.asarray(element), ctx.asarray(test_elements)
    kind = result_type(array, tested)
    inside = ctx.isin(ctx.cast_to(array, kind), ctx.cast_to(tested, kind).reshape(-1), bool(invert))
    return ctx.rows(inside)
