"""What a program returns and changes, put into its plan: views of inputs, one object twice, writes to inputs.

A plan that comes from a functional graph ends with the values of the graph's output node. The program wants more: some
results are inputs or views of them, some are views of one tensor, and inputs that it changes get their new contents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from ...functional.graph import Constant, FreshTensor, FunctionalGraph, InputAlias, Number, SameAs, ViewLayout
from ...shapes import Expr, as_expr
from ...shapes.symnode import expr_of
from ..ir import Buffer, BufferRef, ExternCall
from ..plan import KernelPlan, WriteBack
from .in_place import write_in_place

CLONE = torch.ops.aten.clone.default


def with_results(plan: KernelPlan, functional: FunctionalGraph, in_place: bool = True) -> KernelPlan:
    """The plan that returns what the program returns and writes to the inputs that the program changes.

    Without ``in_place`` every write is a copy at the end, which needs no Python.
    """
    values = dict(zip(_returned_nodes(functional.graph), plan.outputs, strict=True))
    buffers = dict(plan.buffers)
    steps = list(plan.steps)
    outputs: list[Any] = []
    new_results = frozenset(index for index, output in enumerate(functional.outputs)
                            if isinstance(output, FreshTensor) and output.view is None)
    for output in functional.outputs:
        match output:
            case FreshTensor(node, layout):
                outputs.append(_whole(values[node], buffers) if layout is None else _view(values[node], layout))
            case InputAlias(index, layout):
                whole = BufferRef(functional.inputs[index].name)
                outputs.append(whole if layout is None else _view(whole, layout))
            case SameAs(index):
                outputs.append(outputs[index])
            case Number(node):
                outputs.append(_number(node.meta["val"]))
            case Constant(value):
                outputs.append(value)
    targets = {functional.inputs[change.index].name for change in functional.mutated}
    copies: list[ExternCall] = []
    writes: list[WriteBack] = []
    for change in functional.mutated:
        target, source = functional.inputs[change.index].name, values[change.node]
        assert isinstance(source, BufferRef)
        if source.buffer in targets and source.buffer != target:
            # Its old contents are wanted, so they are copied before anything is written.
            name = f"{target}_new"
            fake = change.node.meta["val"]
            buffers[name] = replace(buffers[source.buffer], name=name, dtype=fake.dtype, shape=_exprs(fake.shape),
                                    strides=_exprs(fake.stride()), kind="temporary")
            copies.append(ExternCall(CLONE, (source,), {}, (name,)))
            source = BufferRef(name)
        if source.buffer != target or source.shape is not None:
            writes.append(WriteBack(target, source))
    with_writes = replace(plan, steps=[*steps, *copies, *writes], outputs=outputs, buffers=buffers,
                          new_results=new_results)
    return write_in_place(with_writes) if in_place else with_writes


def _returned_nodes(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    returned = next(iter(reversed(graph.nodes))).args[0]
    return list(returned) if isinstance(returned, (tuple, list)) else [returned]  # type: ignore[arg-type, list-item]


def _whole(value: Any, buffers: Mapping[str, Buffer]) -> Any:
    """A buffer without a layout of its own, where that is the buffer's."""
    if isinstance(value, BufferRef) and value.is_whole(buffers[value.buffer]):
        return BufferRef(value.buffer)
    return value


def _view(whole: Any, layout: ViewLayout) -> BufferRef:
    assert isinstance(whole, BufferRef)
    offset: Expr = as_expr(expr_of(layout.offset))
    if whole.offset is not None:
        offset = whole.offset + offset
    return BufferRef(whole.buffer, _exprs(layout.shape), _exprs(layout.stride), offset, layout.dtype)


def _exprs(numbers: Sequence[Any]) -> tuple[Expr, ...]:
    return tuple(as_expr(expr_of(number)) for number in numbers)


def _number(value: Any) -> Any:
    if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return value
    expr = expr_of(value)
    return expr.value if expr.is_constant else expr  # type: ignore[attr-defined]
