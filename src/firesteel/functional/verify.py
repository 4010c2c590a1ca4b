"""Checks that a functional graph is well formed; raises `MalformedError` with the place.

What is checked: nodes are used behind the place where they are made; every node knows its value; operators change
nothing; tensors and symbols are nodes, never arguments; inputs, outputs and changed inputs are nodes of the graph; the
same holds for the bodies of control flow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from .graph import FreshTensor, FunctionalGraph

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class MalformedError(Exception):
    """A graph or a piece of IR that breaks its own rules."""


def verify_functional(functional: FunctionalGraph, after: str) -> None:
    """Check a graph; ``after`` says what made it."""
    problem = next(_problems(functional), None)
    if problem is not None:
        raise MalformedError(f"after {after}: {problem}")


def _problems(functional: FunctionalGraph) -> Iterator[str]:
    graph = functional.graph
    try:
        graph.lint()
    except RuntimeError as error:
        yield str(error)
    nodes = set(graph.nodes)
    for node in graph.nodes:
        if node.op == "call_function":
            yield from _node_problems(node)
        elif node.op == "get_attr" and node.target not in functional.constants:
            yield f"{node.name} is the constant {node.target}, which is not there"
    for entry in functional.inputs:
        if entry.node not in nodes or entry.node.op != "placeholder":
            yield f"the input {entry.name} is no placeholder of the graph"
    for output in functional.outputs:
        if isinstance(output, FreshTensor) and output.node not in nodes:
            yield f"the result {output.node.name} is not in the graph"
    for change in functional.mutated:
        if change.node not in nodes or not 0 <= change.index < len(functional.inputs):
            yield f"input {change.index} becomes {change.node.name}, which is not in the graph"


def _node_problems(node: torch.fx.Node) -> Iterator[str]:
    if "val" not in node.meta:
        yield f"{node.name} does not know its value"
    if isinstance(node.target, torch_compat.OpOverload) and torch_compat.written_arguments(node.target):
        yield f"{node.name} calls {node.target}, which changes its arguments"
    for value in _leaves((node.args, node.kwargs)):
        if isinstance(value, (torch.Tensor, *_SYMBOLIC)):
            yield f"{node.name} has {type(value).__name__} as argument, not a node"
    for body in getattr(node.target, "bodies", ()):
        yield from (f"in {body.name} of {node.name}: {problem}" for problem in _problems(body.graph))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _leaves(part)
    else:
        yield value
