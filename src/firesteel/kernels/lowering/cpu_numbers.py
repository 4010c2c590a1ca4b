"""Tensors without dimensions that are on the CPU, in kernels of a GPU: numbers, which the host reads at every call.

    mul: cuda[100] = aten.mul.Tensor(x, scale)        scale: a CPU tensor without dimensions

becomes ``number = aten.item(scale)`` and a kernel with that number as a parameter. Eager does the same,
and only in pointwise operators and a few others; the rest refuse such an operand. Where a program copies such a tensor
to the GPU, that is a number of the kernels which read the copy, too: eager waits for the GPU until it is copied.

Where launches are recorded and replayed, parameters are as they were recorded. Kernels read numbers from the GPU's
memory then, where the host puts them at every call: ``host.numbers = numbers_on_device(cuda, scale, ...)``, all those
that are inputs of the graph at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.fx

from ... import shapes, torch_compat
from ...devices import kind_of
from .. import ir
from ..host.launching import numbers_on_device
from .context import Lowering
from .elementwise import HOST_NUMBERS
from .scalars import cast
from .tensors import Spec, Stored, Tensor, contiguous_strides

_DTYPES = frozenset({
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
})  # fmt: skip

_OTHERS = frozenset({"aten.masked_fill.Tensor", "aten.index_put.default", "aten.index_fill.int_Tensor"})
_COPY = "aten._to_copy.default"


def is_number(value: Any) -> bool:
    """Whether a fake tensor is a single number on the CPU."""
    return isinstance(value, torch.Tensor) and value.dim() == 0 and kind_of(value).is_host \
        and value.dtype in _DTYPES


def takes_numbers(node: torch.fx.Node) -> bool:
    """Whether eager takes a CPU tensor without dimensions beside tensors on a GPU."""
    target = node.target
    if not isinstance(target, torch_compat.OpOverload):
        return False
    if str(target) == _COPY:
        copy = node.meta.get("val")
        return isinstance(copy, torch.Tensor) and not kind_of(copy).is_host
    return torch.Tag.pointwise in target.tags or str(target) in _OTHERS


def numbers_among(node: torch.fx.Node) -> set[torch.fx.Node]:
    """The operands of a node that are numbers on the CPU and stand by themselves, not in a list of tensors."""
    direct = {arg for arg in (*node.args, *node.kwargs.values()) if isinstance(arg, torch.fx.Node)}
    listed = {part for arg in node.args if isinstance(arg, list | tuple) for part in arg}
    return {arg for arg in direct - listed if is_number(arg.meta.get("val"))}


def input_numbers(graph: torch.fx.Graph) -> dict[torch.fx.Node, None]:
    """The inputs of a graph that kernels of a GPU read as numbers."""
    numbers: dict[torch.fx.Node, None] = {}
    for node in graph.nodes:
        if node.op == "call_function" and takes_numbers(node) and not is_number(node.meta.get("val")):
            numbers.update((arg, None) for arg in numbers_among(node) if arg.op == "placeholder")
    return numbers


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


def numbers_in_memory(ctx: Lowering, tensors: Iterable[Tensor]) -> list[Tensor]:
    """The numbers in such tensors, as tensors that kernels can compute with: the host puts them into the memory of the
    device, those of a kind by one copy."""
    stored = [ctx.realize(tensor) for tensor in tensors]
    values: dict[int, ir.Value] = {}
    origins = () if ctx.node is None else (ctx.node,)
    for wide in (torch.int64, torch.float64):  # a double holds the numbers of all other dtypes
        places = [at for at, each in enumerate(stored) if (each.dtype is torch.int64) == (wide is torch.int64)]
        if not places:
            continue
        shape = (shapes.as_expr(len(places)),)
        spec = Spec(shape, contiguous_strides(shape), wide, ctx.device)
        memory = ctx.new_buffer(spec, name=ctx.new_name(HOST_NUMBERS))
        given = [ctx.reference(stored[at]) for at in places]
        ctx.emit(ir.ExternCall(numbers_on_device, (ctx.device, wide, *given), {}, (memory.buffer,), origins=origins))
        for number, at in enumerate(places):
            values[at] = cast(ir.load(memory.buffer, number, wide), stored[at].dtype)
    return [_single(ctx, values[at], each.dtype) for at, each in enumerate(stored)]


def _single(ctx: Lowering, value: ir.Value, dtype: torch.dtype) -> Tensor:
    return ctx.computed(lambda i: value, Spec((), (), dtype, ctx.device))


def _constant(ctx: Lowering, stored: Stored) -> bool | int | float | None:
    """The number of a tensor that is part of the program."""
    constant = ctx.graph.constants.get(stored.buffer)
    if not isinstance(constant, torch.Tensor) or constant.dim():
        return None
    return constant.item()  # type: ignore[no-any-return]
