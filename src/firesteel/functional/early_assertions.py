"""Assertions about numbers from data, moved to where those are read, for graphs that run operator by operator.

    n: u0 = aten.sym_size.int(selected, 0)            n: u0 = aten.sym_size.int(selected, 0)
    row: f32[1, s0] = aten.view.default(selected, ...)    e = n == s0
    e = n == s0                                  ->       _assert_scalar(e, "the graph is for ...")
    _assert_scalar(e, "the graph is for ...")             row: f32[1, s0] = aten.view.default(selected, ...)

Once a number is stated to be another one, all operators speak of that one, those in front of the statement too. They
may raise where it does not hold, which would be taken for the program's own error.
"""

from __future__ import annotations

import torch.fx

from .. import torch_compat
from .graph import FunctionalGraph


def assert_early(functional: FunctionalGraph) -> None:
    """Move the assertions of a graph, with the arithmetic on numbers that they consist of.

    Those about the same number keep their order: what the program checks holds only on the way that is assumed before.
    """
    for assertion in reversed([node for node in functional.graph.nodes if node.target is torch_compat.assert_number]):
        _move_up(assertion)


def _move_up(node: torch.fx.Node) -> None:
    """Put a node right behind the last of those that it needs, after numbers among these have been moved."""
    for needed in node.all_input_nodes:
        if needed.op == "call_function" and not isinstance(needed.meta.get("val"), torch.Tensor):
            _move_up(needed)
    last = max(node.all_input_nodes, default=None)  # nodes are ordered by their places in the graph
    if last is not None and last.op != "placeholder":
        last.append(node)
