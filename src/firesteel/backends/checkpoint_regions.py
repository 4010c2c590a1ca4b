"""Checkpointed regions of captured graphs, for backends that run graphs operator by operator.

    a = sin(x)        # recompute: 1         r1 = checkpoint(region_1, x)
    b = a * 2         # recompute: 1         c = r1[0] + x
    c = b + x                          ->
"""

from __future__ import annotations

import operator
from itertools import groupby
from typing import TYPE_CHECKING, Any

import torch.fx

if TYPE_CHECKING:
    from firesteel.capture.checkpointing import Checkpoint


class CheckpointedRegion:
    """The operation that stands for a region: its graph, run by ``torch.utils.checkpoint.checkpoint``."""

    def __init__(self, number: int, graph: torch.fx.GraphModule, settings: Checkpoint) -> None:
        self.graph = graph
        self.settings = settings
        self.__name__ = self.__qualname__ = f"checkpoint_{number}"
        self.__module__ = __name__

    def __call__(self, *inputs: Any) -> Any:
        from torch.utils.checkpoint import checkpoint

        how: dict[str, Any] = {}
        if not self.settings.use_reentrant:
            how = {"determinism_check": self.settings.determinism_check, "early_stop": self.settings.early_stop}
        return checkpoint(self.graph.forward, *inputs, use_reentrant=self.settings.use_reentrant,
                          preserve_rng_state=self.settings.preserve_rng_state, **how)


def outline_regions(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph with each checkpointed region as one operation; the graph itself when it has none."""
    if not any("recompute" in node.meta for node in gm.graph.nodes):
        return gm
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for number, group in groupby(list(gm.graph.nodes), lambda node: node.meta.get("recompute")):
        nodes = list(group)
        if number is None:
            for node in nodes:
                copies[node] = graph.node_copy(node, copies.__getitem__)
            continue
        inside = set(nodes)
        inputs = list(dict.fromkeys(used for node in nodes for used in node.all_input_nodes if used not in inside))
        results = [node for node in nodes if any(user not in inside for user in node.users)]
        region = CheckpointedRegion(number, _region_graph(gm, nodes, inputs, results), nodes[0].meta["checkpoint"])
        call = graph.call_function(region, tuple(copies[node] for node in inputs))
        for position, node in enumerate(results):
            copies[node] = graph.call_function(operator.getitem, (call, position))
    graph.lint()
    return torch.fx.GraphModule(gm, graph, type(gm).__name__)


def _region_graph(gm: torch.fx.GraphModule, nodes: list[torch.fx.Node], inputs: list[torch.fx.Node],
                  results: list[torch.fx.Node]) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    copies = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in results))
    return torch.fx.GraphModule(gm, graph, "CheckpointedRegion")
