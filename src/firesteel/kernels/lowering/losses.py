"""Losses that look up a target: the parts of cross entropy that are no arithmetic."""

from __future__ import annotations

from typing import Any

from ...shapes import Expr
from .. import ir
from ..ir import Value
from .context import Lowering
from .index_checks import CheckedIndex, checked
from .indexing import EMPTY
from .reducing import Folding, fold
from .registry import lowering
from .scalars import cast, compare, div, mul, neg, opmath, where
from .tensors import Indices, Spec, Tensor

NONE, MEAN, SUM = 0, 1, 2


@lowering("aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default")
def nll_loss(ctx: Lowering, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: Any) -> Any:
    if isinstance(ignore_index, Expr):
        return ctx.unsupported("an ignored index that is not constant")
    if x.ndim > 2 and reduction != NONE and opmath(x.dtype) is not x.dtype:
        return ctx.unsupported("eager adds short floats up in a way of its own")
    classes = 0 if x.ndim == 1 else 1
    place = checked(ctx, target, x.shape[classes], "target", ignored=ignore_index)
    if place is None:
        return ctx.unsupported(EMPTY)
    return _NegativeLogLikelihood(ctx, ctx.share(x), place, weight, reduction, ignore_index).lower()


class _NegativeLogLikelihood:
    def __init__(
        self, ctx: Lowering, x: Tensor, place: CheckedIndex, weight: Tensor | None, reduction: int, ignored: int
    ) -> None:
        self.ctx = ctx
        self.x = x
        self.place = place
        self.weight = weight
        self.reduction = reduction
        self.ignored = ignored
        self.wide = opmath(x.dtype)

    def counts(self, indices: Indices) -> Value:
        """Whether an element is not ignored."""
        return compare("ne", self.place.value(self._target(indices)), self.ignored)

    def _target(self, indices: Indices) -> Indices:
        return indices[: self.place.index.ndim]

    def weight_at(self, indices: Indices) -> Value:
        """The weight of an element's class; 0 for those that are ignored."""
        one = ir.const(1.0, self.wide)
        weight = one if self.weight is None else self._class_weight(self.weight, indices)
        return where(self.counts(indices), weight, 0.0)

    def _class_weight(self, weight: Tensor, indices: Indices) -> Value:
        return cast(weight.at((self.place.at(self._target(indices)),)), self.wide)

    def loss(self, indices: Indices) -> Value:
        """The loss of one element. An ignored target names some class or other, so that reading there is safe."""
        place = self.place.at(self._target(indices))
        at = (place,) if self.x.ndim == 1 else (indices[0], place, *indices[1:])
        value = neg(cast(self.x.at(at), self.wide))
        if self.weight is not None:
            value = mul(value, self._class_weight(self.weight, indices))
        return where(self.counts(indices), value, 0.0)

    def lower(self) -> Any:
        ctx, wide = self.ctx, self.wide
        out, total = ctx.outs
        assert out is not None and total is not None
        if self.reduction == NONE and self.x.ndim > 1:
            return (
                ctx.computed(lambda i: cast(self.loss(i), out.dtype), out),
                ctx.computed(lambda i: ir.const(0.0, total.dtype), total),
            )
        shape = self.place.index.shape
        how = Folding(shape, tuple(range(len(shape))), False)
        scalar = Spec((), (), wide, self.x.device)
        summed = fold(ctx, "sum", how, self.loss, scalar)
        weights = fold(ctx, "sum", how, self.weight_at, scalar)

        def result(indices: Indices) -> Value:
            value = summed.at(())
            return cast(div(value, weights.at(())) if self.reduction == MEAN else value, out.dtype)

        def all_weights(indices: Indices) -> Value:
            return cast(weights.at(()), total.dtype)

        return ctx.computed(result, out), ctx.computed(all_weights, total)
