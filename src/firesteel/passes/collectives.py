"""Collectives begin as early and are waited for as late as possible, so that the program computes meanwhile.

    a: f32[8] = _c10d_functional.all_reduce.default(x, 'sum', '0')
    b: f32[8] = _c10d_functional.wait_tensor.default(a)
    c: f32[8] = aten.exp.default(y)
    d: f32[8] = _c10d_functional.all_reduce.default(y, 'sum', '0')
    e: f32[8] = _c10d_functional.wait_tensor.default(d)
    f: f32[8] = aten.add.Tensor(b, c)

becomes

    a: f32[8] = _c10d_functional.all_reduce.default(x, 'sum', '0')
    d: f32[8] = _c10d_functional.all_reduce.default(y, 'sum', '0')
    c: f32[8] = aten.exp.default(y)
    b: f32[8] = _c10d_functional.wait_tensor.default(a)
    f: f32[8] = aten.add.Tensor(b, c)
    e: f32[8] = _c10d_functional.wait_tensor.default(d)

Collectives begin in the order of the program, which is that of all other processes, and behind everything before them
that may raise. What is begun and not waited for is waited for at the end: until then nothing may write to what it
reads.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from heapq import heappop, heappush

import torch.fx

from .. import torch_compat
from ..functional.graph import FunctionalGraph
from ..functional.operators import Kind, operator_of, raises_on_data
from .rewriting import Rewriter
from .settings import STRICT, Settings

_FIRST, _FOR_A_START, _REST, _WAIT_FOR_A_START, _WAIT, _LAST = range(6)


def collectives(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Overlap collectives with what does not need their results."""
    if not any(torch_compat.is_collective(node.target) for node in functional.graph.nodes):
        return functional
    rewriter = Rewriter(functional)
    _wait_for_all(rewriter)
    functional = rewriter.finish()
    nodes = list(functional.graph.nodes)
    ordered = _ordered(nodes)
    if ordered != nodes:
        for before, node in zip(ordered, ordered[1:], strict=False):
            before.append(node)
        functional.__dict__.pop("module", None)
    return functional


def _wait_for_all(rewriter: Rewriter) -> None:
    last = rewriter.graph.output_node()
    for node in list(rewriter.graph.nodes):
        if not torch_compat.starts_collective(node.target):
            continue
        several = isinstance(node.meta["val"], (tuple, list))
        parts = [user for user in node.users if user.target is operator.getitem] if several else [node]
        for part in parts:
            if not any(torch_compat.waits_for_collective(user.target) for user in part.users):
                with rewriter.before(last):
                    rewriter.call(torch_compat.collective_operator("wait_tensor").default, part, val=part.meta["val"])


def _ordered(nodes: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
    """The nodes in the order in which they run."""
    position = {node: number for number, node in enumerate(nodes)}
    needs = {node: dict.fromkeys(node.all_input_nodes) for node in nodes}
    _keep_order(nodes, needs)
    kinds = _kinds(nodes, needs)
    users: dict[torch.fx.Node, list[torch.fx.Node]] = {}
    waiting = {node: len(needed) for node, needed in needs.items()}
    for node, needed in needs.items():
        for other in needed:
            users.setdefault(other, []).append(node)
    ready: list[tuple[int, int]] = []
    for node in nodes:
        if not waiting[node]:
            heappush(ready, (kinds[node], position[node]))
    done: list[torch.fx.Node] = []
    while ready:
        node = nodes[heappop(ready)[1]]
        done.append(node)
        for user in users.get(node, ()):
            waiting[user] -= 1
            if not waiting[user]:
                heappush(ready, (kinds[user], position[user]))
    assert len(done) == len(nodes), "nodes wait for each other"
    return done


def _keep_order(nodes: Sequence[torch.fx.Node], needs: dict[torch.fx.Node, dict[torch.fx.Node, None]]) -> None:
    """Let nodes wait for those that they must not overtake."""
    previous: torch.fx.Node | None = None
    before_start: list[torch.fx.Node] = []
    for node in nodes:
        if node.op != "call_function" or torch_compat.waits_for_collective(node.target):
            continue
        if torch_compat.starts_collective(node.target):
            needs[node].update(dict.fromkeys(before_start))
            before_start = [node]
            continue
        if not isinstance(node.target, torch_compat.OpOverload):
            effect = bool(getattr(node.target, "has_effect", False)) or hasattr(node.target, "bodies")
        else:
            known = operator_of(node.target)
            effect = known.random or known.has_effect or known.kind is Kind.WRITES
        if effect:
            if previous is not None:
                needs[node][previous] = None
            previous = node
        if raises_on_data(node) or effect and not _is_random(node):
            before_start.append(node)


def _is_random(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch_compat.OpOverload) and operator_of(node.target).random


def _kinds(nodes: Sequence[torch.fx.Node],
           needs: dict[torch.fx.Node, dict[torch.fx.Node, None]]) -> dict[torch.fx.Node, int]:
    """What goes first of several nodes that could run."""
    for_a_start: set[torch.fx.Node] = set()
    for node in reversed(nodes):
        if node in for_a_start or torch_compat.starts_collective(node.target):
            for_a_start.update(needs[node])
    kinds = {}
    for node in nodes:
        if node.op in ("placeholder", "get_attr"):
            kinds[node] = _FIRST
        elif node.op == "output":
            kinds[node] = _LAST
        elif torch_compat.waits_for_collective(node.target):
            kinds[node] = _WAIT_FOR_A_START if node in for_a_start else _WAIT
        elif torch_compat.starts_collective(node.target):
            kinds[node] = _FIRST
        else:
            kinds[node] = _FOR_A_START if node in for_a_start else _REST
    return kinds
