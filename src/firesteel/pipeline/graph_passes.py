"""Runs the passes over a functional ATen graph that the device has, in order, each timed.

A pass is one file with one function, graph in, graph out, and says in its first lines what a program looks like before
and after. The lists of them are `kernels.cpu.passes` and `kernels.gpu.passes`.
"""

from __future__ import annotations

import time
from dataclasses import field

from ..events import note, span
from ..functional.graph import FunctionalGraph
from ..interruptions import safe_point
from ..kernels.targets import target_for
from ..passes.freezing import Kept, freeze
from ..passes.settings import STRICT, Settings
from ..records import dataclass
from .verifying import verify


@dataclass(frozen=True)
class PassRun:
    """What one pass did to a graph."""

    name: str
    seconds: float
    nodes: int
    """How many nodes the graph had afterwards."""


@dataclass
class PassedGraph:
    """A graph behind all passes."""

    functional: FunctionalGraph
    runs: list[PassRun] = field(default_factory=list)
    kept: Kept | None = None
    """Computes the inputs that the graph has gained, from those it had."""


def run_passes(functional: FunctionalGraph, settings: Settings = STRICT) -> PassedGraph:
    """Run all passes over a graph, which is changed."""
    passed = PassedGraph(functional)
    for each in target_for(settings.device).passes():
        safe_point()
        started = time.perf_counter()
        with span(each.__name__, "pass"):
            passed.functional = each(passed.functional, settings)
        verify(passed.functional, each.__name__)
        note("pass", name=each.__name__, functional=passed.functional)
        passed.runs.append(_run(each.__name__, started, passed.functional))
    if settings.frozen:
        started = time.perf_counter()
        with span("freeze", "pass"):
            passed.functional, passed.kept = freeze(passed.functional, settings)
        verify(passed.functional, "freeze")
        passed.runs.append(_run("freeze", started, passed.functional))
    return passed


def _run(name: str, started: float, functional: FunctionalGraph) -> PassRun:
    return PassRun(name, time.perf_counter() - started, len(functional.graph.nodes))

