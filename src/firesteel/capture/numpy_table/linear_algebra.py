"""Products, einsum, ``np.linalg`` and ``np.fft``."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy
import torch

from ..signals import GraphBreak
from ..values.arrays import ArrayValue
from .context import Context
from .dtypes import FLOAT, WIDE, result_type
from .host_operators import operator as host_operator
from .layouts import as_numpy_lays_out, laid_out
from .registry import FOLLOWED, function, refuse
from .shaping import reshape
from .traced import Tensor, record
from .ufunc_calls import call_ufunc


def _operands(ctx: Context, *operands: Any) -> tuple[list[Tensor], Any]:
    """Tensors of one dtype, in which torch can multiply, and NumPy's dtype of the product."""
    arrays = [ctx.asarray(one) for one in operands]
    kind = result_type(*arrays)
    tensors = [ctx.cast_to(one, kind) for one in arrays]
    if kind.kind == "b":
        tensors = [one.to(torch.uint8) for one in tensors]
    wide = WIDE.get(tensors[0].dtype)
    return [one if wide is None else one.to(wide) for one in tensors], kind


def _product(ctx: Context, traced: Tensor, kind: Any, scalar: bool = False) -> ArrayValue:
    if kind.kind == "b":
        traced = traced != 0
    if traced.ndim > 1:
        traced = laid_out(traced, range(traced.ndim))
    return ctx.array(traced, scalar or traced.ndim == 0, kind)


@function(numpy.matmul)
def matmul(ctx: Context, a: Any, b: Any, out: Any = None, dtype: Any = None) -> Any:
    one, two = ctx.asarray(a), ctx.asarray(b)
    refuse("np.matmul", {"an operand without dimensions": not one.ndim or not two.ndim, "dtype=": dtype is not None})
    (x, y), kind = _operands(ctx, one, two)
    if kind.kind == "b":
        x, y = x.to(torch.int64), y.to(torch.int64)
    product = _product(ctx, torch.matmul(x, y), kind)
    if out is not None:
        return ctx.write_result(out, ctx.tensor(product))
    return product


@function(numpy.dot)
def dot(ctx: Context, a: Any, b: Any, out: Any = None) -> Any:
    one, two = ctx.asarray(a), ctx.asarray(b)
    if out is not None and out.dtype != result_type(one, two):
        raise GraphBreak(f"np.dot into an array of {out.dtype}")
    if not one.ndim or not two.ndim:
        return call_ufunc(ctx, numpy.multiply, one, two, out=out)
    if one.ndim <= 2 and two.ndim <= 2:
        return matmul(ctx, one, two, out=out)
    if out is not None:
        raise GraphBreak("np.dot of arrays of many dimensions with out=")
    return tensordot(ctx, one, two, ([one.ndim - 1], [max(two.ndim - 2, 0)]))


@function(numpy.inner)
def inner(ctx: Context, a: Any, b: Any) -> Any:
    one, two = ctx.asarray(a), ctx.asarray(b)
    if not one.ndim or not two.ndim:
        return call_ufunc(ctx, numpy.multiply, one, two)
    product = tensordot(ctx, one, two, ([one.ndim - 1], [two.ndim - 1]))
    product.scalar = product.ndim == 0
    return product


@function(numpy.vdot)
def vdot(ctx: Context, a: Any, b: Any) -> Any:
    one = ctx.asarray(a)
    one = call_ufunc(ctx, numpy.conjugate, one) if one.dtype.kind == "c" else one
    return dot(ctx, reshape(ctx, one, (-1,)), reshape(ctx, ctx.asarray(b), (-1,)))


@function(numpy.outer)
def outer(ctx: Context, a: Any, b: Any, out: Any = None) -> Any:
    one, two = reshape(ctx, ctx.asarray(a), (-1, 1)), reshape(ctx, ctx.asarray(b), (1, -1))
    return call_ufunc(ctx, numpy.multiply, one, two, out=out)


