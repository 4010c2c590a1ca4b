"""Operators without a lowering: a call of ATen between the kernels, on tensors in memory."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from ... import torch_compat
from ...devices import kind_of
from ...functional.graph import Unsupported
from ...functional.size_nodes import raw_sizes
from ...functional.subprograms import Subprogram
from ...shapes import Const, Expr, Symbol, maximum
from ...shapes.expr import ONE
from ...shapes.symnode import expr_of
from .. import ir
from ..cpu.product import product, product_into
from ..huge_pages import LARGE
from .context import Lowering
from .tensors import ZERO, Tensor, contiguous_strides

FindSymbols = Callable[[str, Sequence["Expr | None"]], None]

PRODUCTS: dict[str, Any] = {
    "aten.mm.default": torch.ops.aten.mm.out,
    "aten.addmm.default": torch.ops.aten.addmm.out,
    "aten.bmm.default": torch.ops.aten.bmm.out,
    "aten.baddbmm.default": torch.ops.aten.baddbmm.out,
}
"""Operators with a form that writes to memory it is given. Large results go there: our memory has huge pages."""
LARGE_ROW = 1 << 16
"""Bytes from which on a result is taken to be large where only some of its sizes are known."""


def call_aten(
    ctx: Lowering, node: torch.fx.Node, args: Sequence[Any], kwargs: dict[str, Any], find_symbols: FindSymbols
) -> Any:
    """Emit the call of a node's operator; what it gives becomes buffers with the layout of the fake results."""
    target: Any = node.target
    if torch_compat.waits_for_collective(target):
        return _wait(ctx, node, args[0])
    result: Any = node.meta.get("val")
    several = isinstance(result, tuple | list)
    used = _used(node, len(result)) if several else {0}
    aliased = _aliased(target)
    names: list[str | None] = []
    values: list[Any] = []
    copies: list[tuple[str, str]] = []
    for position, fake in enumerate(result if several else (result,)):
        if position not in used or fake is None:
            names.append(None)
            values.append(None)
        elif isinstance(fake, torch.Tensor):
            spec = ctx.described(fake)
            # Planning counts on buffers that do not share memory, so a view is copied as soon as it is there. The copy
            # lies by rows: the view may have overlapped.
            kept = replace(spec, strides=contiguous_strides(spec.shape)) if aliased else spec
            stored = ctx.new_buffer(kept)
            find_symbols(stored.buffer, spec.shape)
            # Under their own names too: where the program states what a size is, that is still to be checked.
            find_symbols(stored.buffer, node.meta.get("size_names", {}).get(position) or raw_sizes(fake))
            names.append(stored.buffer)
            values.append(stored)
            if aliased:
                seen = ctx.new_buffer(spec)
                names[-1] = seen.buffer
                copies.append((seen.buffer, stored.buffer))
        elif isinstance(fake, tuple | list):
            raise Unsupported(f"{target}, which gives lists beside other results")
        else:
            name = ctx.new_name("number")
            expr = expr_of(fake)
            # Under its own name too: where the program states what the number is, that is still to be checked.
            for read in (expr, getattr(getattr(fake, "node", None), "raw_expr", None)):
                if isinstance(read, Symbol):
                    ctx.graph.symbols.setdefault(read, (name, "number", 0))
            names.append(name)
            values.append(expr.value if expr.is_constant else expr)  # type: ignore[attr-defined]
    origins = (node,)
    argument = _operand if isinstance(target, Subprogram) else _argument
    given = tuple([argument(ctx, arg, origin) for arg, origin in zip(args, node.args, strict=True)])
    named = {name: _argument(ctx, arg, node.kwargs[name]) for name, arg in kwargs.items()}
    into = product_into if target is product else PRODUCTS.get(str(target))
    if into is not None and names[0] is not None and _is_large(ctx.graph.buffers[names[0]]):
        target, named["out"] = into, ir.BufferRef(names[0])
    ctx.emit(ir.ExternCall(target, given, named, tuple(names), target is into, origins=origins))
    for source, copy in copies:
        by_rows = {"memory_format": torch.contiguous_format}
        ctx.emit(ir.ExternCall(torch.ops.aten.clone.default, (ir.BufferRef(source),), by_rows, (copy,),
                               origins=origins))
    return values if several else values[0]


