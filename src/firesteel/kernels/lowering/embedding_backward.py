"""Gradients of embeddings: the rows of the gradient, added to the rows of the table that were looked up, in order."""

from __future__ import annotations

from typing import Any

import torch

from ...shapes import Expr
from .. import ir
from ..ir import Value
from .context import Lowering
from .index_checks import checked
from .registry import lowering
from .scalars import cast, compare, div, opmath, where
from .scattering import copied, store, taken
from .tensors import Indices, Spec, Tensor


@lowering("aten.embedding_dense_backward.default")
def embedding_dense_backward(
    ctx: Lowering, grad: Tensor, indices: Tensor, num_weights: Any, padding_idx: Any, scale_grad_by_freq: bool
) -> Tensor:
    out = ctx.out
    if isinstance(padding_idx, Expr):
        return ctx.unsupported("a padding index that is not constant")
    # The indices were checked when the rows were looked up.
    row = checked(ctx, indices, out.shape[0], None)
    if row is None:
        return ctx.unsupported("a size that may be 0")
    wide = opmath(out.dtype)
    zeros = ctx.computed(lambda i: ir.const(0.0, wide), Spec(out.shape, out.strides, wide, out.device))
    target = copied(ctx, zeros, wide, out)
    counts = _counts(ctx, indices, out) if scale_grad_by_freq else None
    grad = ctx.share(grad)

    def value(at: Indices) -> Value:
        element = cast(grad.at(at), wide)
        if counts is not None:
            element = div(element, cast(counts.at((row.at(at[:-1]),)), wide))
        if padding_idx < 0:
            return element
        return where(compare("eq", row.value(at[:-1]), padding_idx), 0.0, element)

    store(ctx, target, grad.shape, lambda i: (row.at(i[:-1]), i[-1]), value, "add")
    return target if wide is out.dtype else ctx.computed(lambda i: cast(target.at(i), out.dtype))


@lowering("firesteel.add_embedding_gradient.default")
def add_embedding_gradient(ctx: Lowering, x: Tensor, grad: Tensor, indices: Tensor, padding_idx: Any) -> Tensor:
    out = ctx.out
    row = checked(ctx, indices, out.shape[0], None)
    if row is None or isinstance(padding_idx, Expr) or opmath(out.dtype) is not out.dtype:
        return ctx.unsupported("a size that may be 0, a padding index that is not constant or short floats")
    grad = ctx.share(grad)
    target = taken(ctx, x) or copied(ctx, x, out.dtype, out)

    def value(at: Indices) -> Value:
        if padding_idx < 0:
            return grad.at(at)
        return where(compare("eq", row.value(at[:-1]), padding_idx), 0.0, grad.at(at))

    store(ctx, target, grad.shape, lambda i: (row.at(i[:-1]), i[-1]), value, "add")
    return target


def _counts(ctx: Lowering, indices: Tensor, out: Spec) -> Tensor:
    """How often each row was looked up."""
    row = checked(ctx, indices, out.shape[0], None)
    assert row is not None
    spec = ctx.spec((out.shape[0],), torch.int64, out.device)
    counts = copied(ctx, ctx.computed(lambda i: ir.const(0, torch.int64), spec), torch.int64, spec)
    store(ctx, counts, indices.shape, lambda i: (row.at(i),), lambda i: ir.const(1, torch.int64), "add")
    return counts
