"""Reductions over dimensions: sums, products, extremes and their places, truth, variance, norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ... import shapes
from ...shapes import Expr
from .. import ir
from ..ir import Value
from .context import Lowering
from .reducing import Body, Folding, accumulator, elements, fold, folding, inner_spec, is_empty, total
from .registry import lowering
from .scalars import add, cast, compare, div, mul, op, opmath, sub, where
from .tensors import ONE, ZERO, Indices, Spec, Tensor

Dims = int | Sequence[int] | None

# ---------------------------------------------------------------------------------------------------------------------
# sums and products


def _over_dims(*names: str) -> Callable[[Callable[[Lowering, Tensor, Folding], Tensor]], Any]:
    """A decorator that makes a function of what is folded the lowering of operators with dimensions and without."""

    def add(function: Callable[[Lowering, Tensor, Folding], Tensor]) -> Any:
        @lowering(*names)
        def lower(ctx: Lowering, x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
            return function(ctx, x, folding(x, dim, keepdim))

        return function

    return add


@_over_dims("aten.sum.default", "aten.sum.dim_IntList")
def _sum(ctx: Lowering, x: Tensor, how: Folding) -> Tensor:
    dtype = ctx.out.dtype
    if dtype is torch.bool:
        return fold(ctx, "any", how, elements(x, torch.bool), ctx.out)
    return fold(ctx, "sum", how, elements(x, accumulator(dtype), dtype), ctx.out)


@_over_dims("aten.nansum.default")
def _nansum(ctx: Lowering, x: Tensor, how: Folding) -> Tensor:
    if not x.dtype.is_floating_point:
        return _sum(ctx, x, how)

    def without_nan(indices: Indices) -> Value:
        value = cast(cast(x.at(indices), ctx_dtype), accumulator(ctx_dtype))
        return where(ir.op("isnan", value), 0.0, value)

    ctx_dtype = ctx.out.dtype
    return fold(ctx, "sum", how, without_nan, ctx.out)


@_over_dims("aten.mean.default", "aten.mean.dim")
def _mean(ctx: Lowering, x: Tensor, how: Folding) -> Tensor:
    dtype = ctx.out.dtype
    wide = opmath(dtype)
    summed = total(ctx, x, how, elements(x, wide, dtype), wide)
    return ctx.computed(lambda indices: cast(div(summed.at(indices), ctx.scalar(how.count, wide)), dtype))


@_over_dims("aten.prod.default", "aten.prod.dim_int")
def _prod(ctx: Lowering, x: Tensor, how: Folding) -> Tensor:
    dtype = ctx.out.dtype
    if dtype is torch.bool:
        return fold(ctx, "all", how, elements(x, torch.bool), ctx.out)
    return fold(ctx, "prod", how, elements(x, accumulator(dtype), dtype), ctx.out)


@lowering("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList")
def count_nonzero(ctx: Lowering, x: Tensor, dim: Dims = None) -> Tensor:
    return fold(ctx, "sum", folding(x, dim), lambda i: cast(cast(x.at(i), torch.bool), torch.int64), ctx.out)


# ---------------------------------------------------------------------------------------------------------------------
# truth


def _truth(kind: str) -> Any:
    def lower(ctx: Lowering, x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
        # Here an empty list of dimensions means none at all.
        how = folding(x, dim, keepdim, none_means_all=False)
        dtype = ctx.out.dtype
        if dtype is torch.bool:
            return fold(ctx, kind, how, elements(x, torch.bool), ctx.out)
        truth = fold(ctx, kind, how, elements(x, torch.bool), inner_spec(ctx, how, torch.bool, x.device))
        return ctx.computed(lambda indices: cast(truth.at(indices), dtype))

    return lower


for _kind in ("any", "all"):
    lowering(f"aten.{_kind}.default", f"aten.{_kind}.dim", f"aten.{_kind}.dims")(_truth(_kind))


# ---------------------------------------------------------------------------------------------------------------------
# extremes and where they are


def comparable(x: Tensor) -> torch.dtype:
    """The dtype in which elements are compared."""
    return torch.int32 if x.dtype is torch.bool else opmath(x.dtype)


def extreme(ctx: Lowering, kind: str, x: Tensor, how: Folding, spec: Spec) -> Tensor:
    """The largest or smallest elements."""
    if x.dtype is torch.bool:
        return fold(ctx, "any" if kind == "max" else "all", how, elements(x, torch.bool), spec)
    return fold(ctx, kind, how, elements(x, opmath(x.dtype)), spec)


def _extremes(kind: str) -> None:
    @lowering(f"aten.a{kind}.default")
    def dims(ctx: Lowering, x: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
        how = folding(x, dim, keepdim)
        return ctx.unsupported("a size that may be 0") if is_empty(ctx, how) else extreme(ctx, kind, x, how, ctx.out)

    @lowering(f"aten.{kind}.default")
    def all_(ctx: Lowering, x: Tensor) -> Tensor:
        return dims(ctx, x)

    @lowering(f"aten.{kind}.dim")
    def dim_(ctx: Lowering, x: Tensor, dim: int, keepdim: bool = False) -> Any:
        how = folding(x, dim, keepdim)
        values, places = ctx.outs
        assert values is not None and places is not None
        if is_empty(ctx, how):
            return ctx.unsupported("a size that may be 0")
        x = ctx.share(x)
        positions = fold(ctx, f"arg{kind}", how, elements(x, comparable(x)), places)
        return extreme(ctx, kind, x, how, values), positions

    @lowering(f"aten.arg{kind}.default")
    def arg(ctx: Lowering, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        how = folding(x, dim, keepdim)
        if is_empty(ctx, how):
            return ctx.unsupported("a size that may be 0")
        return fold(ctx, f"arg{kind}", how, elements(x, comparable(x)), ctx.out)


_extremes("max")
_extremes("min")


@lowering("aten.aminmax.default")
def aminmax(ctx: Lowering, x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    how = folding(x, dim, keepdim)
    low, high = ctx.outs
    assert low is not None and high is not None
    if is_empty(ctx, how):
        return ctx.unsupported("a size that may be 0")
    x = ctx.share(x)
    return extreme(ctx, "min", x, how, low), extreme(ctx, "max", x, how, high)


# ---------------------------------------------------------------------------------------------------------------------
# variance


def moments(ctx: Lowering, x: Tensor, how: Folding, correction: Any = 0) -> tuple[Tensor, Tensor]:
    """The mean and the variance, from the deviations of a second pass, in the dtype that eager computes in."""
    x = ctx.share(x)
    mean, _, squares = _deviations(ctx, x, how)
    freedom = _freedom(ctx, how, correction, mean.dtype)
    spec = inner_spec(ctx, how, mean.dtype, x.device)
    return mean, ctx.computed(lambda indices: div(squares.at(indices), freedom), spec)


def exact_moments(ctx: Lowering, x: Tensor, how: Folding, correction: Any) -> tuple[Tensor, Tensor]:
    """The mean and the variance without the rounding of the mean, which the sum of the deviations tells.

    The variance of elements that are all the same is exactly 0, as in eager: the gradient of its root is another there.
    """
    x = ctx.share(x)
    if ctx.kind.is_host and x.dtype is not torch.float64:
        return _double_moments(ctx, x, how, correction)
    near, deviation, squares = _deviations(ctx, x, how)
    wide = near.dtype
    spec = inner_spec(ctx, how, wide, x.device)
    rest = total(ctx, x, how, deviation, wide)
    count, freedom = ctx.scalar(how.count, wide), _freedom(ctx, how, correction, wide)

    def correction_of(indices: Indices) -> Value:
        value = div(rest.at(indices), count)
        # Nothing is nearer to an infinite mean; on the CPU eager has none of it.
        return where(ir.op("isinf", near.at(indices)), 0.0, value) if ctx.kind.is_host else value

    off = ctx.computed(correction_of, spec)

    def variance(indices: Indices) -> Value:
        whole = squares.at(indices)
        beside = where(ir.op("isinf", whole), 0.0, mul(off.at(indices), rest.at(indices)))
        return div(op("max", sub(whole, beside), 0.0), freedom)

    single = shapes.eq(how.count, 1)

    def exact(indices: Indices) -> Value:
        if ctx.known(single) is False:
            return add(near.at(indices), off.at(indices))
        # The mean of one element is that element, and infinite where that is: no deviation from it.
        return where(ctx.condition(single), near.at(indices), add(near.at(indices), off.at(indices)))

    return ctx.computed(exact, spec), ctx.computed(variance, spec)


def _double_moments(ctx: Lowering, x: Tensor, how: Folding, correction: Any) -> tuple[Tensor, Tensor]:
    """The mean and the variance in double precision, as on the CPU eager has them: neither sums nor squares overflow.

    Only where there is one number to return, eager begins with the mean of the elements' own dtype, whose sum may.
    """
    wide = torch.float64
    single = x.dtype is torch.float32 and len(ctx.outs) == 1 and all(x.shape[dim] is ONE for dim in how.kept)

    def middle(indices: Indices, summed: Value, mean: Value) -> Value:
        rounded = cast(cast(summed, x.dtype), wide)
        return where(ir.op("isinf", rounded), rounded, mean) if single else mean

    mean, _, squares = _deviations(ctx, x, how, wide, middle)
    spec, freedom = inner_spec(ctx, how, wide, x.device), _freedom(ctx, how, correction, wide)
    return mean, ctx.computed(lambda indices: div(squares.at(indices), freedom), spec)


def _running_mean(ctx: Lowering, x: Tensor, how: Folding, mean: Tensor) -> Tensor:
    """The mean as eager has it, element by element: behind an infinite one it is NaN, so only the last may be."""
    infinities = total(ctx, x, how, lambda i: cast(ir.op("isinf", cast(x.at(i), mean.dtype)), mean.dtype), mean.dtype)
    end = tuple([size - 1 for size in how.sizes])

    def running(indices: Indices) -> Value:
        value, last = mean.at(indices), ir.op("isinf", cast(x.at(how.source(indices, end)), mean.dtype))
        allowed = op("and", last, compare("eq", infinities.at(indices), 1.0))
        return where(op("and", ir.op("isinf", value), op("not", allowed)), math.nan, value)

    return ctx.computed(running, inner_spec(ctx, how, mean.dtype, x.device))


def _deviations(ctx: Lowering, x: Tensor, how: Folding, wide: torch.dtype | None = None,
                middle: Callable[[Indices, Value, Value], Value] | None = None) -> tuple[Tensor, Body, Tensor]:
    """The mean as it is rounded, how far elements are from it, and the sum of the squares of that.

    ``middle`` says from what else they are counted, for the sum of all and their mean.
    """
    wide = opmath(x.dtype) if wide is None else wide
    count = ctx.scalar(how.count, wide)
    summed = total(ctx, x, how, elements(x, wide), wide)

    def centre(indices: Indices) -> Value:
        whole = summed.at(indices)
        return div(whole, count) if middle is None else middle(indices, whole, div(whole, count))

    mean = ctx.computed(centre, inner_spec(ctx, how, wide, x.device))

    def deviation(indices: Indices) -> Value:
        return sub(cast(x.at(indices), wide), mean.at(how.result(indices)))

    def squared(indices: Indices) -> Value:
        away = deviation(indices)
        return mul(away, away)

    return mean, deviation, total(ctx, x, how, squared, wide)


def _freedom(ctx: Lowering, how: Folding, correction: Any, dtype: torch.dtype) -> Value:
    """The number of elements less the correction, not below 0."""
    if isinstance(correction, int) and (correction == 0 or ctx.known(how.count >= correction)):
        return ctx.scalar(how.count - correction, dtype)
    count = ctx.scalar(how.count, dtype)
    if count.op == "const" and not isinstance(correction, Expr):
        return ir.const(max(count.data - correction, 0.0), dtype)
    return op("max", sub(count, ctx.scalar(correction, dtype)), 0.0)


def _variances(name: str, root: bool) -> None:
    def finish(value: Value, dtype: torch.dtype) -> Value:
        return cast(ir.op("sqrt", value) if root else value, dtype)

    @lowering(f"aten.{name}.correction")
    def variance(ctx: Lowering, x: Tensor, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        how = folding(x, dim, keepdim)
        mean, var = exact_moments(ctx, x, how, 1 if correction is None else correction)
        if len(ctx.outs) == 1:
            return ctx.computed(lambda indices: finish(var.at(indices), dtype), dtype=(dtype := ctx.out.dtype))
        first, second = ctx.outs
        assert first is not None and second is not None
        if ctx.kind.is_host and not is_empty(ctx, how):
            mean = _running_mean(ctx, x, how, mean)
        return (
            ctx.computed(lambda indices: finish(var.at(indices), first.dtype), first),
            ctx.computed(lambda indices: cast(mean.at(indices), second.dtype), second),
        )


for _name in ("var", "var_mean"):
    _variances(_name, root=False)
for _name in ("std", "std_mean"):
    _variances(_name, root=True)


# ---------------------------------------------------------------------------------------------------------------------
# logarithms of sums, norms


@lowering("aten.logsumexp.default")
def logsumexp(ctx: Lowering, x: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    how = folding(x, dim, keepdim)
    if is_empty(ctx, how):
        return ctx.unsupported("a size that may be 0")
    dtype = ctx.out.dtype
    wide = opmath(dtype)
    x = ctx.share(x)
    spec = inner_spec(ctx, how, wide, x.device)
    largest = fold(ctx, "max", how, elements(x, wide, dtype), spec)

    def finite(indices: Indices) -> Value:
        """The largest element, or 0 where it is infinite: infinities then come out of exp and log."""
        value = largest.at(indices)
        return where(ir.op("isinf", value), 0.0, value)

    def rounded(value: Value) -> Value:
        """Eager calls an operator for each step, so short floats are rounded in between."""
        return cast(cast(value, dtype), wide)

    def body(indices: Indices) -> Value:
        return rounded(ir.op("exp", rounded(sub(rounded(x.at(indices)), finite(how.result(indices))))))

    summed = total(ctx, x, how, body, wide)
    return ctx.computed(lambda i: cast(op("add", rounded(ir.op("log", rounded(summed.at(i)))), finite(i)), dtype))


@lowering("aten.linalg_vector_norm.default")
def vector_norm(
    ctx: Lowering, x: Tensor, ord: Any = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    how = folding(x, dim, keepdim)
    if isinstance(ord, Expr):
        return ctx.unsupported("an order that is not constant")
    return _norm(ctx, x, how, float(ord))


def _norm(ctx: Lowering, x: Tensor, how: Folding, order: float) -> Tensor:
    dtype = ctx.out.dtype
    wide = opmath(dtype)

    def size_of(indices: Indices) -> Value:
        return ir.op("abs", cast(cast(x.at(indices), dtype), wide))

    if math.isinf(order):
        if is_empty(ctx, how):
            return ctx.unsupported("a size that may be 0")
        return fold(ctx, "max" if order > 0 else "min", how, size_of, ctx.out)
    if order == 0:
        return fold(ctx, "sum", how, lambda i: cast(compare("ne", size_of(i), 0.0), wide), ctx.out)
    if order == 1:
        return fold(ctx, "sum", how, size_of, ctx.out)
    if all(size is ONE for size in how.sizes):  # powers, which may overflow, are for several
        return ctx.computed(lambda i: cast(size_of(how.source(i, tuple([ZERO] * len(how.dims)))), dtype))
    # float32 squares overflow, and so do eager's
    power: Body = (lambda i: mul(size_of(i), size_of(i))) if order == 2 else (lambda i: op("pow", size_of(i), order))
    summed = total(ctx, x, how, power, wide)

    def root(indices: Indices) -> Value:
        value = summed.at(indices)
        return cast(ir.op("sqrt", value) if order == 2 else op("pow", value, 1.0 / order), dtype)

    return ctx.computed(root)


@lowering("aten.norm.Scalar", "aten.norm.ScalarOpt_dtype", "aten.norm.ScalarOpt_dim", "aten.norm.ScalarOpt_dim_dtype")
def norm(ctx: Lowering, x: Tensor, p: Any = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    return vector_norm(ctx, x, 2 if p is None else p, dim, keepdim)
