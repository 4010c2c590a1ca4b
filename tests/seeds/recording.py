"""A backend that keeps the graphs it is given, for tests that look at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


class Recorder:
    """Runs graphs as they are and remembers them in the order in which they came."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        self.graphs.append(gm)
        return gm.forward

    def rows(self, position: int) -> list[tuple[str, str]]:
        """(opcode, name) of each node of a graph."""
        return [(node.op, node.name) for node in self.graphs[position].graph.nodes]
