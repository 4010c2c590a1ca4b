"""Reductions and scans in general: the computation that folds some dimensions of a tensor, and what it accumulates in.

A reduction adds up in the dtype of its value and is stored in the dtype of its buffer: a sum of bfloat16 is a float32
value reduced into a bfloat16 buffer, rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ...records import dataclass
from ...shapes import Expr
from .. import ir
from ..ir import Value
from .context import Lowering
from .scalars import add, cast, opmath
from .tensors import ONE, ZERO, Indices, Spec, Stored, Tensor, contiguous_strides
from .views import wrap

Body = Callable[[Indices], Value]
BEGIN_WITH_ZERO = frozenset({"sum", "cumsum", "logcumsumexp"})


@dataclass(frozen=True)
class Folding:
    """Which dimensions of a shape are reduced, and how the rest becomes the shape of the result."""

    shape: tuple[Expr, ...]
    dims: tuple[int, ...]
    """The reduced ones, in order."""
    keepdim: bool

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple([d for d in range(len(self.shape)) if d not in self.dims])

    @property
    def result_shape(self) -> tuple[Expr, ...]:
        if self.keepdim:
            return tuple([ONE if d in self.dims else size for d, size in enumerate(self.shape)])
        return tuple([self.shape[d] for d in self.kept])

    @property
    def sizes(self) -> tuple[Expr, ...]:
        """The sizes of the reduced dimensions."""
        return tuple([self.shape[d] for d in self.dims])

    @property
    def count(self) -> Expr:
        """How many elements become one."""
        total: Expr = ONE
        for size in self.sizes:
            total = total * size
        return total

    def source(self, indices: Indices, inner: Indices) -> Indices:
        """The place in the source for indices of the result and of the reduced dimensions."""
        places: list[Expr] = [ZERO] * len(self.shape)
        outer = [indices[d] for d in self.kept] if self.keepdim else indices
        for d, i in zip(self.kept, outer, strict=True):
            places[d] = i
        for d, i in zip(self.dims, inner, strict=True):
            places[d] = i
        return tuple(places)

    def result(self, indices: Indices) -> Indices:
        """The place in the result for a place in the source."""
        if self.keepdim:
            return tuple([ZERO if d in self.dims else i for d, i in enumerate(indices)])
        return tuple([indices[d] for d in self.kept])


def folding(x: Tensor, dims: int | Sequence[int] | None, keepdim: bool = False, none_means_all: bool = True) -> Folding:
    """How an operator's ``dim`` and ``keepdim`` fold a tensor; no dimension means all of them."""
    if dims is None or (not isinstance(dims, int) and not dims and none_means_all):
        chosen = tuple(range(x.ndim))
    elif x.ndim == 0:
        chosen = ()
    else:
        chosen = tuple(sorted({wrap(dim, x.ndim) for dim in ((dims,) if isinstance(dims, int) else dims)}))
    return Folding(x.shape, chosen, keepdim)


def fold(ctx: Lowering, kind: str, how: Folding, body: Body, spec: Spec) -> Tensor:
    """Reduce ``body``, which is asked at places of the source, into a buffer of the given description."""
    if kind not in ("argmax", "argmin") and all(size is ONE for size in how.sizes):
        return ctx.computed(
            lambda indices: cast(of_one(kind, body(how.source(indices, (ZERO,) * len(how.dims)))), spec.dtype), spec)
    axes, indices = ctx.axes(how.result_shape)
    reduce_axes, inner = ctx.reduce_axes(how.sizes)
    if not reduce_axes:
        return ctx.computed(lambda indices: ir.const(0, torch.int64), spec)
    return emit_fold(ctx, kind, spec, axes, indices, reduce_axes, lambda: body(how.source(indices, inner)))


def of_one(kind: str, value: Value) -> Value:
    """What a reduction gives for one element: sums begin with 0, to which -0.0 is added."""
    return add(value, 0.0) if kind in BEGIN_WITH_ZERO and value.dtype.is_floating_point else value


def emit_fold(
    ctx: Lowering,
    kind: str,
    spec: Spec,
    axes: tuple[ir.Axis, ...],
    indices: Indices,
    reduce_axes: tuple[ir.Axis, ...],
    value: Callable[[], Value],
    place: Indices | None = None,
) -> Stored:
    """Emit a reduction over axes that exist already; ``place`` says where a scan stores, at its own axis."""
    target = ctx.new_buffer(Spec(spec.shape, own_strides(spec), spec.dtype, spec.device))
    outer, ctx.origins = ctx.origins, {}
    outer_mask, ctx.mask = ctx.mask, None
    try:
        folded = value()
        if ctx.node is not None:
            ctx.origins.setdefault(ctx.node)
        where = ir.Place(target.buffer, target.index(indices if place is None else place))
        ctx.emit(
            ir.Computation(where, spec.dtype, axes, folded, kind, reduce_axes, origins=tuple(ctx.origins))
        )
    finally:
        ctx.origins, ctx.mask = outer, outer_mask
    return target


def scan(ctx: Lowering, kind: str, x: Tensor, dim: int, body: Body, spec: Spec) -> Tensor:
    """The running reduction of ``body`` along a dimension, in a buffer of the given description."""
    dim = wrap(dim, x.ndim)
    if x.ndim == 0:  # eager copies
        return ctx.computed(lambda indices: cast(body(indices), spec.dtype), spec)
    if x.shape[dim] is ONE:
        return ctx.computed(lambda indices: cast(of_one(kind, body(indices)), spec.dtype), spec)
    shape = tuple([ONE if d == dim else size for d, size in enumerate(x.shape)])
    axes, indices = ctx.axes(shape)
    run, inner = ctx.reduce_axes((x.shape[dim],))
    point = (*indices[:dim], inner[0], *indices[dim + 1 :])
    return emit_fold(ctx, kind, spec, axes, indices, run, lambda: body(point), point)


def own_strides(spec: Spec) -> tuple[Expr, ...]:
    """Eager's strides, where every element has a place of its own."""
    if any(s is ZERO and n is not ONE for n, s in zip(spec.shape, spec.strides, strict=True)):
        return contiguous_strides(spec.shape)
    return spec.strides


def inner_spec(ctx: Lowering, how: Folding, dtype: torch.dtype, device: torch.device) -> Spec:
    """The description of a reduction that is made on the way to a result."""
    return ctx.spec(how.result_shape, dtype, device)


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """What elements of a dtype are added up in."""
    return opmath(dtype) if dtype.is_floating_point else torch.int64


def elements(x: Tensor, dtype: torch.dtype, via: torch.dtype | None = None) -> Body:
    """The elements of a tensor in a dtype, converted to ``via`` before."""

    def body(indices: Indices) -> Value:
        value = x.at(indices)
        return cast(value if via is None else cast(value, via), dtype)

    return body


def total(ctx: Lowering, x: Tensor, how: Folding, body: Body, dtype: torch.dtype) -> Tensor:
    """A sum on the way to a result, kept in the dtype that it is computed in."""
    return fold(ctx, "sum", how, body, inner_spec(ctx, how, dtype, x.device))


def is_empty(ctx: Lowering, how: Folding) -> bool:
    """Whether a reduction may have nothing to reduce."""
    return any(ctx.known(size > 0) is not True for size in how.sizes)
