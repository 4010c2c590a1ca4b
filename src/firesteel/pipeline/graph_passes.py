"""Passes over functional ATen graphs, in the order in which they run.

Each is one file with one function, graph in, graph out, and says in its first lines what a program looks like before
and after. Every run of a pass is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field

from ..functional.graph import FunctionalGraph
from ..interruptions import safe_point
from ..kernels.products.linear_library import linear_library
from ..kernels.products.own_products import own_products
from ..kernels.products.pad_products import pad_products
from ..kernels.products.relu_products import relu_products
from ..kernels.products.row_products import row_products
from ..kernels.products.small_products import small_products
from ..kernels.products.tile_products import tile_products
from ..passes.attention import attention
from ..passes.channels_last import channels_last
from ..passes.convolution_bias import convolution_bias
from ..passes.convolution_gradients import convolution_gradients
from ..passes.convolution_parts import convolution_parts
from ..passes.embedding_gradients import embedding_gradients
from ..passes.fold_batch_norm import fold_batch_norm
from ..passes.freezing import Kept, freeze
from ..passes.fuse_activations import fuse_activations
from ..passes.identities import identities
from ..passes.image_layouts import image_layouts
from ..passes.joined_products import joined_products
from ..passes.narrow_convolutions import narrow_convolutions
from ..passes.pointwise_gradients import pointwise_gradients
from ..passes.random_numbers import random_numbers
from ..passes.settings import STRICT, Settings
from ..passes.written_slices import written_slices
from ..records import dataclass
from .verifying import verify

Pass = Callable[[FunctionalGraph, Settings], FunctionalGraph]

PASSES: tuple[Pass, ...] = (
    identities,
    written_slices,
    attention,
    fold_batch_norm,
    embedding_gradients,
    convolution_parts,
    channels_last,
    narrow_convolutions,
    joined_products,
    small_products,
    row_products,
    own_products,
    linear_library,
    fuse_activations,
    pointwise_gradients,
    convolution_gradients,
)  # fmt: skip
"""`freezing` runs behind them: it takes nodes out of the graph."""
ON_GPU: tuple[Pass, ...] = (
    identities,
    random_numbers,
    written_slices,
    convolution_bias,
    image_layouts,
    tile_products,
    relu_products,
    pad_products,
)  # fmt: skip
"""Passes for a GPU and its libraries. `joint_graphs` runs some of them before forward and backward are parted."""


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
    for each in PASSES if settings.device.type == "cpu" else ON_GPU:
        safe_point()
        started = time.perf_counter()
        passed.functional = each(passed.functional, settings)
        verify(passed.functional, each.__name__)
        passed.runs.append(_run(each.__name__, started, passed.functional))
    if settings.frozen:
        started = time.perf_counter()
        passed.functional, passed.kept = freeze(passed.functional, settings)
        verify(passed.functional, "freeze")
        passed.runs.append(_run("freeze", started, passed.functional))
    return passed


def _run(name: str, started: float, functional: FunctionalGraph) -> PassRun:
    return PassRun(name, time.perf_counter() - started, len(functional.graph.nodes))


__all__ = ["PASSES", "Kept", "Pass", "PassRun", "PassedGraph", "Settings", "run_passes"]
