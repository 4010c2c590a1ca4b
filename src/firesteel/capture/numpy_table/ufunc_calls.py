"""Calls of ufuncs and their methods: promotion, loops, ``out=``, ``where=``, and the layout of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import torch

from ..signals import GraphBreak
from ..undecidable import SYMBOLIC
from ..values.arrays import ArrayValue
from .context import Context
from .dtypes import WIDE, check_fits, descriptor, dtype_argument, is_number, result_type, rounded, torch_dtype
from .indexing import get_item
from .layouts import as_numpy_lays_out, kept_order, laid_out
from .registry import UFUNCS, refuse
from .traced import Tensor, Traced, record
from .ufuncs import LOGIC, TENSORS_ONLY

COMPARISONS = frozenset({numpy.equal, numpy.not_equal, numpy.less, numpy.less_equal, numpy.greater,
                         numpy.greater_equal})
# what tensors of complex numbers do as NumPy does; those are in no order there
OF_COMPLEX = frozenset({
    numpy.add, numpy.subtract, numpy.multiply, numpy.divide, numpy.negative, numpy.positive, numpy.square, numpy.power,
    numpy.equal, numpy.not_equal, numpy.exp, numpy.log, numpy.sqrt, numpy.sin, numpy.cos, numpy.tan, numpy.sinh,
    numpy.cosh, numpy.tanh, numpy.absolute, numpy.conjugate, numpy.reciprocal, numpy.isnan, numpy.isinf, numpy.isfinite,
})
NOT_OF_TRUTHS = frozenset({numpy.subtract, numpy.negative})
# what unsigned integers of 64 bits do as signed ones do
SAME_FOR_SIGNED = frozenset({numpy.add, numpy.subtract, numpy.multiply, numpy.bitwise_and, numpy.bitwise_or,
                             numpy.bitwise_xor, numpy.invert, numpy.equal, numpy.not_equal, numpy.positive,
                             numpy.logical_and, numpy.logical_or, numpy.logical_not, numpy.logical_xor})


def call_ufunc(ctx: Context, ufunc: Any, *inputs: Any, out: Any = None, where: Any = True, dtype: Any = None,
               casting: str = "same_kind", order: str = "K", subok: bool = True) -> Any:
    """``ufunc(*inputs, out=..., where=..., dtype=...)``."""
    if len(inputs) > ufunc.nin:
        inputs, given = inputs[:ufunc.nin], inputs[ufunc.nin:]
        out = given if len(given) > 1 else given[0]
    if len(inputs) != ufunc.nin or order != "K" or casting != "same_kind":
        refuse(f"np.{ufunc.__name__}", {f"{len(inputs)} arguments": len(inputs) != ufunc.nin,
                                        f"order={order!r}": order != "K", f"casting={casting!r}": True})
    operands = [operand if isinstance(operand, (ArrayValue, numpy.generic)) or is_number(operand)
                else ctx.asarray(operand) for operand in inputs]
    outs = out if isinstance(out, tuple) else (out,) * ufunc.nout
    if ufunc.nout > 1 and out is not None and not isinstance(out, tuple):
        raise GraphBreak(f"np.{ufunc.__name__} with one array for two results")
    if any(given is not None and not isinstance(given, ArrayValue) for given in outs):
        raise GraphBreak(f"np.{ufunc.__name__} with an out= that is no array of the graph")
    results, dtypes, converted = _compute(ctx, ufunc, operands, dtype_argument(dtype))
    shape_scalar = all(not isinstance(one, ArrayValue) or one.ndim == 0 for one in operands)
    if where is not True:
        results = [_masked(ctx, where, one, given) for one, given in zip(results, outs, strict=True)]
    values = []
    for traced, kind, given in zip(results, dtypes, outs, strict=True):
        if given is not None:
            if not numpy.can_cast(kind, given.dtype, "same_kind"):
                raise GraphBreak(f"np.{ufunc.__name__} into an array of {given.dtype}")
            ctx.write(given, ctx.cast(traced, given.dtype))
            values.append(given)
        else:
            values.append(ctx.array(ordered(ctx, traced, operands, 0 if converted or ufunc.nout > 1 else ufunc.nin),
                                    shape_scalar))
    return values[0] if ufunc.nout == 1 else tuple(values)


def ordered(ctx: Context, traced: Tensor, operands: Sequence[Any], ufunc_operands: int = 0) -> Tensor:
    """An elementwise result in the order in memory that NumPy gives it, see `kept_order`."""
    arrays = [one for one in operands if isinstance(one, ArrayValue)]
    if traced.ndim < 2:
        return traced
    return laid_out(traced, kept_order([one.tensor.fake for one in arrays], [one.flipped for one in arrays],
                                       traced.ndim, ufunc_operands))


def _masked(ctx: Context, where: Any, traced: Tensor, out: ArrayValue | None) -> Tensor:
    if out is None:
        raise GraphBreak("a ufunc with where= and without out=, whose other elements are any", "pass out=")
    mask = ctx.tensor(ctx.asarray(where))
    return torch.where(mask, ctx.cast(traced, out.dtype), ctx.tensor(out))


def _compute(ctx: Context, ufunc: Any, operands: list[Any], dtype: Any) -> tuple[list[Tensor], list[Any], bool]:
    """The results as tensors, their dtypes, and whether an array was converted for the loop."""
    function = UFUNCS.find(ufunc)
    if function is None:
        raise GraphBreak(f"np.{ufunc.__name__} is not captured", "use another function of NumPy's or torch's")
    parts = [descriptor(operand) for operand in operands]
    if ufunc in LOGIC:
        loop = [numpy.dtype(bool)] * (ufunc.nin + 1)
        tensors = [_truths(ctx, operand) for operand in operands]
        return [function(*tensors)], loop[-1:], len({result_type(one) for one in operands}) > 1
    chosen = {} if dtype is None else {"signature": (None,) * ufunc.nin + (dtype,) * ufunc.nout}
    try:
        loop = ufunc.resolve_dtypes((*parts, *(None,) * ufunc.nout), **chosen)
    except (TypeError, ValueError) as error:
        raise GraphBreak(f"np.{ufunc.__name__} of these dtypes raises {type(error).__name__}") from None
    if loop[0].kind == "c" and ufunc not in OF_COMPLEX or loop[0].kind == "b" and ufunc in NOT_OF_TRUTHS:
        raise GraphBreak(f"np.{ufunc.__name__} of {loop[0]} is not captured")
    if ufunc in COMPARISONS and loop[0].kind in "iu":
        loop = _compared(operands, loop)
    # torch divides a number by multiplying it with the reciprocal, which may be infinite
    tensors = [_operand(ctx, operand, kind, ufunc in TENSORS_ONLY or position == 0 and (
        ufunc is numpy.divide or not any(isinstance(one, (ArrayValue, numpy.generic)) for one in operands[1:])))
        for position, (operand, kind) in enumerate(zip(operands, loop, strict=False))]
    if not any(isinstance(one, Traced) for one in tensors):
        tensors[0] = ctx.full((), tensors[0], loop[0])
    wide = WIDE.get(torch_dtype(loop[0]))
    if wide is not None:
        if loop[0].itemsize == 8 and ufunc not in SAME_FOR_SIGNED:
            raise GraphBreak(f"np.{ufunc.__name__} of unsigned integers of 64 bits")
        tensors = [one.to(wide) if isinstance(one, Traced) else one for one in tensors]
    results = function(*tensors)
    results = list(results) if ufunc.nout > 1 else [results]
    kinds = list(loop[ufunc.nin:])
    converted = any(isinstance(one, ArrayValue) and one.dtype != kind
                    for one, kind in zip(operands, loop, strict=False))
    return [ctx.cast(one, kind) for one, kind in zip(results, kinds, strict=True)], kinds, converted


def _compared(operands: list[Any], loop: Any) -> Any:
    """Integers of Python's that a dtype cannot hold are compared by their value all the same."""
    for operand in operands:
        if is_number(operand) and isinstance(operand, int):
            check_fits(operand, loop[0])
    return loop


