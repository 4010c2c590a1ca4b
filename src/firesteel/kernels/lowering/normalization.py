"""Normalisation: elements less a mean, over a deviation, times a weight, plus a bias."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ... import shapes
from ...records import dataclass
from .. import ir
from ..ir import Value
from .batch_statistics import parted_moments
from .context import Lowering
from .reducing import Folding, inner_spec, is_empty
from .reductions import moments
from .registry import lowering
from .scalars import add, cast, div, mul, neg, op, opmath, sub, through
from .tensors import ZERO, Indices, Spec, Tensor
from .views import reshaped


def _affine(value: Value, weight: Tensor | None, bias: Tensor | None, place: Indices) -> Value:
    """``value * weight + bias``, computed in the value's dtype."""
    if weight is not None:
        value = mul(value, cast(weight.at(place), value.dtype))
    return value if bias is None else add(value, cast(bias.at(place), value.dtype))


def _results(ctx: Lowering, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors in the shape and dtype of the operator's first results."""
    results: list[Tensor] = []
    for tensor, spec in zip(tensors, ctx.outs, strict=False):
        assert spec is not None
        seen = reshaped(ctx, tensor, spec.shape)
        results.append(seen if seen.dtype is spec.dtype else _converted(ctx, seen, spec))
    return tuple(results)


def _converted(ctx: Lowering, x: Tensor, spec: Spec) -> Tensor:
    return ctx.computed(lambda indices: cast(x.at(indices), spec.dtype), spec)


def _reciprocal_deviation(ctx: Lowering, variance: Tensor, eps: Any, spec: Spec, mean: Tensor | None = None) -> Tensor:
    """``1 / sqrt(variance + eps)``, once for each row; with ``mean``, NaN where eager's variance is.

    On the CPU eager joins the moments of parts of a row, beginning with a part of no elements and mean 0: it adds
    the square of the mean times 0, which is NaN where the square overflows (rows of 1e20). The GPU's eager kernels
    never do that, so kernels for a GPU must not either.
    """

    def body(indices: Indices) -> Value:
        spread = variance.at(indices)
        if mean is not None and ctx.kind.moments_overflow:
            middle = mean.at(indices)
            spread = add(spread, mul(mul(middle, middle), 0.0))
        return div(1.0, ir.op("sqrt", add(spread, ctx.scalar(eps, spec.dtype))))

    return ctx.realize(ctx.computed(body, spec))


def _finite_mean(ctx: Lowering, mean: Tensor) -> Tensor:
    """A mean as eager finds it on the CPU, by steps from one mean to the next: NaN instead of an infinity.

    Adding the mean times 0 changes no finite mean. On a GPU eager's means may be infinite, and stay as they are.
    """
    if not ctx.kind.moments_overflow:
        return mean
    spec = ctx.spec(mean.shape, mean.dtype, mean.device)

    def body(indices: Indices) -> Value:
        value = mean.at(indices)
        return add(value, mul(value, 0.0))

    return ctx.computed(body, spec)


@lowering("aten.native_layer_norm.default")
def layer_norm(
    ctx: Lowering, x: Tensor, normalized_shape: Sequence[Any], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Any:
    out = ctx.outs[0]
    assert out is not None
    first = x.ndim - len(normalized_shape)
    how = Folding(x.shape, tuple(range(first, x.ndim)), True)
    if is_empty(ctx, how):
        return ctx.unsupported("a size that may be 0")
    wide = opmath(x.dtype)
    x = ctx.share(x)
    mean, variance = moments(ctx, x, how)
    mean = _finite_mean(ctx, mean)
    scale = _reciprocal_deviation(ctx, variance, eps, inner_spec(ctx, how, wide, x.device), mean)

    def body(indices: Indices) -> Value:
        row = how.result(indices)
        element = cast(x.at(indices), wide)
        if wide is x.dtype:
            value = mul(sub(element, mean.at(row)), scale.at(row))
        else:  # short floats show the rounding of eager's order
            value = ir.op("fma", element, scale.at(row), mul(neg(scale.at(row)), mean.at(row)))
        value = _affine(value, weight, bias, indices[first:])
        return cast(value if bias is not None else add(value, 0.0), out.dtype)  # eager adds something either way

    return _results(ctx, ctx.computed(body, out), mean, scale)


@lowering("aten.native_group_norm.default")
def group_norm(
    ctx: Lowering,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    n: Any,
    c: Any,
    hxw: Any,
    group: int,
    eps: float,
) -> Any:
    out = ctx.outs[0]
    assert out is not None
    channels = x.shape[1] // group
    shape = (x.shape[0], shapes.const(group), channels, *x.shape[2:])
    x = ctx.share(x)
    grouped = reshaped(ctx, x, shape)
    how = Folding(shape, tuple(range(2, len(shape))), True)
    if is_empty(ctx, how):
        return ctx.unsupported("a size that may be 0")
    wide = opmath(x.dtype)
    mean, variance = moments(ctx, grouped, how)
    mean = _finite_mean(ctx, mean)
    scale = _reciprocal_deviation(ctx, variance, eps, inner_spec(ctx, how, wide, x.device), mean)

    def body(indices: Indices) -> Value:
        row = (indices[0], ctx.simplify(indices[1] // channels), *[ZERO] * (len(shape) - 2))
        value = mul(sub(cast(x.at(indices), wide), mean.at(row)), scale.at(row))
        return cast(_affine(value, weight, bias, (indices[1],)), out.dtype)

    return _results(ctx, ctx.computed(body, out), mean, scale)


# ---------------------------------------------------------------------------------------------------------------------
# batch norm


@lowering("aten._native_batch_norm_legit_no_training.default")
def batch_norm_no_training(
    ctx: Lowering,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> Any:
    out = ctx.outs[0]
    assert out is not None
    body = _with_statistics(ctx, x, weight, bias, running_mean, running_var, eps, out.dtype)
    return ctx.computed(body, out), *[_nothing(ctx, spec) for spec in ctx.outs[1:]]


@lowering("aten.native_batch_norm.default", "aten._native_batch_norm_legit.default")
def batch_norm(
    ctx: Lowering,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    if training or running_mean is None or running_var is None:
        return ctx.unsupported("changes the running statistics")
    return batch_norm_no_training(ctx, x, weight, bias, running_mean, running_var, momentum, eps)


@lowering("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    ctx: Lowering, x: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, momentum: float, eps: float
) -> Any:
    statistics = _batch_statistics(ctx, x, eps)
    if statistics is None:
        return ctx.unsupported("a size that may be 0")
    mean, scale = statistics.mean, statistics.scale
    out = ctx.outs[0]
    assert out is not None
    body = _normalised(ctx, x, weight, bias, mean, scale, out.dtype)
    return _results(ctx, ctx.computed(body, out), mean, scale)


@lowering("aten._native_batch_norm_legit_functional.default")
def batch_norm_functional(
    ctx: Lowering,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    out, mean_spec, scale_spec, new_mean_spec, new_var_spec = ctx.outs
    assert out is not None and mean_spec is not None and new_mean_spec is not None and new_var_spec is not None
    if not training:
        body = _with_statistics(ctx, x, weight, bias, running_mean, running_var, eps, out.dtype)
        nothing = _nothing(ctx, mean_spec), _nothing(ctx, scale_spec)
        return ctx.computed(body, out), *nothing, running_mean, running_var
    statistics = _batch_statistics(ctx, x, eps)
    if statistics is None:
        return ctx.unsupported("a size that may be 0")
    mean, scale = statistics.mean, statistics.scale
    wide = opmath(x.dtype)
    count = _channel_folding(x).count

    def moved(old: Tensor, new: Tensor, spec: Spec, unbiased: bool) -> Tensor:
        """The running statistics, moved towards those of the batch."""
        # On the CPU, eager rounds every step of this to bfloat16, but not to float16.
        step = torch.bfloat16 if ctx.kind.rounds_steps and spec.dtype is torch.bfloat16 else wide
        shares = torch.tensor([momentum, 1.0 - momentum], dtype=step).tolist()

        def body(indices: Indices) -> Value:
            value = new.at(indices)
            if unbiased:
                number = ctx.scalar(count, wide)
                value = mul(value, div(number, op("sub", ctx.scalar(count, wide), 1.0)))
            moves = mul(through(value, step), shares[0])
            kept = mul(cast(old.at(indices), wide), shares[1])
            return cast(add(through(moves, step), through(kept, step)), spec.dtype)

        return ctx.computed(body, spec)

    body = _normalised(ctx, x, weight, bias, mean, scale, out.dtype)
    results = _results(ctx, ctx.computed(body, out), mean, scale)
    return (*results, moved(running_mean, statistics.exact_mean, new_mean_spec, False),
            moved(running_var, statistics.variance, new_var_spec, True))


@lowering("aten._batch_norm_with_update_functional.default")
def batch_norm_with_update(
    ctx: Lowering,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> Any:
    out, mean, scale, reserve, new_mean, new_var = ctx.outs
    if reserve is None or any(not size.is_constant or int(size) for size in reserve.shape):  # type: ignore[call-overload]
        return ctx.unsupported("memory for the library's own use")
    ctx.outs = out, mean, scale, new_mean, new_var
    results = batch_norm_functional(ctx, x, weight, bias, running_mean, running_var, True, momentum, eps)
    ctx.outs = out, mean, scale, reserve, new_mean, new_var
    return results if results is NotImplemented else (*results[:3], _nothing(ctx, reserve), *results[3:])


def _channel_folding(x: Tensor) -> Folding:
    return Folding(x.shape, tuple([d for d in range(x.ndim) if d != 1]), False)


@dataclass(frozen=True)
class _Statistics:
    """Of each channel of a batch."""

    mean: Tensor
    """As the elements are normalised with."""
    scale: Tensor
    """The reciprocal deviation, as the elements are normalised with."""
    exact_mean: Tensor
    """What the running mean is moved to."""
    variance: Tensor


def _batch_statistics(ctx: Lowering, x: Tensor, eps: float) -> _Statistics | None:
    """The statistics of each channel; None where there may be no elements."""
    how = _channel_folding(x)
    if is_empty(ctx, how):
        return None
    wide = opmath(x.dtype)
    spec = inner_spec(ctx, how, wide, x.device)
    mean, variance = parted_moments(ctx, x) or moments(ctx, x, how)
    scale = _reciprocal_deviation(ctx, variance, eps, spec)
    if wide is x.dtype or not ctx.kind.rounds_steps:
        return _Statistics(mean, scale, mean, variance)
    # On the CPU eager normalises with statistics that are rounded to short floats.
    return _Statistics(_shortened(ctx, mean, x.dtype, spec), _shortened(ctx, scale, x.dtype, spec), mean, variance)


def _shortened(ctx: Lowering, exact: Tensor, dtype: torch.dtype, spec: Spec) -> Tensor:
    return ctx.computed(lambda indices: cast(cast(exact.at(indices), dtype), spec.dtype), spec)


def _with_statistics(
    ctx: Lowering,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    eps: float,
    dtype: torch.dtype,
) -> Any:
    wide = opmath(x.dtype)
    spec = ctx.spec(variance.shape, wide, x.device)
    scale = ctx.computed(
        lambda i: div(1.0, ir.op("sqrt", add(cast(variance.at(i), wide), ctx.scalar(eps, wide)))), spec
    )
    return _normalised(ctx, x, weight, bias, mean, scale, dtype)


def _normalised(
    ctx: Lowering,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    scale: Tensor,
    dtype: torch.dtype,
) -> Any:
    """``x * (scale * weight) + (bias - mean * (scale * weight))``, with the factors computed once for each channel."""
    wide = opmath(x.dtype)
    spec = ctx.spec((x.shape[1],), wide, x.device)

    def factor(indices: Indices) -> Value:
        value = scale.at(indices)
        return value if weight is None else mul(value, cast(weight.at(indices), wide))

    factors = ctx.computed(factor, spec)

    def shift(indices: Indices) -> Value:
        start = ir.const(0.0, wide) if bias is None else cast(bias.at(indices), wide)
        return sub(start, mul(cast(mean.at(indices), wide), factors.at(indices)))

    shifts = ctx.computed(shift, spec)
    # On a GPU a kernel more costs more than computing them again.
    if not ctx.kind.runs_at_once and ctx.known(x.numel > 64 * x.shape[1]) is not False:
        ctx.realize(factors)
        ctx.realize(shifts)

    def body(indices: Indices) -> Value:
        channel = (indices[1],)
        return cast(add(mul(cast(x.at(indices), wide), factors.at(channel)), shifts.at(channel)), dtype)

    return body


def _nothing(ctx: Lowering, spec: Spec | None) -> Tensor | None:
    """The empty statistics that inference returns."""
    if spec is None:
        return None
    return ctx.computed(lambda indices: ir.const(0.0, spec.dtype), spec)
