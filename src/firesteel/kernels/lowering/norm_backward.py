"""Gradients of normalisations: two sums for each normalised row, and the gradients of weight and bias over all rows.

With ``c = x - mean`` and ``g = grad * weight``, over the n elements that were normalised together:

    grad_x = scale * g - c * (scale**3 * sum(g * c) / n) - scale * sum(g) / n
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import shapes
from ...shapes import Expr
from .. import ir
from ..ir import Value
from .batch_statistics import channel_sum
from .context import Lowering
from .reducing import Body, Folding, fold, is_empty, total
from .registry import lowering
from .scalars import add, cast, div, mul, opmath, sub
from .tensors import Indices, Spec, Tensor
from .views import reshaped

EMPTY = "a size that may be 0"


def _asked(ctx: Lowering, output_mask: Sequence[bool]) -> list[Spec | None]:
    """The descriptions of the gradients that are wanted."""
    return [spec if wanted else None for wanted, spec in zip(output_mask, ctx.outs, strict=True)]


def _sum_into(ctx: Lowering, how: Folding, body: Body, spec: Spec | None) -> Tensor | None:
    """A sum in the shape and dtype of a result; None where nobody asks for it."""
    if spec is None:
        return None
    flat = Spec(how.result_shape, ctx.spec(how.result_shape, spec.dtype).strides, spec.dtype, spec.device)
    return reshaped(ctx, fold(ctx, "sum", how, body, flat), spec.shape)


def _gradient_of_rows(
    ctx: Lowering, grad: Body, centred: Body, scale: Body, x: Tensor, how: Folding, out: Spec | None, level: bool = True
) -> Tensor | None:
    """The gradient of rows that were centred and scaled: see the top of the file; without ``level``, only scaled."""
    if out is None:
        return None
    wide = opmath(x.dtype)
    number = ctx.scalar(how.count, wide)
    plain = total(ctx, x, how, grad, wide) if level else None
    turned = total(ctx, x, how, lambda i: mul(grad(i), centred(i)), wide)

    def body(indices: Indices) -> Value:
        row = how.result(indices)
        factor = scale(row)
        slope = div(mul(mul(mul(turned.at(row), factor), factor), factor), number)
        value = sub(mul(factor, grad(indices)), mul(centred(indices), slope))
        if plain is not None:
            value = sub(value, div(mul(factor, plain.at(row)), number))
        return cast(value, out.dtype)

    return ctx.computed(body, out)


# ---------------------------------------------------------------------------------------------------------------------
# rows


@lowering("aten.native_layer_norm_backward.default")
def layer_norm_backward(
    ctx: Lowering,
    grad: Tensor,
    x: Tensor,
    normalized_shape: Sequence[Any],
    mean: Tensor | None,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    output_mask: Sequence[bool],
) -> Any:
    """With no mean the rows were only scaled, and there is no bias."""
    first = x.ndim - len(normalized_shape)
    inner = Folding(x.shape, tuple(range(first, x.ndim)), True)
    outer = Folding(x.shape, tuple(range(first)), False)
    if is_empty(ctx, inner) or is_empty(ctx, outer):
        return ctx.unsupported(EMPTY)
    wide = opmath(x.dtype)
    grad, x = ctx.share(grad), ctx.share(x)
    out, weight_spec, *bias_spec = _asked(ctx, output_mask)

    def centred(indices: Indices) -> Value:
        element = cast(x.at(indices), wide)
        return element if mean is None else sub(element, cast(mean.at(inner.result(indices)), wide))

    def plain(indices: Indices) -> Value:
        return cast(grad.at(indices), wide)

    def weighted(indices: Indices) -> Value:
        value = plain(indices)
        return value if weight is None else mul(value, cast(weight.at(indices[first:]), wide))

    def scale(place: Indices) -> Value:
        return cast(rstd.at(place), wide)

    return (
        _gradient_of_rows(ctx, weighted, centred, scale, x, inner, out, level=mean is not None),
        _sum_into(ctx, outer, lambda i: mul(plain(i), mul(centred(i), scale(inner.result(i)))), weight_spec),
        *[_sum_into(ctx, outer, plain, spec) for spec in bias_spec],
    )


@lowering("aten._fused_rms_norm_backward.default")
def rms_norm_backward(ctx: Lowering, grad: Tensor, x: Tensor, normalized_shape: Sequence[Any], rstd: Tensor,
                      weight: Tensor | None, output_mask: Sequence[bool]) -> Any:
    return layer_norm_backward(ctx, grad, x, normalized_shape, None, rstd, weight, None, output_mask)


# ---------------------------------------------------------------------------------------------------------------------
# channels


@lowering("aten.native_batch_norm_backward.default")
def batch_norm_backward(
    ctx: Lowering,
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_invstd: Tensor | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> Any:
    how = Folding(x.shape, tuple([d for d in range(x.ndim) if d != 1]), False)
    mean, deviation = (save_mean, save_invstd) if train else (running_mean, running_var)
    if is_empty(ctx, how) or mean is None or deviation is None:
        return ctx.unsupported(EMPTY)
    wide = opmath(x.dtype)
    grad, x = ctx.share(grad), ctx.share(x)
    out, weight_spec, bias_spec = _asked(ctx, output_mask)
    channels = ctx.spec((x.shape[1],), wide, x.device)

    def scale(channel: Indices) -> Value:
        value = cast(deviation.at(channel), wide)
        return value if train else div(1.0, ir.op("sqrt", add(value, ctx.scalar(eps, wide))))

    def centred(indices: Indices) -> Value:
        return sub(cast(x.at(indices), wide), cast(mean.at((indices[1],)), wide))

    def plain(indices: Indices) -> Value:
        return cast(grad.at(indices), wide)

    def factor(channel: Indices) -> Value:
        value = scale(channel)
        return value if weight is None else mul(value, cast(weight.at(channel), wide))

    if not train and weight_spec is None and bias_spec is None:
        assert out is not None
        return ctx.computed(lambda i: cast(mul(plain(i), factor((i[1],))), out.dtype), out), None, None
    sums = channel_sum(ctx, x, plain, channels)
    products = channel_sum(ctx, x, lambda i: mul(plain(i), centred(i)), channels)
    result = _channel_gradient(ctx, how, (plain, centred), factor, scale, (sums, products), out, train)
    return (
        result,
        _converted(ctx, lambda c: mul(products.at(c), scale(c)), weight_spec),
        _converted(ctx, sums.at, bias_spec),
    )


def _converted(ctx: Lowering, body: Body, spec: Spec | None) -> Tensor | None:
    return None if spec is None else ctx.computed(lambda i: cast(body(i), spec.dtype), spec)


def _channel_gradient(
    ctx: Lowering,
    how: Folding,
    elements: tuple[Body, Body],
    factor: Body,
    scale: Body,
    sums: tuple[Tensor, Tensor],
    out: Spec | None,
    train: bool,
) -> Tensor | None:
    """``(grad - level - centred * slope) * factor``, with what belongs to a channel computed once for each."""
    if out is None:
        return None
    plain, centred = elements
    if not train:
        return ctx.computed(lambda i: cast(mul(plain(i), factor((i[1],))), out.dtype), out)
    channels = ctx.spec((out.shape[1],), opmath(out.dtype), out.device)
    number = ctx.scalar(how.count, channels.dtype)

    def slope_of(channel: Indices) -> Value:
        return div(mul(mul(sums[1].at(channel), scale(channel)), scale(channel)), number)

    levels = ctx.computed(lambda c: div(sums[0].at(c), number), channels)
    slopes = ctx.computed(slope_of, channels)
    factors = ctx.computed(factor, channels)
    if not ctx.kind.runs_at_once:  # on a GPU a kernel more costs more than computing them again
        for tensor in (levels, slopes, factors):
            ctx.realize(tensor)

    def body(indices: Indices) -> Value:
        channel = (indices[1],)
        rest = sub(sub(plain(indices), levels.at(channel)), mul(centred(indices), slopes.at(channel)))
        return cast(mul(rest, factors.at(channel)), out.dtype)

    return ctx.computed(body, out)


# ---------------------------------------------------------------------------------------------------------------------
# groups of channels


@lowering("aten.native_group_norm_backward.default")
def group_norm_backward(
    ctx: Lowering,
    grad: Tensor,
    x: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    n: Any,
    c: Any,
    hxw: Any,
    group: int,
    output_mask: Sequence[bool],
) -> Any:
    out, weight_spec, bias_spec = _asked(ctx, output_mask)
    channels = x.shape[1] // group
    wide = opmath(x.dtype)
    groups = shapes.const(group)
    whole = (x.shape[0], groups, channels, *x.shape[2:])
    inside = Folding(whole, tuple(range(3, len(whole))), False)
    if any(ctx.known(size > 0) is not True for size in whole):
        return ctx.unsupported(EMPTY)
    grads, elements = (reshaped(ctx, ctx.share(t), whole) for t in (grad, x))
    means, scales = (reshaped(ctx, t, (x.shape[0], groups)) for t in (mean, rstd))

    def plain(indices: Indices) -> Value:
        return cast(grads.at(indices), wide)

    def centred(indices: Indices) -> Value:
        return sub(cast(elements.at(indices), wide), cast(means.at(indices[:2]), wide))

    # Sums over the elements of one channel of one image serve all three gradients.
    sums = total(ctx, x, inside, plain, wide)
    products = total(ctx, x, inside, lambda i: mul(plain(i), centred(i)), wide)

    def weight_at(place: Indices) -> Value | None:
        return None if weight is None else cast(weight.at((place[1] * channels + place[2],)), wide)

    def weighted(part: Tensor) -> Body:
        def body(indices: Indices) -> Value:
            factor = weight_at(indices)
            return part.at(indices) if factor is None else mul(part.at(indices), factor)

        return body

    result: Tensor | None = None
    if out is not None:
        result = _group_gradient(
            ctx, whole, channels, (weighted(sums), weighted(products)), (plain, centred, weight_at), scales, out
        )
    images = Folding((x.shape[0], groups, channels), (0,), False)

    def normalised(indices: Indices) -> Value:
        return mul(products.at(indices), cast(scales.at(indices[:2]), wide))

    return result, _sum_into(ctx, images, normalised, weight_spec), _sum_into(ctx, images, sums.at, bias_spec)


def _group_gradient(
    ctx: Lowering,
    whole: tuple[Expr, ...],
    channels: Expr,
    sums: tuple[Body, Body],
    elements: tuple[Body, Body, Any],
    scales: Tensor,
    out: Spec,
) -> Tensor:
    plain, centred, weight_at = elements
    wide = opmath(out.dtype)
    groupwise = Folding(whole[:3], (2,), False)
    count: Expr = channels
    for size in whole[3:]:
        count = count * size
    number = ctx.scalar(count, wide)
    spec = ctx.spec(whole[:2], wide, out.device)
    level, slope = (fold(ctx, "sum", groupwise, part, spec) for part in sums)

    def body(indices: Indices) -> Value:
        channel = ctx.simplify(indices[1] % channels)
        place = (indices[0], ctx.simplify(indices[1] // channels), channel, *indices[2:])
        row = place[:2]
        scale = cast(scales.at(row), wide)
        factor = weight_at(place)
        value = mul(plain(place), scale if factor is None else mul(scale, factor))
        turn = div(mul(mul(mul(slope.at(row), scale), scale), scale), number)
        rest = sub(value, mul(centred(place), turn))
        return cast(sub(rest, div(mul(scale, level.at(row)), number)), out.dtype)

    return ctx.computed(body, out)


__all__ = ["batch_norm_backward", "group_norm_backward", "layer_norm_backward", "rms_norm_backward"]
