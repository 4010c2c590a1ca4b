"""Gradients of views and of padding: zeros with the gradient in its place, sums where elements were seen repeatedly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ... import shapes
from ...shapes import Expr
from .. import ir
from .context import Lowering
from .padding import clamped, reflected
from .parallel_scatters import obstacle
from .registry import lowering
from .scalars import cast, opmath
from .selection import diagonal_scatter, select_scatter, slice_scatter
from .storing import copied, store
from .tensors import Indices, Spec, Tensor
from .views import wrap


def _zeros(ctx: Lowering) -> Tensor:
    dtype = ctx.out.dtype
    return ctx.computed(lambda indices: ctx.scalar(0, dtype))


@lowering("aten.slice_backward.default")
def slice_backward(
    ctx: Lowering, grad: Tensor, input_sizes: Any, dim: int, start: Any, end: Any, step: Any
) -> Tensor:
    return slice_scatter(ctx, _zeros(ctx), grad, dim, start, end, step)


@lowering("aten.select_backward.default")
def select_backward(ctx: Lowering, grad: Tensor, input_sizes: Any, dim: int, index: Any) -> Tensor:
    return select_scatter(ctx, _zeros(ctx), grad, dim, index)


@lowering("aten.diagonal_backward.default")
def diagonal_backward(
    ctx: Lowering, grad: Tensor, input_sizes: Any, offset: int, dim1: int, dim2: int
) -> Tensor:
    return diagonal_scatter(ctx, _zeros(ctx), grad, offset, dim1, dim2)


# ---------------------------------------------------------------------------------------------------------------------
# elements that were seen several times


def scattered(ctx: Lowering, grad: Tensor, place: Any) -> Tensor:
    """Zeros, to which the elements of the gradient are added, one after the other, at ``place`` of their indices."""
    out = ctx.out
    if reason := obstacle(ctx, "add"):
        return ctx.unsupported(reason)
    wide = opmath(out.dtype)
    zeros = ctx.computed(lambda i: ir.const(0, wide), Spec(out.shape, out.strides, wide, out.device))
    target = copied(ctx, zeros, wide, out)
    grad = ctx.share(grad)
    store(ctx, target, grad.shape, place, lambda i: cast(grad.at(i), wide), "add")
    return target if wide is out.dtype else ctx.computed(lambda i: cast(target.at(i), out.dtype))


@lowering("aten.unfold_backward.default")
def unfold_backward(ctx: Lowering, grad: Tensor, input_sizes: Any, dim: int, size: Any, step: Any) -> Tensor:
    if not ctx.out.shape or ctx.out.dtype is torch.bool:
        return ctx.unsupported("no dimensions, or sums of bools")
    dim = wrap(dim, len(ctx.out.shape))

    def place(indices: Indices) -> Indices:
        at = _indirect(ctx, indices[dim] * step + indices[-1], ctx.out.shape[dim])
        return (*indices[:dim], at, *indices[dim + 1 : -1])

    return scattered(ctx, grad, place)


def _indirect(ctx: Lowering, at: Expr, size: Expr) -> Expr:
    """A position that several points may have in common: not to be taken for an axis of the result."""
    return ctx.indirect(ctx.index(ctx.simplify(at)), size)


def _pad_backward(inside: Any) -> Any:
    def lower(ctx: Lowering, grad: Tensor, x: Tensor, padding: Sequence[Any]) -> Tensor:
        count = len(padding) // 2
        left = {x.ndim - 1 - k: shapes.as_expr(padding[2 * k]) for k in range(count)}

        def place(indices: Indices) -> Indices:
            return tuple([
                _indirect(ctx, inside(i - left[d], x.shape[d]), x.shape[d]) if d in left else i
                for d, i in enumerate(indices)
            ])  # fmt: skip

        return scattered(ctx, grad, place)

    return lower


for _count in (1, 2, 3):
    lowering(f"aten.reflection_pad{_count}d_backward.default")(_pad_backward(reflected))
    lowering(f"aten.replication_pad{_count}d_backward.default")(_pad_backward(clamped))
