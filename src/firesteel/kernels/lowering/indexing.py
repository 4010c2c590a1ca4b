"""Reading at places that data decides on: gather, indexing with tensors, embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...shapes import Expr
from .context import Lowering
from .index_checks import CheckedIndex, checked
from .reducing import Body
from .registry import lowering
from .tensors import ONE, ZERO, Indices, Tensor
from .views import expanded, reshaped, wrap

EMPTY = "a size that may be 0"


@lowering("aten.gather.default")
def gather(ctx: Lowering, x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    x, index = with_dimension(ctx, ctx.share(x)), with_dimension(ctx, index)
    if x.ndim != index.ndim:
        return ctx.unsupported("no indices")
    dim = wrap(dim, x.ndim)
    place = checked(ctx, index, x.shape[dim], "gather", dim)
    if place is None:
        return ctx.unsupported(EMPTY)
    body: Body = lambda i: x.at((*i[:dim], place.at(i), *i[dim + 1 :]))  # noqa: E731
    return ctx.computed(body if ctx.out.shape else lambda i: body((ZERO,)))


def with_dimension(ctx: Lowering, x: Tensor) -> Tensor:
    """A tensor without dimensions as one with one."""
    return x if x.ndim else reshaped(ctx, x, (ONE,))


@lowering("aten.embedding.default")
def embedding(
    ctx: Lowering,
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    place = checked(ctx, indices, weight.shape[0], "embedding", others=weight.shape[1:])
    if place is None:
        return ctx.unsupported(EMPTY)
    return ctx.computed(lambda i: weight.at((place.at(i[:-1]), i[-1])))


@lowering("aten.index_select.default")
def index_select(ctx: Lowering, x: Tensor, dim: int, index: Tensor) -> Tensor:
    x, index = with_dimension(ctx, ctx.share(x)), with_dimension(ctx, index)
    dim = wrap(dim, x.ndim)
    place = checked(ctx, index, x.shape[dim], "index_select", dim, others=x.shape)
    if place is None:
        return ctx.unsupported(EMPTY)
    body: Body = lambda i: x.at((*i[:dim], place.at((i[dim],)), *i[dim + 1 :]))  # noqa: E731
    return ctx.computed(body if ctx.out.shape else lambda i: body((ZERO,)))


@lowering("aten.take.default")
def take(ctx: Lowering, x: Tensor, index: Tensor) -> Tensor:
    flat = reshaped(ctx, ctx.share(x), (x.numel,))
    place = checked(ctx, index, x.numel, "take", negative=True)
    if place is None:
        return ctx.unsupported(EMPTY)
    return ctx.computed(lambda i: flat.at((place.at(i),)))


# ---------------------------------------------------------------------------------------------------------------------
# indexing with tensors


class IndexedPlaces:
    """``x[indices]``: the shape of the result, and where its elements are in ``x``.

    Dimensions that are indexed by tensors are replaced by those of the tensors, broadcast to one shape: in the place of
    the first of them, or in front where others are in between.
    """

    def __init__(self, ctx: Lowering, x: Tensor, indices: Sequence[Tensor | None], check: bool = True) -> None:
        self.ctx = ctx
        self.reason = ""
        self.ndim = x.ndim
        given: list[tuple[int, Tensor]] = [(d, index) for d, index in enumerate(indices) if index is not None]
        if any(index.dtype in (torch.bool, torch.uint8) for _, index in given):
            self.reason = "masks"
            return
        if not given:
            self.reason = "no index"
            return
        shape = broadcast_shapes(ctx, [index.shape for _, index in given])
        if shape is None:
            self.reason = "sizes that may be 1"
            return
        self.broadcast = shape
        self.dims = [d for d, _ in given]
        adjacent = self.dims == list(range(self.dims[0], self.dims[0] + len(self.dims)))
        self.first = self.dims[0] if adjacent else 0
        self.places: dict[int, CheckedIndex] = {}
        self.ranks: dict[int, tuple[Expr, ...]] = {}
        for position, (d, index) in enumerate(given):
            place = checked(ctx, index, x.shape[d], "index" if check else None, position, negative=True,
                            others=x.shape if check else ())
            if place is None:
                self.reason = EMPTY
                return
            self.places[d] = place
            self.ranks[d] = index.shape

    def shape(self, x: Tensor) -> tuple[Expr, ...]:
        """The sizes of the result."""
        rest = [size for d, size in enumerate(x.shape) if d not in self.dims]
        return (*rest[: self.first], *self.broadcast, *rest[self.first :])

    def at(self, indices: Indices) -> Indices:
        """The place in ``x`` of an element of the result."""
        count = len(self.broadcast)
        inner = indices[self.first : self.first + count]
        rest = iter((*indices[: self.first], *indices[self.first + count :]))
        return tuple([self._place(d, inner) if d in self.places else next(rest) for d in range(self.ndim)])

    def _place(self, d: int, inner: Indices) -> Expr:
        sizes = self.ranks[d]
        own = inner[len(inner) - len(sizes) :]
        wanted = self.broadcast[len(inner) - len(sizes) :]
        # a size of 1 is repeated
        return self.places[d].at(tuple([
            i * 0 if size is ONE and full is not ONE else i for i, size, full in zip(own, sizes, wanted, strict=True)
        ]))  # fmt: skip


def broadcast_shapes(ctx: Lowering, parts: Sequence[Sequence[Expr]]) -> tuple[Expr, ...] | None:
    """One shape for several; None where it is not known which sizes are 1."""
    result: list[Expr] = [ONE] * max(map(len, parts))
    for shape in parts:
        for k, size in enumerate(reversed(shape)):
            at = len(result) - 1 - k
            if result[at] is ONE:
                result[at] = size
            elif size is not ONE and not ctx.same(size, result[at]):
                return None
    return tuple(result)


@lowering("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(ctx: Lowering, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    x = ctx.share(x)
    where = IndexedPlaces(ctx, x, indices)
    if where.reason:
        return ctx.unsupported(where.reason)
    return ctx.computed(lambda i: x.at(where.at(i)))


@lowering("aten._unsafe_masked_index.default")
def masked_index(ctx: Lowering, x: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: Any) -> Tensor:
    # Where the mask is false indices may be anything, so there is nothing to check.
    x = ctx.share(x)
    where = IndexedPlaces(ctx, x, indices, check=False)
    if where.reason:
        return ctx.unsupported(where.reason)
    seen = expanded(ctx, mask, ctx.out.shape)
    return ctx.computed(lambda i: ctx.masked(seen.at(i), lambda: x.at(where.at(i)), ctx.scalar(fill, x.dtype)))
