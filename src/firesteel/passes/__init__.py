"""Passes over functional ATen graphs, in the order in which they run.

Each is one file with one function, graph in, graph out, and says in its first lines what a program looks like before
and after. Every run of a pass is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..autodiff.graph import FunctionalGraph
from .attention import attention
from .channels_last import channels_last
from .fold_batch_norm import fold_batch_norm
from .freezing import Kept, freeze
from .fuse_activations import fuse_activations
from .identities import identities
from .linear_library import linear_library
from .narrow_convolutions import narrow_convolutions
from .own_products import own_products
from .settings import STRICT, Settings
from .small_products import small_products

Pass = Callable[[FunctionalGraph, Settings], FunctionalGraph]

PASSES: tuple[Pass, ...] = (
    identities,
    attention,
    fold_batch_norm,
    channels_last,
    narrow_convolutions,
    small_products,
    own_products,
    linear_library,
    fuse_activations,
)  # fmt: skip
"""`freezing` runs behind them: it takes nodes out of the graph."""


@dataclass(frozen=True)
class PassRun:
    """What one pass did to a graph."""

    name: str
    seconds: float
    nodes: int
    """How many nodes the graph had afterwards."""


@dataclass
class Passed:
    """A graph behind all passes."""

    functional: FunctionalGraph
    runs: list[PassRun] = field(default_factory=list)
    kept: Kept | None = None
    """Computes the inputs that the graph has gained, from those it had."""


def run_passes(functional: FunctionalGraph, settings: Settings = STRICT) -> Passed:
    """Run all passes over a graph, which is changed."""
    passed = Passed(functional)
    for each in PASSES:
        started = time.perf_counter()
        passed.functional = each(passed.functional, settings)
        passed.runs.append(_run(each.__name__, started, passed.functional))
    if settings.frozen:
        started = time.perf_counter()
        passed.functional, passed.kept = freeze(passed.functional, settings)
        passed.runs.append(_run("freeze", started, passed.functional))
    return passed


def _run(name: str, started: float, functional: FunctionalGraph) -> PassRun:
    return PassRun(name, time.perf_counter() - started, len(functional.graph.nodes))


__all__ = ["PASSES", "Kept", "Pass", "PassRun", "Passed", "Settings", "run_passes"]
