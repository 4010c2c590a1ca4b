"""Tensors without dimensions that are on the CPU, in kernels of a GPU: numbers, which the host reads at every call.

    mul: cuda[100] = aten.mul.Tensor(x, scale)        scale: a CPU tensor without dimensions

becomes ``number = aten.item(scale)`` and a kernel with that number as a parameter. Eager does the same,
and only in pointwise operators and a few others; the rest refuse such an operand.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from ... import shapes, torch_compat
from ...devices import kind_of
from .. import ir
from .context import Lowering
from .scalars import cast
from .tensors import Spec, Stored, Tensor

_DTYPES = frozenset({
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
})  # fmt: skip

_OTHERS = frozenset({"aten.masked_fill.Tensor", "aten.index_put.default", "aten.index_fill.int_Tensor"})


def is_number(value: Any) -> bool:
    """Whether a fake tensor is a single number on the CPU."""
    return isinstance(value, torch.Tensor) and value.dim() == 0 and kind_of(value).is_host \
        and value.dtype in _DTYPES


def takes_numbers(node: torch.fx.Node) -> bool:
    """Whether eager takes a CPU tensor without dimensions beside tensors on a GPU."""
    target = node.target
    if not isinstance(target, torch_compat.OpOverload):
        return False
    return torch.Tag.pointwise in target.tags or str(target) in _OTHERS


def numbers_among(node: torch.fx.Node) -> set[torch.fx.Node]:
    """The operands of a node that are numbers on the CPU and stand by themselves, not in a list of tensors."""
    direct = {arg for arg in (*node.args, *node.kwargs.values()) if isinstance(arg, torch.fx.Node)}
    listed = {part for arg in node.args if isinstance(arg, list | tuple) for part in arg}
    return {arg for arg in direct - listed if is_number(arg.meta.get("val"))}


def number_of(ctx: Lowering, tensor: Tensor) -> Tensor:
    """The number in such a tensor, as a tensor that kernels can compute with."""
    stored = ctx.realize(tensor)
    dtype = stored.dtype
    spec = Spec((), (), dtype, ctx.device)
    constant = _constant(ctx, stored)
    if constant is not None:
        value = ir.const(constant, dtype)
        return ctx.computed(lambda i: value, spec)
    name = ctx.new_name("number")
    symbol = shapes.symbol(f"{name}_value", "int" if dtype is torch.int64 else "float")
    ctx.graph.symbols[symbol] = (name, "number", 0)
    read: Any = torch.ops.aten.item.default
    origins = () if ctx.node is None else (ctx.node,)
    ctx.emit(ir.ExternCall(read, (ctx.reference(stored),), {}, (name,), origins=origins))
    number = ir.index(symbol) if dtype is torch.int64 else ir.number(symbol)
    return ctx.computed(lambda i: cast(number, dtype), spec)


def _constant(ctx: Lowering, stored: Stored) -> bool | int | float | None:
    """The number of a tensor that is part of the program."""
    constant = ctx.graph.constants.get(stored.buffer)
    if not isinstance(constant, torch.Tensor) or constant.dim():
        return None
    return constant.item()  # type: ignore[no-any-return]
