"""Drop what nobody reads.

before: buf0 = ...; buf1 = f(buf0); return buf0
after:  buf0 = ...; return buf0
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ... import torch_compat
from ...functional.operators import raises_on_data
from ..ir import BufferRef, Computation, ExternCall, Value
from .graph import LoweredGraph


def remove_unread(graph: LoweredGraph) -> None:
    """Remove computations, and calls without effects, whose results no later step and no output needs."""
    wanted = {part.buffer for part in graph.outputs if isinstance(part, BufferRef)}
    wanted.update(name for name, _, _ in graph.symbols.values())
    kept: list[Computation | ExternCall] = []
    seen: set[int] = set()
    for operation in reversed(graph.operations):
        if isinstance(operation, Computation):
            if operation.buffer not in wanted:
                continue
            for value in operation.values():
                wanted.update(_read(value, seen))
        else:
            if not any(name in wanted for name in operation.outputs) and not _has_effect(operation):
                continue
            wanted.update(references((operation.args, operation.kwargs)))
        kept.append(operation)
    kept.reverse()
    graph.operations = kept
    for operation in kept:
        wanted.update([name for name in operation.outputs if name] if isinstance(operation, ExternCall) else ())
    graph.buffers = {
        name: buffer for name, buffer in graph.buffers.items() if buffer.kind == "input" or name in wanted
    }
    graph.constants = {name: tensor for name, tensor in graph.constants.items() if name in wanted}


def references(args: Any) -> Iterator[str]:
    """The buffers among the arguments of a call."""
    if isinstance(args, BufferRef):
        yield args.buffer
    elif isinstance(args, list | tuple):
        for arg in args:
            yield from references(arg)
    elif isinstance(args, dict):
        yield from references(list(args.values()))


def _read(value: Value, seen: set[int]) -> Iterator[str]:
    """The buffers that a value loads from; parts that were seen before, with all below them, are left out."""
    stack = [value]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.op == "load":
            yield node.data.buffer
        stack.extend(node.args)


def _has_effect(call: ExternCall) -> bool:
    """Whether a call matters even if nobody reads its results."""
    target = call.target
    if not isinstance(target, torch_compat.OpOverload):
        return True
    # An operator without a result, or one that draws random numbers, changes something outside of the graph, and other
    # processes wait for a collective.
    draws = torch.Tag.nondeterministic_seeded in target.tags
    return draws or torch_compat.is_collective(target) or not any(call.outputs) or \
        torch_compat.mutates_arguments(target) or any(raises_on_data(node) for node in call.origins)