@function(numpy.tensordot)
def tensordot(ctx: Context, a: Any, b: Any, axes: Any = 2) -> ArrayValue:
    one, two = ctx.asarray(a), ctx.asarray(b)
    if isinstance(axes, (tuple, list)):
        left, right = ([*side] if isinstance(side, (tuple, list)) else [side] for side in axes)
        dims: Any = ([ctx.axis(dim, one.ndim) for dim in left], [ctx.axis(dim, two.ndim) for dim in right])
    else:
        count = ctx.integer(axes)
        dims = (list(range(one.ndim - count, one.ndim)), list(range(count)))
    if len(dims[0]) != len(dims[1]) or any(one.shape[left] != two.shape[right] for left, right in zip(
            *dims, strict=True)):  # torch takes a size of 1 beside any other
        raise GraphBreak("a product of NumPy arrays over dimensions of different sizes")
    (x, y), kind = _operands(ctx, one, two)
    product = _product(ctx, torch.tensordot(x, y, dims), kind)
    product.scalar = False
    return product


@function(numpy.einsum)
def einsum(ctx: Context, *operands: Any, optimize: Any = False, dtype: Any = None, out: Any = None) -> Any:
    refuse("np.einsum", {"subscripts that are no text": not isinstance(operands[0], str),
                         "out=": out is not None, "dtype=": dtype is not None})
    tensors, kind = _operands(ctx, *operands[1:])
    text = operands[0].replace(" ", "")
    arrays = [ctx.asarray(one) for one in operands[1:]]
    if len(arrays) == 1 and _einsum_is_view(text, arrays[0].ndim):
        raise GraphBreak("np.einsum that gives a view")
    product: Tensor = torch.einsum(text, *tensors)
    product = ctx.cast(product != 0 if kind.kind == "b" else product, kind)
    product = as_numpy_lays_out(product, arrays, lambda *small: numpy.einsum(text, *small), by_rows=False)
    return ctx.array_or_scalar(product)


def _einsum_is_view(text: str, ndim: int) -> bool:
    """Whether np.einsum only moves dimensions of an array, or takes a diagonal: a view, also of a reversed array."""
    small = numpy.ones((2,) * ndim)
    return numpy.shares_memory(numpy.einsum(text, small), small)


@function(numpy.trace)
def trace(ctx: Context, a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None,
          out: Any = None) -> Any:
    return ctx.call(numpy.sum, ctx.call(numpy.diagonal, a, offset, axis1, axis2), -1, dtype, out)


@function(numpy.kron)
def kron(ctx: Context, a: Any, b: Any) -> Any:
    (x, y), kind = _operands(ctx, a, b)
    if not x.ndim or not y.ndim:
        raise GraphBreak("np.kron of a number")
    return _product(ctx, torch.kron(x, y), kind)


@function(numpy.cross)
def cross(ctx: Context, a: Any, b: Any) -> Any:
    (x, y), kind = _operands(ctx, a, b)
    if kind.kind == "b" or x.shape[-1] != 3 or y.shape[-1] != 3:
        raise GraphBreak("np.cross of truth values, or of vectors of two elements")
    x, y = torch.broadcast_tensors(x, y)
    return _product(ctx, torch.linalg.cross(x, y), kind)


@function(numpy.convolve)
def convolve(ctx: Context, a: Any, v: Any, mode: str = "full") -> Any:
    return _correlated(ctx, ctx.asarray(a), ctx.asarray(v), mode, "np.convolve")


@function(numpy.correlate)
def correlate(ctx: Context, a: Any, v: Any, mode: str = "valid") -> Any:
    array, other = ctx.asarray(a), ctx.asarray(v)
    if array.ndim != 1 or other.ndim != 1:
        raise GraphBreak("np.correlate of other arrays than of one dimension, which NumPy refuses")
    if int(other.shape[0]) > int(array.shape[0]) or other.dtype.kind == "c":
        raise GraphBreak("np.correlate with the longer array second")
    return _correlated(ctx, array, ctx.array(ctx.flip(ctx.tensor(other), [0])), mode, "np.correlate")


MOST_SHIFTS = 16
"""Arrays of more floats are convolved by NumPy."""


