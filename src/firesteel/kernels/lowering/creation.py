"""New tensors: constants, ranges, identity matrices."""

from __future__ import annotations

from typing import Any

import torch

from ... import shapes
from .. import ir
from ..ir import Value
from .context import Lowering
from .elementwise import Operand, element
from .registry import lowering
from .scalars import add, cast, compare, div, mul, sub, where
from .tensors import Indices, Tensor


def filled(ctx: Lowering, number: Any) -> Tensor:
    """A tensor of one number."""
    dtype = ctx.out.dtype
    return ctx.computed(lambda indices: ctx.scalar(number, dtype))


@lowering(
    "aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default", "aten.empty.memory_format",
    "aten.empty_like.default", "aten.new_empty.default", "aten.empty_strided.default", "aten.new_empty_strided.default",
    "aten.empty_permuted.default", "aten.zero.default", "aten._efficientzerotensor.default",
)  # fmt: skip
def zeros(ctx: Lowering, *args: Any, **kwargs: Any) -> Tensor:
    return filled(ctx, 0)


@lowering("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(ctx: Lowering, *args: Any, **kwargs: Any) -> Tensor:
    return filled(ctx, 1)


@lowering("aten.full.default", "aten.full_like.default", "aten.new_full.default")
def full(ctx: Lowering, like: Any, *args: Any, **kwargs: Any) -> Tensor:
    return filled(ctx, kwargs["fill_value"] if "fill_value" in kwargs else args[-1])


@lowering("aten.scalar_tensor.default")
def scalar_tensor(ctx: Lowering, number: Any, **kwargs: Any) -> Tensor:
    return filled(ctx, number)


@lowering("aten.fill.Scalar")
def fill_scalar(ctx: Lowering, x: Tensor, value: Any) -> Tensor:
    return filled(ctx, value)


@lowering("aten.fill.Tensor")
def fill_tensor(ctx: Lowering, x: Tensor, value: Operand) -> Tensor:
    dtype = ctx.out.dtype
    return ctx.computed(lambda indices: cast(cast(element(ctx, value, indices, dtype), dtype), dtype))


@lowering("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def arange(ctx: Lowering, *args: Any, **kwargs: Any) -> Tensor:
    start, step = 0, 1
    if len(args) > 1:
        start = args[0]
    if len(args) > 2:
        step = args[2]
    step = kwargs.get("step", step)
    dtype = ctx.out.dtype
    if dtype.is_floating_point:
        wide = torch.float64 if dtype is torch.float64 else torch.float32
        if any(isinstance(number, (int, float)) and abs(number) > torch.finfo(wide).max for number in (start, step)):
            return ctx.unsupported("numbers beyond the range of the dtype")

        def body(indices: Indices) -> Value:
            place = ir.cast(ctx.index(indices[0]), wide)
            return cast(add(ctx.scalar(start, wide), mul(place, ctx.scalar(step, wide))), dtype)

        return ctx.computed(body)
    if isinstance(start, float) or isinstance(step, float):
        return ctx.unsupported("integers from floats")
    first, hop = shapes.as_expr(start), shapes.as_expr(step)
    return ctx.computed(lambda indices: ir.cast(ctx.index(first + indices[0] * hop), dtype))


@lowering("aten.linspace.default")
def linspace(ctx: Lowering, start: Any, end: Any, steps: Any, **kwargs: Any) -> Tensor:
    dtype = ctx.out.dtype
    if not dtype.is_floating_point or dtype in (torch.float16, torch.bfloat16) or isinstance(steps, shapes.Expr):
        return ctx.unsupported("linspace of other than float32 and float64")
    if steps == 1:
        return filled(ctx, start)
    first, last = (ctx.scalar(x, dtype) for x in (start, end))
    return ctx.computed(lambda indices: _between(ctx, first, last, steps, indices))


@lowering("aten.linspace.Tensor_Tensor", "aten.linspace.Tensor_Scalar", "aten.linspace.Scalar_Tensor")
def linspace_between(ctx: Lowering, start: Operand, end: Operand, steps: Any, **kwargs: Any) -> Tensor:
    dtype = ctx.out.dtype
    if dtype not in (torch.float32, torch.float64) or isinstance(steps, shapes.Expr):
        return ctx.unsupported("linspace of other than float32 and float64")
    ends = [ctx.share(x) if isinstance(x, Tensor) else x for x in (start, end)]
    if any(isinstance(x, Tensor) and x.dtype is torch.float64 and dtype is torch.float32 for x in ends):
        return ctx.unsupported("ends that are rounded")

    def body(indices: Indices) -> Value:
        first, last = (cast(x.at(()), dtype) if isinstance(x, Tensor) else ctx.scalar(x, dtype) for x in ends)
        return first if steps == 1 else _between(ctx, first, last, steps, indices)

    return ctx.computed(body)


def _between(ctx: Lowering, first: Value, last: Value, steps: int, indices: Indices) -> Value:
    """A point between two ends; eager counts from the nearer one."""
    dtype, place = first.dtype, ctx.index(indices[0])
    step = div(sub(last, first), float(steps - 1))
    up = add(first, mul(step, cast(place, dtype)))
    down = sub(last, mul(step, cast(sub(steps - 1, place), dtype)))
    return where(compare("lt", place, steps // 2), up, down)


@lowering("aten.eye.default", "aten.eye.m")
def eye(ctx: Lowering, *args: Any, **kwargs: Any) -> Tensor:
    dtype = ctx.out.dtype
    return ctx.computed(lambda indices: ir.cast(ctx.condition(shapes.eq(indices[0], indices[1])), dtype))


