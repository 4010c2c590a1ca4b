"""Graphs with a result that another result is computed from, taken apart behind it.

    def f(x):                               first:  hidden = x.sin()
        hidden = x.sin()                    second: loss = hidden.exp().sum()
        loss = hidden.exp().sum()
        return hidden, loss

In eager, ``torch.autograd.grad(loss, hidden)`` has a value, and hooks on ``hidden`` see the gradient that comes from
``loss``. One function that computed both would have them side by side, with nothing in between. Each part is compiled
as a graph of its own, in the order of the program.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch.fx

from firesteel import torch_compat
from firesteel.autodiff.gradients import leaf_gradients
from firesteel.autodiff.graph import needed_for
from firesteel.shapes import Symbol
from firesteel.shapes.symnode import expr_of

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

    Compile = Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]

MOST = 8
"""A graph that would be taken apart more often stays whole: each part costs time, and of many results few are used."""
_NUMBERS = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass(frozen=True)
class Stage:
    """One part: its inputs are, by position, inputs of the graph or behind them results of earlier parts."""

    run: Callable[..., Any]
    takes: tuple[int, ...]


class Stages:
    """All parts, called as the graph is."""

    def __init__(self, stages: Sequence[Stage], results: Sequence[Any]) -> None:
        self.stages = stages
        self.results = results

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        values = list(inputs)
        for stage in self.stages:
            values += stage.run(*[values[at] for at in stage.takes])
        return tuple([values[result.at] if type(result) is _At else result for result in self.results])

    def prepare_backward(self) -> None:
        """Compile backward before it runs."""
        for stage in self.stages:
            if hasattr(stage.run, "prepare_backward"):
                stage.run.prepare_backward()


@dataclass(frozen=True)
class _At:
    """A result of the graph, by its position among all values."""

    at: int


def compile_in_stages(gm: GraphModule, compile_one: Compile) -> Stages | None:
    """The graph in parts, each compiled by ``compile_one``; None where it is of one piece."""
    nodes = list(gm.graph.nodes)
    returned = nodes[-1].args[0]
    if not isinstance(returned, (tuple, list)) or any(isinstance(item, (tuple, list, dict)) for item in returned):
        return None
    cuts = _cuts(nodes)
    if not cuts or len(cuts) > MOST:
        return None
    positions = {node: at for at, node in enumerate([node for node in nodes if node.op == "placeholder"])}
    body = [node for node in nodes if node.op not in ("placeholder", "output")]
    ends = [*[body.index(node) + 1 for node in cuts], len(body)]
    pieces = [body[first:last] for first, last in zip([0, *ends[:-1]], ends, strict=True)]
    results = set(nodes[-1].all_input_nodes)
    made: list[tuple[GraphModule, list[Any], tuple[int, ...]]] = []
    for number, piece in enumerate(pieces):
        uses = _uses(piece)
        later = {used for other in pieces[number + 1:] for used in _uses(other)}
        gives = [node for node in piece if node in results or node in later]
        if not all(map(_may_cross, uses)):
            return None
        besides = _sizes_besides(uses, nodes)
        if besides is None:
            return None
        uses += besides
        made.append((_module(gm, piece, uses, gives), [node.meta["example_value"] for node in uses],
                     tuple([positions[node] for node in uses])))
        for node in gives:
            positions[node] = len(positions)
    stages = [Stage(compile_one(module, examples), takes) for module, examples, takes in made]
    return Stages(stages, [_At(positions[item]) if isinstance(item, torch.fx.Node) else item for item in returned])


def _cuts(nodes: list[Node]) -> list[Node]:
    """Nodes to take a graph apart behind, in order."""
    results = [node for node in nodes[-1].all_input_nodes if _is_differentiable(node)]
    if any(node.op == "placeholder" and _is_differentiable(node) and torch_compat.version_of(node.meta["example_value"])
           for node in nodes):
        return []  # what autograd knows of it is what it will know behind the change
    if len(results) < 2 or any(node.target is leaf_gradients for node in nodes):
        return []
    if any(node.target is torch_compat.assert_number for node in nodes):
        return []  # a size that was asserted to be another one would be an input's, of which it is taken for granted
    wanted = {node for node in results if len(node.users) > 1 and node.op != "placeholder" and _leads_on(node, results)}
    found: list[Node] = []
    grad = before = torch.is_grad_enabled()
    due = False
    for node, following in zip(nodes, nodes[1:], strict=False):
        if node.op in ("call_function", "call_method") and node.meta.get("example_value") is None and node.users == {}:
            if node.target is not torch_compat.set_grad_enabled:
                break  # other state than grad mode: not known where it is as it was before
            grad = bool(node.args[0])
        due = due or node in wanted
        if due and grad is before and following.op != "output" and following.target is not operator.getitem \
                and ("recompute" not in node.meta or node.meta["recompute"] != following.meta.get("recompute")) \
                and not _parts_gradients(node, nodes):
            found.append(node)
            due = False
    return found


def _parts_gradients(cut: Node, nodes: list[Node]) -> bool:
    """Whether the program itself asks behind a cut for gradients that flow through values made before it."""
    before = set(nodes[:nodes.index(cut) + 1])
    for node in nodes:
        if node not in before and node.target is torch.autograd.grad:
            inputs: Any = node.kwargs.get("inputs", node.args[1:2])
            asked = set(_nodes_in(inputs))
            stack, seen = list(node.all_input_nodes), set(asked)
            while stack:
                used = stack.pop()
                if used in seen:
                    continue
                seen.add(used)
                if used not in before:
                    stack += used.all_input_nodes
                elif used.op != "placeholder" and not asked.isdisjoint(needed_for(used.all_input_nodes)):
                    return True
    return False


def _nodes_in(value: Any) -> list[Node]:
    found: list[Node] = []
    torch.fx.map_arg(value, found.append)
    return found


def _leads_on(start: Node, results: list[Node]) -> bool:
    """Whether autograd gets to a result from another one, which is not only a view of it."""
    memory = torch_compat.storage_address(start.meta["example_value"])
    stack, seen = list(start.users), {start}
    while stack:
        node = stack.pop()
        if node in seen or not _is_differentiable(node):
            continue
        seen.add(node)
        value = node.meta["example_value"]
        if node in results and torch_compat.storage_address(value) != memory:
            return True
        stack += node.users
    return False


def _is_differentiable(node: Node) -> bool:
    value = node.meta.get("example_value")
    return any(isinstance(item, torch.Tensor) and item.requires_grad
               for item in (value if isinstance(value, (tuple, list)) else (value,)))


def _uses(piece: list[Node]) -> list[Node]:
    """What a part takes from others. Numbers and attributes are made again in each part that uses them."""
    inside = set(piece)
    found: dict[Node, None] = {}
    stack = [used for node in reversed(piece) for used in reversed(node.all_input_nodes)]
    while stack:
        node = stack.pop()
        if node not in inside and node not in found:
            if _is_made_again(node):
                inside.add(node)
                stack += node.all_input_nodes
            else:
                found[node] = None
    return list(found)


def _is_made_again(node: Node) -> bool:
    return node.op == "get_attr" or node.op != "placeholder" and isinstance(node.meta.get("example_value"), _NUMBERS)


def _may_cross(node: Node) -> bool:
    """Whether a value can be a result of one part and an input of another: nothing that is changed in place."""
    value = node.meta.get("example_value")
    return node.op == "placeholder" or (
        isinstance(value, torch.Tensor) and not value.is_inference() and not torch_compat.version_of(value))


def _sizes_besides(uses: list[Node], nodes: list[Node]) -> list[Node] | None:
    """More inputs of the graph, for the sizes that those of what a part uses are computed from; None without any."""
    wanted: set[Symbol] = set()
    for node in uses:
        value = node.meta["example_value"]
        if isinstance(value, torch.Tensor) and torch_compat.has_symbolic_layout(value):
            wanted = wanted.union(*[expr_of(number).free_symbols for number in (*value.shape, *value.stride())
                                    if type(number) is not int])
    for node in uses:
        wanted -= _sizes(node)
    found: list[Node] = []
    for node in nodes:
        if wanted and node.op == "placeholder" and wanted & _sizes(node):
            found.append(node)
            wanted -= _sizes(node)
    return None if wanted else found


def _sizes(node: Node) -> set[Symbol]:
    """The symbols that are sizes of an input, or an input itself."""
    value = node.meta["example_value"]
    numbers = value.shape if isinstance(value, torch.Tensor) else (value,)
    return {expr for number in numbers if isinstance(number, torch.SymInt)
            and isinstance(expr := expr_of(number), Symbol)}


def _module(gm: GraphModule, piece: list[Node], uses: list[Node], gives: list[Node]) -> GraphModule:
    graph = torch.fx.Graph()
    copies: dict[Node, Node] = {}
    for node in uses:
        if node.op == "placeholder":
            copies[node] = graph.node_copy(node)
        else:
            copies[node] = graph.placeholder(node.name)
            copies[node].meta = {"example_value": node.meta["example_value"], "module_state": False}

    def copy(node: Node) -> Node:
        if node not in copies:
            copies[node] = graph.node_copy(node, copy)
        return copies[node]

    for node in piece:
        copy(node)
    graph.output(tuple([copies[node] for node in gives]))
    return torch.fx.GraphModule(gm, graph, type(gm).__name__)