def _correlated(ctx: Context, array: ArrayValue, other: ArrayValue, mode: str, name: str) -> Any:
    """The convolution of two arrays: for each element of the shorter one a shifted copy of the longer."""
    if array.ndim != 1 or other.ndim != 1:
        raise GraphBreak(f"{name} of other arrays than of one dimension, which NumPy refuses")
    (x, y), kind = _operands(ctx, array, other)
    if x.shape[0] < y.shape[0]:
        x, y = y, x
    length, short = int(x.shape[0]), int(y.shape[0])
    if not short or kind.kind == "c":
        raise GraphBreak(f"{name} of these arrays")
    begin, end = {"full": (0, length + short - 1), "valid": (short - 1, length),
                  "same": ((short - 1) // 2, (short - 1) // 2 + length)}[mode]
    if short > (MOST_SHIFTS if kind.kind == "f" and not ctx.tx.compiler.exports else 4 * MOST_SHIFTS):
        if kind.kind != "f" or ctx.tx.compiler.exports:
            raise GraphBreak(f"{name} with {short} elements in the shorter array")
        return ctx.array(record(ctx.tx, host_operator("numpy_convolve"), (x, y, mode), {}), dtype=kind)
    shifted = [torch.nn.functional.pad(x * y[at], (at, short - 1 - at))[begin:end] for at in range(short)]
    return ctx.array(functools.reduce(operator.add, shifted[1:], shifted[0].clone()), dtype=kind)


# np.linalg


def _floating(ctx: Context, *operands: Any) -> tuple[list[Tensor], Any]:
    """Tensors in the dtype that np.linalg computes in."""
    arrays = [ctx.asarray(one) for one in operands]
    kind = result_type(*arrays)
    if kind.kind in "biu":
        kind = FLOAT
    if kind == numpy.float16:
        raise GraphBreak("np.linalg of half precision, which NumPy refuses")
    return [ctx.cast_to(one, kind) for one in arrays], kind


def _matrix(name: str, torch_function: Any) -> None:
    def function_of_matrix(ctx: Context, a: Any) -> Any:
        (x,), _ = _floating(ctx, a)
        return ctx.rows(torch_function(x), scalar=x.ndim == 2 and name == "det")

    function(getattr(numpy.linalg, name))(function_of_matrix)


_matrix("inv", torch.linalg.inv)
_matrix("det", torch.linalg.det)


@function(numpy.linalg.cholesky)
def cholesky(ctx: Context, a: Any, *, upper: bool = False) -> Any:
    (x,), _ = _floating(ctx, a)
    return ctx.rows(torch.linalg.cholesky(x, upper=bool(upper)))


@function(numpy.linalg.solve)
def solve(ctx: Context, a: Any, b: Any) -> Any:
    (x, y), _ = _floating(ctx, a, b)
    if y.ndim == 1:
        return ctx.array(torch.linalg.solve(x, y.unsqueeze(-1)).squeeze(-1))
    return ctx.rows(torch.linalg.solve(x, y))


@function(numpy.linalg.slogdet)
def slogdet(ctx: Context, a: Any) -> Any:
    (x,), kind = _floating(ctx, a)
    sign, logarithm = torch.linalg.slogdet(x)
    scalar = x.ndim == 2
    cls: Any = type(numpy.linalg.slogdet(numpy.eye(1)))
    return cls(ctx.array(sign, scalar), ctx.array(logarithm, scalar))


@function(numpy.linalg.eigvalsh)
def eigvalsh(ctx: Context, a: Any, UPLO: str = "L") -> Any:  # noqa: N803
    (x,), _ = _floating(ctx, a)
    return ctx.rows(torch.linalg.eigvalsh(x, UPLO=UPLO))


@function(numpy.linalg.matrix_power)
def matrix_power(ctx: Context, a: Any, n: Any) -> Any:
    array = ctx.asarray(a)
    power = ctx.integer(n)
    refuse("np.linalg.matrix_power", {f"an array of {array.ndim} dimensions": array.ndim != 2,
                                      f"power {power}": power < 1})
    result, squared = None, array
    while power:
        if power & 1:
            result = squared if result is None else matmul(ctx, result, squared)
        power >>= 1
        if power:
            squared = matmul(ctx, squared, squared)
    return result if result is not array else ctx.array(ctx.tensor(array).clone())


@function(numpy.linalg.norm)
def norm(ctx: Context, x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    array = ctx.asarray(x)
    if array.dtype.kind in "biu":
        array = ctx.array(ctx.cast_to(array, FLOAT))
    refuse("np.linalg.norm", {f"an array of {array.dtype}": array.dtype.kind == "c" or array.dtype == numpy.float16})
    traced = ctx.tensor(array)
    if axis is None:
        dims = list(range(array.ndim))
        if ord is None:
            traced, dims = traced.reshape(-1), [0]
        elif array.ndim > 2:
            raise GraphBreak("np.linalg.norm of many dimensions")
    else:
        dims = list(ctx.axes(axis, array.ndim))
    if len(dims) not in (1, 2) or len(dims) == 1 and isinstance(ord, str):
        raise GraphBreak(f"np.linalg.norm of {len(dims)} dimensions with ord={ord!r}")
    if len(dims) == 2 and ord not in (None, "fro"):
        raise GraphBreak(f"np.linalg.norm of matrices with ord={ord!r}")
    kept = bool(keepdims)
    if ord in (None, 2, "fro"):
        norms = torch.sqrt((traced * traced).sum(dim=dims, keepdim=kept))
    elif ord in (1, numpy.inf, -numpy.inf):
        reduce: Any = {1: torch.sum, numpy.inf: torch.amax, -numpy.inf: torch.amin}[ord]
        norms = reduce(torch.abs(traced), dims, kept)
    elif isinstance(ord, (int, float)) and ord > 0:
        norms = torch.pow(torch.pow(torch.abs(traced), ord).sum(dim=dims, keepdim=kept), 1 / ord)
    else:
        raise GraphBreak(f"np.linalg.norm with ord={ord!r}")
    if axis is None and kept and norms.ndim != array.ndim:
        norms = norms.reshape((1,) * array.ndim)
    along = None if axis is None else tuple(dims) if len(dims) > 1 else dims[0]
    return ctx.array_or_scalar(as_numpy_lays_out(
        norms, array, lambda small: numpy.linalg.norm(small, ord, along, keepdims=kept)))


# np.fft


def _transformed(ctx: Context, name: str, array: ArrayValue, spectrum: Tensor, **along: Any) -> ArrayValue:
    """The result of a transform as NumPy lays it out."""
    if spectrum.dtype.is_complex:
        spectrum = spectrum.resolve_conj()
    like: Any = getattr(numpy.fft, name)
    return ctx.array(as_numpy_lays_out(spectrum, array, lambda small: like(small.astype(array.dtype), **along)))


def _by_numpy(ctx: Context, name: str, traced: Tensor, size: Any, dim: int, norm: Any) -> Tensor | None:
    """Transforms between real and complex numbers that NumPy computes faster than torch's libraries."""
    if ctx.tx.compiler.exports or name not in ("rfft", "irfft") or norm not in (None, "backward", "ortho", "forward"):
        return None
    if name == "irfft" and not traced.dtype.is_complex:
        return None
    length = traced.shape[dim] if name == "rfft" else 2 * (traced.shape[dim] - 1)
    count = length if size is None else size
    if type(count) is not int or count < 1:
        return None
    return record(ctx.tx, host_operator(f"numpy_{name}"), (traced, count, dim, norm or "backward"), {})


def _transform(name: str, real_input: bool) -> None:
    torch_function: Any = getattr(torch.fft, name)

    def transform(ctx: Context, a: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Any:
        array = ctx.asarray(a)
        traced = ctx.tensor(array)
        if array.dtype == numpy.float16 or real_input and array.dtype.kind == "c":
            raise GraphBreak(f"np.fft.{name} of {array.dtype}")
        if name == "ifft" and array.dtype.kind != "c":  # torch conjugates what it computes of real numbers
            traced = ctx.cast(traced, numpy.result_type(array.dtype, numpy.complex64))
        elif array.dtype.kind in "biu":
            traced = ctx.cast(traced, FLOAT)
        if 0 in array.shape:
            raise GraphBreak(f"np.fft.{name} of nothing")
        size = None if n is None else ctx.integer(n)
        dim = ctx.axis(axis, array.ndim)
        spectrum = _by_numpy(ctx, name, traced, size, dim, norm)
        spectrum = torch_function(traced, size, dim, norm) if spectrum is None else spectrum
        return _transformed(ctx, name, array, spectrum, axis=dim)

    function(getattr(numpy.fft, name))(transform)


for _name in ("fft", "ifft", "irfft", "hfft"):
    _transform(_name, False)
for _name in ("rfft", "ihfft"):
    _transform(_name, True)


def _transform_of_several(name: str, dims: Any) -> None:
    torch_function: Any = getattr(torch.fft, name)

    def transform(ctx: Context, a: Any, s: Any = None, axes: Any = dims, norm: Any = None) -> Any:
        array = ctx.asarray(a)
        refuse(f"np.fft.{name}", {"s=": s is not None, "an array of float16": array.dtype == numpy.float16})
        if 0 in array.shape:
            raise GraphBreak(f"np.fft.{name} of nothing")
        traced = ctx.tensor(array)
        if array.dtype.kind in "biu":
            traced = ctx.cast(traced, FLOAT)
        dims = list(ctx.axes(axes, array.ndim))
        return _transformed(ctx, name, array, torch_function(traced, None, dims, norm), axes=dims)

    function(getattr(numpy.fft, name))(transform)


for _name, _dims in (("fft2", (-2, -1)), ("ifft2", (-2, -1)), ("rfft2", (-2, -1)), ("irfft2", (-2, -1)), ("fftn", None),
                     ("ifftn", None), ("rfftn", None), ("irfftn", None)):
    _transform_of_several(_name, _dims)


@function(numpy.fft.fftshift)
def fftshift(ctx: Context, x: Any, axes: Any = None) -> Any:
    array = ctx.asarray(x)
    dims = ctx.axes(axes, array.ndim)
    return ctx.call(numpy.roll, array, [ctx.integer(array.shape[dim]) // 2 for dim in dims], list(dims))


@function(numpy.fft.ifftshift)
def ifftshift(ctx: Context, x: Any, axes: Any = None) -> Any:
    array = ctx.asarray(x)
    dims = ctx.axes(axes, array.ndim)
    return ctx.call(numpy.roll, array, [-(ctx.integer(array.shape[dim]) // 2) for dim in dims], list(dims))


@function(numpy.fft.fftfreq)
def fftfreq(ctx: Context, n: Any, d: Any = 1.0) -> Any:
    count = ctx.integer(n)
    places = ctx.make(torch.arange, count, dtype=torch.int64)
    signed = torch.where(places < (count - 1) // 2 + 1, places, places - count)
    return ctx.array(ctx.cast(signed, FLOAT) * (1.0 / (count * float(d))))


@function(numpy.fft.rfftfreq)
def rfftfreq(ctx: Context, n: Any, d: Any = 1.0) -> Any:
    count = ctx.integer(n)
    return ctx.array(ctx.make(torch.arange, count // 2 + 1, dtype=torch.float64) * (1.0 / (count * float(d))))


# What NumPy itself writes in Python with functions of this table.
FOLLOWED.update({
    numpy.average, numpy.cov, numpy.corrcoef, numpy.gradient, numpy.trapezoid, numpy.polyval, numpy.diff,
    numpy.ediff1d, numpy.unwrap, numpy.linalg.multi_dot, numpy.polyadd, numpy.polysub, numpy.polymul, numpy.polyder,
    numpy.polyint, numpy.apply_along_axis, numpy.sinc, numpy.nanmedian, numpy.ix_, numpy.block, numpy.insert,
    numpy.resize, numpy.array_equiv, type(numpy.r_).__getitem__, type(numpy.mgrid).__getitem__,
    numpy.linalg.matrix_rank, numpy.piecewise,
})
