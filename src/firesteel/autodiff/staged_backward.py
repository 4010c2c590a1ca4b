"""A backward graph taken apart where the gradients of some inputs are complete, so that they can be used at once.

    backward(w1, w2, x, y, tangent):            stage 1:  g2 = mul(y, tangent); h = mul(w2, tangent); returns g2, h
        g2 = mul(y, tangent)                    stage 2:  g1 = mul(x, h);                             returns g1
        h = mul(w2, tangent)
        g1 = mul(x, h)
        return g1, g2

Each stage computes what the gradients of a group of inputs need and no stage before it has computed. What reads the
contents of an input is computed before its gradient is given out, as in eager: an optimizer may change the input then.
Values that later stages need are results of the stage that computes them; views and sizes are made again from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import getitem

import torch
import torch.fx

from .. import torch_compat
from ..functional.graph import FreshTensor, FunctionalGraph, Input, needed_for
from ..functional.operators import Kind, operator_of, raises_on_data
from ..records import dataclass
from .partition import base_of

_ATEN = torch.ops.aten
_READS_DATA = ("aten._local_scalar_dense.default", "aten.item.default")


@dataclass(frozen=True)
class BackwardStage:
    """A graph that computes some of the gradients."""

    graph: FunctionalGraph
    takes: tuple[int, ...]
    """Its inputs by position: inputs of the whole backward, and behind these what the stages before it return for
    others, in their order."""
    gradients: tuple[int, ...]
    """Its first results are these outputs of the whole backward. The others are for later stages."""


def take_apart(backward: FunctionalGraph, groups: Sequence[Sequence[int]],
               read_before: Mapping[int, int]) -> list[BackwardStage] | None:
    """The backward as one graph for each group of outputs; None where it is better left whole.

    ``read_before``: for inputs of the backward, by position, the number of the group behind which they may change.
    """
    if any(not isinstance(output, FreshTensor) for output in backward.outputs) or backward.mutated:
        return None
    if any(_is_odd(node) for node in backward.graph.nodes):
        return None
    stage_of = _assigned(backward, groups, read_before)
    return _Builder(backward, groups, stage_of).build()


def _is_odd(node: torch.fx.Node) -> bool:
    """Whether a node is a number that data decides, or owns graphs: those are left in one piece."""
    return str(node.target) in _READS_DATA or hasattr(node.target, "bodies")


def _outputs(backward: FunctionalGraph) -> list[torch.fx.Node]:
    return [output.node for output in backward.outputs if isinstance(output, FreshTensor)]


def _assigned(backward: FunctionalGraph, groups: Sequence[Sequence[int]],
              read_before: Mapping[int, int]) -> dict[torch.fx.Node, int]:
    """The stage of each node."""
    results = _outputs(backward)
    last = len(groups) - 1
    stage_of: dict[torch.fx.Node, int] = {}

    def need(nodes: Iterable[torch.fx.Node], stage: int) -> None:
        open_nodes = [node for node in nodes if stage_of.get(node, last + 1) > stage]
        while open_nodes:
            node = open_nodes.pop()
            if stage_of.get(node, last + 1) > stage:
                stage_of[node] = stage
                open_nodes += node.all_input_nodes

    for stage, group in enumerate(groups):
        need([results[at] for at in group], stage)
    nodes = [node for node in backward.graph.nodes if node.op != "output"]
    effects = [node for node in nodes if _has_effect(node) or raises_on_data(node)]
    earliest = last
    for node in reversed(effects):  # they stay in their order, and all of them are done
        earliest = min(earliest, stage_of.get(node, last))
        need([node], earliest)
    for at, stage in read_before.items():
        need(_readers(backward.inputs[at].node, stage_of), stage)
    for node in nodes:
        if node.target is getitem:  # several results of one call are taken apart where the call is
            need([node], stage_of.get(node.args[0], last))  # type: ignore[arg-type]
    return stage_of


def _readers(source: torch.fx.Node, needed: Mapping[torch.fx.Node, int]) -> list[torch.fx.Node]:
    """What computes something of the contents of a tensor."""
    readers: list[torch.fx.Node] = []
    views = [source]
    while views:
        for user in views.pop().users:
            if user in needed and user.op != "output":
                (views if _is_view(user) else readers).append(user)
    return readers


def _has_effect(node: torch.fx.Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, torch_compat.OpOverload):
        return bool(getattr(node.target, "has_effect", False))
    operator = operator_of(node.target)
    return operator.random or operator.has_effect


def _is_view(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and isinstance(node.target, torch_compat.OpOverload) \
        and operator_of(node.target).kind is Kind.VIEW


def _is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), (torch.Tensor, tuple, list))


class _Builder:
    """Makes the graphs one after the other."""

    def __init__(self, backward: FunctionalGraph, groups: Sequence[Sequence[int]],
                 stage_of: Mapping[torch.fx.Node, int]) -> None:
        self.backward = backward
        self.groups = groups
        self.stage_of = stage_of
        self.results = _outputs(backward)
        self.given = {base_of(node) for node in self.results}
        """Memory that becomes somebody's gradient, who may change it."""
        self.places = {entry.node: at for at, entry in enumerate(backward.inputs)}
        """Where among all values a stage finds an input, or what an earlier stage returns."""
        self.numbers = [entry.node for entry in backward.inputs if not isinstance(entry.example, torch.Tensor)]

    def build(self) -> list[BackwardStage] | None:
        wanted_later = [self._taken(stage) for stage in range(len(self.groups))]
        stages: list[BackwardStage] = []
        for stage, group in enumerate(self.groups):
            passed_on: dict[torch.fx.Node, None] = {}
            for later in wanted_later[stage + 1:]:
                passed_on.update({node: None for node in later if self.stage_of[node] == stage})
            stages.append(self._stage(stage, group, list(passed_on)))
            for node in passed_on:
                self.places[node] = len(self.places)
        return stages

    def _own(self, stage: int) -> list[torch.fx.Node]:
        return [node for node in self.backward.graph.nodes
                if node.op == "call_function" and self.stage_of.get(node) == stage]

    def _taken(self, stage: int) -> list[torch.fx.Node]:
        """The tensors that a stage takes from stages before it."""
        taken: dict[torch.fx.Node, None] = {}
        seen: set[torch.fx.Node] = set()
        open_nodes = [*self._own(stage), *(self.results[at] for at in self.groups[stage])]
        while open_nodes:
            node = open_nodes.pop()
            if node in seen:
                continue
            seen.add(node)
            if self._is_passed(node, stage):
                taken[node] = None
            else:
                open_nodes += node.all_input_nodes
        return list(taken)

    def _is_passed(self, node: torch.fx.Node, stage: int) -> bool:
        """Whether a stage takes a value rather than making it: one that an earlier stage has computed."""
        return node.op == "call_function" and self.stage_of[node] < stage and _is_tensor(node) and not _is_view(node)

    def _stage(self, stage: int, group: Sequence[int], passed_on: list[torch.fx.Node]) -> BackwardStage:
        graph = torch.fx.Graph()
        new: dict[torch.fx.Node, torch.fx.Node] = {}
        roots = [*self._own(stage), *(self.results[at] for at in group), *passed_on]
        there = needed_for(roots, lambda node: [] if self._is_passed(node, stage) else node.all_input_nodes)
        there.update(self.numbers)
        inputs: list[Input] = []
        takes: list[int] = []
        for node, at in self.places.items():
            if node in there and (node.op == "placeholder" or self._is_passed(node, stage)):
                placeholder = new[node] = graph.placeholder(node.name)
                placeholder.meta.update(node.meta)
                inputs.append(Input(placeholder.name, placeholder, placeholder.meta["val"]))
                takes.append(at)
        constants = {}
        for node in self.backward.graph.nodes:
            if node in there and node not in new and node.op != "output":
                new[node] = graph.node_copy(node, new.__getitem__)
                new[node].meta = dict(node.meta)
                if node.op == "get_attr":
                    constants[str(node.target)] = self.backward.constants[str(node.target)]
        # what is passed on lies in memory of its own: gradients may be changed as soon as they are given out
        leaving = [new[self.results[at]] for at in group] + [
            self._copy(graph, new[node]) if base_of(node) in self.given else new[node] for node in passed_on]
        graph.output(tuple(leaving))
        outputs = [FreshTensor(node, None, number) for number, node in enumerate(leaving)]
        return BackwardStage(FunctionalGraph(graph, inputs, list(outputs), [], constants), tuple(takes), tuple(group))

    @staticmethod
    def _copy(graph: torch.fx.Graph, node: torch.fx.Node) -> torch.fx.Node:
        copy = graph.call_function(_ATEN.clone.default, (node,))
        copy.meta = dict(node.meta)
        return copy