def _truths(ctx: Context, operand: Any) -> Tensor:
    if isinstance(operand, ArrayValue):
        traced = ctx.tensor(operand)
        return traced if traced.dtype is torch.bool else traced != 0
    return ctx.full((), bool(operand), numpy.dtype(bool))


def _operand(ctx: Context, operand: Any, dtype: Any, as_tensor: bool) -> Any:
    """An operand in the dtype of the loop: a tensor, or a plain number where the function takes one."""
    if isinstance(operand, ArrayValue):
        return ctx.cast_to(operand, dtype)
    if isinstance(operand, numpy.generic):
        operand = operand.astype(dtype).item()
    check_fits(operand, dtype)
    if as_tensor or isinstance(operand, (complex, torch.SymBool)) or \
            isinstance(operand, SYMBOLIC) and dtype == numpy.float16:
        return ctx.full((), operand, dtype)
    if dtype.kind == "f" and not isinstance(operand, SYMBOLIC):
        return rounded(operand, dtype)
    return int(operand) if isinstance(operand, bool) and dtype.kind in "iu" else operand


# Methods of ufuncs


def accumulate(ctx: Context, ufunc: Any, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    """``ufunc.accumulate(array, axis)``."""
    function = {numpy.add: numpy.cumsum, numpy.multiply: numpy.cumprod}.get(ufunc)
    array = ctx.asarray(array)
    if not array.ndim:
        raise GraphBreak(f"np.{ufunc.__name__}.accumulate of a number, which NumPy refuses")
    if function is not None:
        return ctx.call(function, array, axis=axis, dtype=dtype, out=out)
    if ufunc in (numpy.maximum, numpy.minimum) and dtype is None and out is None:
        running = torch.cummax if ufunc is numpy.maximum else torch.cummin
        dim = ctx.axis(axis, array.ndim)
        extremes = record(ctx.tx, running, (ctx.tensor(array), dim), {})[0]
        return ctx.array(as_numpy_lays_out(extremes, array, lambda small: ufunc.accumulate(small, axis=dim)))
    raise GraphBreak(f"np.{ufunc.__name__}.accumulate is not captured")


def reduce(ctx: Context, ufunc: Any, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
           keepdims: bool = False) -> Any:
    """``ufunc.reduce(array, axis)``."""
    functions = {numpy.add: numpy.sum, numpy.multiply: numpy.prod, numpy.maximum: numpy.max, numpy.minimum: numpy.min,
                 numpy.logical_and: numpy.all, numpy.logical_or: numpy.any}
    function = functions.get(ufunc)
    if ufunc in _BITWISE and dtype is None and out is None:
        return _bitwise(ctx, ufunc, ctx.asarray(array), axis, keepdims)
    if function is None:
        raise GraphBreak(f"np.{ufunc.__name__}.reduce is not captured")
    named = {"dtype": dtype} if dtype is not None else {}
    return ctx.call(function, array, axis=axis, out=out, keepdims=keepdims, **named)


_BITWISE = frozenset({numpy.bitwise_and, numpy.bitwise_or, numpy.bitwise_xor})
"""Ufuncs that are reduced by halves."""


def _bitwise(ctx: Context, ufunc: Any, array: ArrayValue, axis: Any, keepdims: bool) -> Any:
    """One half of a dimension with the other, as often as there are two halves."""
    dims = sorted(ctx.axes(axis, array.ndim))
    if array.dtype.kind not in "biu" or any(isinstance(array.shape[dim], SYMBOLIC) for dim in dims):
        raise GraphBreak(f"np.{ufunc.__name__}.reduce of sizes that vary, or of {array.dtype}")
    if not array.ndim or 0 in array.shape:
        raise GraphBreak(f"np.{ufunc.__name__}.reduce of nothing, or of a number")
    function = UFUNCS.find(ufunc)
    assert function is not None
    traced = ctx.tensor(array)
    for dim in dims:
        while traced.shape[dim] > 1:
            half = traced.shape[dim] // 2
            joined = function(traced.narrow(dim, 0, half), traced.narrow(dim, half, half))
            if traced.shape[dim] % 2:
                joined = torch.cat([joined, traced.narrow(dim, 2 * half, 1)], dim)
            traced = joined
    if not keepdims:
        for dim in reversed(dims):
            traced = traced.squeeze(dim)
    along = None if axis is None else tuple(dims) if len(dims) > 1 else dims[0]
    laid = as_numpy_lays_out(traced, array, lambda small: numpy.asarray(
        ufunc.reduce(small.astype(array.dtype), axis=along, keepdims=keepdims)))
    return ctx.array(laid.clone(), laid.ndim == 0)  # of one element, it would be a view


def reduceat(ctx: Context, ufunc: Any, array: Any, indices: Any, axis: Any = 0, dtype: Any = None,
             out: Any = None) -> Any:
    """``ufunc.reduceat(array, indices)``, for indices that are known: a reduction for each of them."""
    array = ctx.asarray(array)
    title = f"np.{ufunc.__name__}.reduceat"
    known = isinstance(indices, (list, tuple)) and all(type(index) is int for index in indices)
    refuse(title, {
        "dtype=": dtype is not None, "out=": out is not None, f"an array of {array.ndim} dimensions": array.ndim != 1,
        "indices that are no list of constant integers": not known,
        f"no index, or more than {_MOST_PARTS}": known and not 0 < len(indices) <= _MOST_PARTS,
    })
    refuse(title, {"an array whose size varies": isinstance(array.shape[0], SYMBOLIC)})
    refuse(title, {"an index outside of the array": not all(0 <= index < array.shape[0] for index in indices)})
    parts = []
    for begin, end in zip(indices, [*indices[1:], array.shape[0]], strict=True):
        part = get_item(ctx, array, slice(begin, end if end > begin else begin + 1))
        parts.append(reduce(ctx, ufunc, part))
    return ctx.call(numpy.stack, parts)


_MOST_PARTS = 64


def at(ctx: Context, ufunc: Any, array: Any, indices: Any, *values: Any) -> None:
    """``np.add.at(array, indices, values)``: places that occur several times get all of their values."""
    if ufunc not in (numpy.add, numpy.subtract) or len(values) != 1 or not isinstance(array, ArrayValue):
        raise GraphBreak(f"np.{ufunc.__name__}.at is not captured")
    places = ctx.asarray(indices) if isinstance(indices, (list, ArrayValue)) else None
    if places is None or places.dtype.kind not in "iu" or array.flipped or array.dtype.kind not in "iuf" or \
            not places.ndim:
        raise GraphBreak(f"np.{ufunc.__name__}.at with indices that are no integers in a list or an array, or of an "
                         f"array of {array.dtype} that may be reversed")
    operand = values[0] if is_number(values[0]) else ctx.asarray(values[0])
    if result_type(array, operand) != array.dtype:
        raise GraphBreak(f"np.{ufunc.__name__}.at of numbers that the array does not hold")
    ctx.check_writable(array)
    traced = ctx.cast_to(operand, array.dtype)
    traced = traced.clone() if ufunc is numpy.add else -traced  # it may be a part of the array
    target = ctx.tensor(array)
    traced = traced.expand((*places.shape, *target.shape[1:]))
    record(ctx.tx, _INDEX_PUT, (target, [ctx.cast(ctx.tensor(places), numpy.dtype(numpy.int64))], traced, True), {})
    ctx.written(array)


_INDEX_PUT = torch.ops.aten.index_put_.default


def outer(ctx: Context, ufunc: Any, a: Any, b: Any) -> Any:
    """``ufunc.outer(a, b)``."""
    one, two = ctx.asarray(a), ctx.asarray(b)
    column = get_item(ctx, one, (Ellipsis, *(None,) * two.ndim)) if two.ndim else one
    return call_ufunc(ctx, ufunc, column, two)


UFUNC_METHODS = {"reduce": reduce, "accumulate": accumulate, "outer": outer, "reduceat": reduceat, "at": at}
