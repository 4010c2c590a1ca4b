"""Tensors while they are lowered: in memory, computed where they are used, or views of either.

All of them answer one question, what the element at given indices is, as a `Value`. Nothing is computed before a
computation needs it: a chain of pointwise operators becomes one expression, and a view is arithmetic on indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ... import shapes
from ...records import dataclass
from ...shapes import Expr
from ...shapes.symnode import expr_of
from .. import ir

if TYPE_CHECKING:
    from .context import Lowering

Indices = tuple[Expr, ...]
ZERO, ONE = shapes.const(0), shapes.const(1)


@dataclass(frozen=True)
class Spec:
    """What is known of a tensor ahead of its elements: sizes, strides as eager has them, dtype, device."""

    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    dtype: torch.dtype
    device: torch.device

    @staticmethod
    def of(fake: torch.Tensor) -> Spec:
        """The description of a fake (or real) tensor."""
        return Spec(tuple(map(expr_of, fake.shape)), tuple(map(expr_of, fake.stride())), fake.dtype, fake.device)


def contiguous_strides(shape: Sequence[Expr]) -> tuple[Expr, ...]:
    """The strides of a new contiguous tensor; sizes of 0 count as 1, as in torch."""
    strides: list[Expr] = []
    step: Expr = ONE
    for size in reversed(shape):
        strides.append(step)
        step = step * (shapes.maximum(size, 1) if size is ZERO else size)
    return tuple(reversed(strides))


class Tensor:
    """Base: sizes, dtype, device, and the element at given indices."""

    def __init__(self, ctx: Lowering, shape: Sequence[Expr], dtype: torch.dtype, device: torch.device) -> None:
        self.ctx = ctx
        self.shape: tuple[Expr, ...] = tuple(shape)
        self.dtype = dtype
        self.device = device

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> Expr:
        total: Expr = ONE
        for size in self.shape:
            total = total * size
        return total

    def at(self, indices: Sequence[Expr]) -> ir.Value:
        """The element at ``indices``, one for each dimension, of the tensor's dtype."""
        raise NotImplementedError

    def stored(self) -> Stored | None:
        """The tensor as it lies in memory, if it does so already."""
        raise NotImplementedError


class Stored(Tensor):
    """A buffer, or a strided part of one."""

    def __init__(
        self,
        ctx: Lowering,
        buffer: str,
        shape: Sequence[Expr],
        strides: Sequence[Expr],
        offset: Expr,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__(ctx, shape, dtype, device)
        self.buffer = buffer
        self.strides: tuple[Expr, ...] = tuple(strides)
        self.offset = offset

    def index(self, indices: Sequence[Expr]) -> Expr:
        """Where an element is, counted from the start of the buffer."""
        total = self.offset
        for i, stride in zip(indices, self.strides, strict=True):
            total = total + i * stride
        return self.ctx.simplify(total)

    def at(self, indices: Sequence[Expr]) -> ir.Value:
        return self.ctx.load(self.buffer, self.index(indices), self.dtype)

    def stored(self) -> Stored:
        return self

    def restrided(self, shape: Sequence[Expr], strides: Sequence[Expr], offset: Expr | None = None) -> Stored:
        """Another strided view of the same buffer."""
        where = self.offset if offset is None else offset
        return Stored(self.ctx, self.buffer, shape, strides, where, self.dtype, self.device)


class Computed(Tensor):
    """A tensor whose elements are computed where they are used, until something has it put into memory."""

    def __init__(
        self,
        ctx: Lowering,
        spec: Spec,
        body: Callable[[Indices], ir.Value],
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(ctx, spec.shape, dtype or spec.dtype, spec.device)
        self.strides = spec.strides
        """The layout that it has when it is put into memory."""
        self.body = body
        self.origin = ctx.node
        self.outs = ctx.outs
        self.memory: Stored | None = None
        self.row_sums: tuple[int, Callable[[Indices], ir.Value]] | None = None
        """A dimension along which the sum is known without adding up, and the sum at indices of any element."""
        self._elements: dict[Any, tuple[ir.Value, dict[Any, None]]] = {}

    def at(self, indices: Sequence[Expr]) -> ir.Value:
        if self.memory is not None:
            return self.memory.at(indices)
        ctx = self.ctx
        where = tuple(indices)
        key = (where, ctx.mask)
        element = self._elements.get(key)
        if element is None:
            outer, ctx.origins = ctx.origins, {} if self.origin is None else {self.origin: None}
            # Elements may be asked for while another operator is lowered; the body is about its own.
            outs, ctx.outs = ctx.outs, self.outs
            try:
                value = self.body(where)
                element = self._elements[key] = (value, ctx.origins)
            finally:
                ctx.origins, ctx.outs = outer, outs
            assert value.dtype is self.dtype, f"{self.origin}: computed {value.dtype}, not {self.dtype}"
        ctx.origins.update(element[1])
        return element[0]

    def stored(self) -> Stored | None:
        return self.memory


class View(Tensor):
    """Another tensor under other indices.

    ``restride`` gives the same view of a tensor in memory, where that is possible; None when it is not.
    """

    def __init__(
        self,
        base: Tensor,
        shape: Sequence[Expr],
        remap: Callable[[Indices], Sequence[Expr]],
        restride: Callable[[Stored], Stored | None] | None = None,
        strides: Sequence[Expr] | None = None,
    ) -> None:
        super().__init__(base.ctx, shape, base.dtype, base.device)
        self.base = base
        self.remap = remap
        self.restride = restride
        self.eager_strides = None if strides is None else tuple(strides)
        """The layout that eager has the view in, if it is an operator's result."""
        self.memory: Stored | None = None

    def at(self, indices: Sequence[Expr]) -> ir.Value:
        if self.memory is not None:
            return self.memory.at(indices)
        return self.base.at(tuple(self.remap(tuple(indices))))

    @property
    def strides(self) -> tuple[Expr, ...]:
        """The layout of a copy, where one has to be made: as eager has the view, where that leaves no gaps."""
        wanted = self.eager_strides
        if wanted is not None and shapes.dense_order(self.shape, wanted, self.ctx.size_facts) is not None:
            return wanted
        return contiguous_strides(self.shape)

    def stored(self) -> Stored | None:
        if self.memory is None and self.restride is not None:
            base = self.base.stored()
            if base is not None:
                self.memory = self.restride(base)
        return self.memory


def view(
    base: Tensor,
    shape: Sequence[Expr],
    remap: Callable[[Indices], Sequence[Expr]],
    restride: Callable[[Stored], Stored | None] | None = None,
    strides: Sequence[Expr] | None = None,
) -> Tensor:
    """A view, of memory at once where the base is there already."""
    result = View(base, shape, remap, restride, strides)
    return result.stored() or result
