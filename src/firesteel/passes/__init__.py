"""Passes over functional ATen graphs, in the order in which they run.

Each is one file with one function, graph in, graph out, and says in its first lines what a program looks like before
and after. Every run of a pass is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..autodiff.graph import FunctionalGraph
from .channels_last import channels_last
from .identities import identities
from .linear_library import linear_library
from .narrow_convolutions import narrow_convolutions

Pass = Callable[[FunctionalGraph], FunctionalGraph]

PASSES: tuple[Pass, ...] = (
    identities,
    channels_last,
    narrow_convolutions,
    linear_library,
)  # fmt: skip


@dataclass(frozen=True)
class PassRun:
    """What one pass did to a graph."""

    name: str
    seconds: float
    nodes: int
    """How many nodes the graph had afterwards."""


def run_passes(functional: FunctionalGraph) -> tuple[FunctionalGraph, list[PassRun]]:
    """Run all passes over a graph, which is changed."""
    runs: list[PassRun] = []
    for each in PASSES:
        started = time.perf_counter()
        functional = each(functional)
        runs.append(PassRun(each.__name__, time.perf_counter() - started, len(functional.graph.nodes)))
    return functional, runs


__all__ = ["PASSES", "PassRun", "run_passes"]
