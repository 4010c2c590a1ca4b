"""Gradients of resampling: every point gives its gradient back to the elements that it was made of."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from .. import ir
from ..ir import Value
from .context import Lowering
from .parallel_scatters import obstacle
from .pooling import window_sum
from .registry import lowering
from .scalars import cast, mul, opmath
from .storing import copied, store
from .tensors import Indices, Spec, Tensor
from .upsampling import UNCLEAR, Tap, cubic_taps, linear_taps, nearest_place, scales_of, source_of
from .views_backward import scattered

MOST_ADDED_UP = 1024
"""Points of a result up to which a call takes longer than adding up their gradients one by one, which takes three times
as long for each as eager does."""


def _whole_factors(ctx: Lowering, grad: Tensor, count: int, scales: Sequence[Any]) -> list[int] | None:
    """How often every element was repeated, where that is the same number for all."""
    factors = []
    for k in range(-count, 0):
        old, new = ctx.out.shape[k], grad.shape[k]
        if not (old.is_constant and new.is_constant) or int(new) % max(int(old), 1):  # type: ignore[call-overload]
            return None
        factor = int(new) // int(old)  # type: ignore[call-overload]
        scale = scales[k]
        if scale is not None and scale != factor:
            return None
        factors.append(factor)
    return factors


def _nearest_backward(count: int, exact: bool) -> Any:
    def lower(ctx: Lowering, grad: Tensor, output_size: Any, input_size: Any, *given: Any) -> Tensor:
        out = ctx.out
        sizes, new = out.shape[-count:], grad.shape[-count:]
        scales = scales_of(ctx, sizes, new, given)
        if scales is None or any(ctx.known(size > 0) is not True for size in out.shape):
            return ctx.unsupported(f"{UNCLEAR}, or a size that may be 0")
        wide = opmath(out.dtype)
        factors = _whole_factors(ctx, grad, count, scales)
        if factors is not None:
            grad = ctx.share(grad)

            def element(indices: Indices, offsets: Sequence[Any]) -> Value:
                near = [i * f + k for i, f, k in zip(indices[-count:], factors, offsets, strict=True)]
                return cast(grad.at((*indices[:-count], *near)), wide)

            summed = window_sum(ctx, out, factors, wide, element)
            return ctx.computed(lambda i: cast(summed(i), out.dtype))

        def place(indices: Indices) -> Indices:
            near = [
                ctx.indirect(ctx.index(nearest_place(ctx, i, a, b, scale, exact)), a)
                for i, a, b, scale in zip(indices[-count:], sizes, new, scales, strict=True)
            ]
            return (*indices[:-count], *near)

        return scattered(ctx, grad, place)

    return lower


for _count in (1, 2, 3):
    lowering(f"aten.upsample_nearest{_count}d_backward.default")(_nearest_backward(_count, False))
    lowering(f"aten._upsample_nearest_exact{_count}d_backward.default")(_nearest_backward(_count, True))


def _interpolating_backward(count: int, taps: Any) -> Any:
    def lower(
        ctx: Lowering, grad: Tensor, output_size: Any, input_size: Any, align_corners: bool, *given: Any
    ) -> Tensor:
        out = ctx.out
        sizes, new = out.shape[-count:], grad.shape[-count:]
        scales = scales_of(ctx, sizes, new, given)
        if scales is None or any(ctx.known(size > 0) is not True for size in out.shape):
            return ctx.unsupported(f"{UNCLEAR}, or a size that may be 0")
        if not ctx.kind.runs_at_once and ctx.known(grad.numel <= MOST_ADDED_UP) is not True:
            return ctx.unsupported("adding up one element after the other takes longer than a call of eager's loops")
        if opmath(out.dtype) is not out.dtype:
            return ctx.unsupported("eager adds short floats up in a way of its own")
        if reason := obstacle(ctx, "add"):
            return ctx.unsupported(reason)
        dtype = out.dtype
        zeros = ctx.computed(lambda i: ir.const(0.0, dtype), Spec(out.shape, out.strides, dtype, out.device))
        target = copied(ctx, zeros, dtype, out)
        grad = ctx.share(grad)

        def around(indices: Indices) -> list[list[Tap]]:
            near: list[list[Tap]] = []
            for i, a, b, scale in zip(indices[-count:], sizes, new, scales, strict=True):
                if a is b and not scale:
                    near.append([Tap(ctx.indirect(ctx.index(i), a), ir.const(1.0, dtype))])
                else:
                    near.append(taps(ctx, source_of(ctx, i, a, b, scale, align_corners, dtype), a, b))
            return near

        _, probe = ctx.axes(grad.shape)
        for choice in itertools.product(*[range(len(part)) for part in around(probe)]):  # one tap of each dimension

            def place(indices: Indices, choice: tuple[int, ...] = choice) -> Indices:
                near = [part[k].place for part, k in zip(around(indices), choice, strict=True)]
                return (*indices[:-count], *near)

            def value(indices: Indices, choice: tuple[int, ...] = choice) -> Value:
                weight: Value | None = None
                for part, k in zip(around(indices), choice, strict=True):
                    weight = part[k].weight if weight is None else mul(weight, part[k].weight)
                assert weight is not None
                return mul(weight, cast(grad.at(indices), dtype))

            store(ctx, target, grad.shape, place, value, "add")
        return target

    return lower


for _count, _name in ((1, "upsample_linear1d"), (2, "upsample_bilinear2d"), (3, "upsample_trilinear3d")):
    lowering(f"aten.{_name}_backward.default")(_interpolating_backward(_count, linear_taps))
lowering("aten.upsample_bicubic2d_backward.default")(_interpolating_backward(2, cubic_taps))