def _wait(ctx: Lowering, node: torch.fx.Node, in_flight: Tensor) -> Any:
    """Emit a wait: the same memory, which is there from then on. Until then the collective reads what it was given."""
    tensor = ctx.realize(in_flight)
    read: list[ir.BufferRef] = []
    for call in ctx.graph.operations:
        if isinstance(call, ir.ExternCall) and tensor.buffer in call.outputs \
                and torch_compat.starts_collective(call.target):
            read += [part for arg in call.args for part in (arg if isinstance(arg, list | tuple) else (arg,))
                     if isinstance(part, ir.BufferRef)]
    ctx.emit(ir.ExternCall(torch_compat.wait_for, (ctx.reference(tensor), *read), {}, (tensor.buffer,), out=True,
                           origins=(node,)))
    return tensor


def _operand(ctx: Lowering, arg: Any, origin: Any) -> Any:
    """What an operator with bodies is given: they were made for operands that lie in memory as the graph says."""
    if not isinstance(arg, Tensor):
        return _argument(ctx, arg, origin)
    return ctx.reference(ctx.realize_as(arg, ctx.described(origin.meta["val"]).strides))


def _argument(ctx: Lowering, arg: Any, origin: Any) -> Any:
    """What a call is given; ``origin`` is what stands there in the graph."""
    if isinstance(arg, Tensor):
        reference = ctx.reference(ctx.realize(arg))
        fake = origin.meta.get("val") if isinstance(origin, torch.fx.Node) else None
        if reference.strides is not None and isinstance(fake, torch.Tensor) and fake.dim() == len(reference.strides):
            # Libraries look at the strides of dimensions of size 1 too, such as whether they are aligned.
            steps = [expr_of(wanted) if size is ONE else step for size, step, wanted
                     in zip(reference.shape or (), reference.strides, fake.stride(), strict=True)]
            reference = replace(reference, strides=tuple(steps))
        if isinstance(fake, torch.Tensor) and fake.dim() == len(arg.shape):
            # Without elements a result may have the strides of the argument, where sizes of 0 count as 1.
            held = ctx.graph.buffers[reference.buffer]
            steps = list(held.strides if reference.strides is None else reference.strides)
            wanted = [expr_of(step) for step in fake.stride()]
            if steps != wanted and all(a == b or maximum(a, 1) == b for a, b in zip(steps, wanted, strict=True)):
                reference = replace(reference, shape=reference.shape or held.shape, strides=tuple(wanted),
                                    offset=reference.offset or ZERO)
        return reference
    if isinstance(arg, list | tuple):
        parts = origin if isinstance(origin, list | tuple) else [None] * len(arg)
        return type(arg)([_argument(ctx, part, each) for part, each in zip(arg, parts, strict=True)])
    return arg


def _used(node: torch.fx.Node, count: int) -> set[int]:
    """The positions of a tuple that somebody takes out."""
    used: set[int] = set()
    for user in node.users:
        if user.target is not operator.getitem:
            return set(range(count))
        position = user.args[1]
        assert isinstance(position, int)
        used.add(position % count)
    return used


def _is_large(buffer: ir.Buffer) -> bool:
    known, least = buffer.dtype.itemsize, LARGE
    for size in buffer.shape:
        if isinstance(size, Const):
            known *= int(size)
        else:
            least = LARGE_ROW
    return known >= least and kind_of(buffer.device).is_host


@functools.cache
def _aliased(target: Any) -> bool:
    """Whether a result may share memory with an argument."""
    if not isinstance(target, torch_compat.OpOverload):
        return False
    return any(part.alias_info is not None for part in torch_compat.schema_of(target).returns)
