"""Stores at places that data decides on, and the memory that they go to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.fx

from ...shapes import Expr, Symbol
from .. import ir
from ..cpu.product import product
from .context import Lowering
from .fallback import PRODUCTS
from .reducing import Body, own_strides
from .scalars import cast
from .tensors import Indices, Spec, Stored, Tensor


def copied(ctx: Lowering, x: Tensor, dtype: torch.dtype, spec: Spec) -> Stored:
    """A new buffer with the elements of ``x``, to be written to."""
    target = ctx.new_buffer(Spec(spec.shape, own_strides(spec), dtype, spec.device))
    ctx.fill(target, ctx.computed(lambda i: cast(x.at(i), dtype), Spec(spec.shape, target.strides, dtype, spec.device)))
    return target


def taken(ctx: Lowering, x: Tensor) -> Stored | None:
    """The first argument's own memory, where this node may write to it: a matrix product that nobody else uses."""
    node = ctx.node.args[0] if ctx.node is not None else None
    if not isinstance(x, Stored) or not isinstance(node, torch.fx.Node) or node.op != "call_function":
        return None
    if len(node.users) != 1 or not (node.target is product or str(node.target) in PRODUCTS):
        return None
    is_result = any(isinstance(step, ir.ExternCall) and x.buffer in step.outputs for step in ctx.graph.operations)
    whole = ctx.reference(x).is_whole(ctx.graph.buffers[x.buffer])
    return x if is_result and whole and ctx.same_strides(x.shape, x.strides, ctx.out.strides) else None


def store(
    ctx: Lowering,
    target: Stored,
    shape: Sequence[Expr],
    place: Callable[[Indices], Indices],
    value: Body,
    mode: str = "set",
    mask: Body | None = None,
) -> None:
    """Emit stores to ``target`` at ``place(indices)`` for all indices of ``shape``, or those where a mask is true."""
    axes, indices = ctx.axes(shape)
    outer, ctx.origins = ctx.origins, {}
    outer_mask, ctx.mask = ctx.mask, None
    try:
        where_ = target.index(place(indices))
        stored = cast(value(indices), target.dtype)
        if ctx.node is not None:
            ctx.origins.setdefault(ctx.node)
        behind = [(s, ctx.index(s)) for s in sorted(where_.free_symbols, key=_serial)]
        used = [(s, v) for s, v in behind if v.op != "index" or v.data is not s]
        ctx.emit(ir.Computation(
            ir.Place(target.buffer, where_, tuple([s for s, _ in used]), mask is not None), target.dtype, axes, stored,
            args=(*[v for _, v in used], *([] if mask is None else [mask(indices)])), mode=mode,
            origins=tuple(ctx.origins),
        ))  # fmt: skip
    finally:
        ctx.origins, ctx.mask = outer, outer_mask


def _serial(symbol: Symbol) -> int:
    return symbol.serial
