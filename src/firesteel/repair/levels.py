"""Scripts of what a captured graph becomes: its functional graphs, and the operators of each kernel."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from ..events import Observer
from ..functional import FunctionalGraph
from .children import in_child

if TYPE_CHECKING:
    from .session import Session


def scripts_behind(session: Session, text: str, after: str) -> list[str]:
    """Scripts of the functional graphs ("autodiff") or of the kernels ("kernels") behind a script, last ones first."""
    path = os.path.join(session._work.name, "level.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)

    def child(report: Callable[[Any], None]) -> None:
        from ..events import OBSERVERS
        from .probe import execute

        session.prepare()
        OBSERVERS.append(_Levels(report, after))
        execute(path, session.folder)

    ended = in_child(child, session.limits())
    return list(dict.fromkeys(reversed([report for report in ended.reports if isinstance(report, str)])))


class _Levels(Observer):
    """Reports functional graphs before their passes, and what kernels compute."""

    def __init__(self, report: Callable[[Any], None], after: str) -> None:
        self.report = report
        self.after = after

    def note(self, kind: str, /, **what: Any) -> None:
        from ..repro_scripts.scripts import script_of_graph

        if kind != "functional graph":
            return
        functional: FunctionalGraph = what["functional"]
        wanted = [list(functional.graph.nodes)] if self.after == "autodiff" else _kernels(functional)
        for nodes in wanted:
            try:
                module, examples = part_of(functional, nodes)
                self.report(script_of_graph(module, examples, f"a graph of {what['name']}"))
            except Exception:
                pass  # something in it has no source


def _kernels(functional: FunctionalGraph) -> list[list[torch.fx.Node]]:
    """The nodes of each kernel, in the order of the plan."""
    from ..functional.size_nodes import hints_of
    from ..kernels.lowering import lower
    from ..kernels.plan import kernels_of
    from ..kernels.scheduling import schedule
    from ..kernels.targets import target_of

    target = target_of(functional.graph)
    plan = schedule(lower(functional.module, device=target.device), target.machine, (), hints_of(functional))
    order = list(functional.graph.nodes)
    return [sorted((node for node in kernel.origins if isinstance(node, torch.fx.Node)), key=order.index)
            for kernel in kernels_of(plan)]


def part_of(functional: FunctionalGraph, nodes: Sequence[torch.fx.Node]) -> tuple[torch.fx.GraphModule, list[Any]]:
    """Some nodes of a functional graph as a graph of their own, whose inputs are what they use of others."""
    inside = {node for node in nodes if node.op == "call_function"}
    used = [one for node in functional.graph.nodes if node in inside for one in node.all_input_nodes
            if one not in inside]
    inputs = list(dict.fromkeys(used))
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    examples: list[Any] = []
    for node in inputs:
        if node.op == "get_attr":
            examples.append(functional.constants[str(node.target)])
        else:
            value = node.meta["val"]  # gradients are nothing that such a graph knows of
            examples.append(value.detach() if isinstance(value, torch.Tensor) else value)
        copies[node] = graph.placeholder(node.name)
    for node in functional.graph.nodes:
        if node in inside:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    results = [node for node in inside if not node.users or any(user not in inside for user in node.users)]
    results = [node for node in results if isinstance(node.meta.get("val"), torch.Tensor)]
    graph.output(tuple(copies[node] for node in functional.graph.nodes if node in results))
    return torch.fx.GraphModule(torch.nn.Module(), graph), examples
