"""Regions of the program's own (``with record_function("attention"):``) around a compiled graph.

Kernels compute what several regions contain at once, so a region cannot begin and end inside of the graph. It is kept
around the graph instead: whoever profiles sees all regions of a graph, each as long as the graph runs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from torch.profiler import record_function

from ..torch_compat import begin_profiler_region
from ..torch_compat.profilers import profiler_runs

if TYPE_CHECKING:
    from torch.fx import GraphModule


class InRegions:
    """A compiled graph that begins its regions first, while a profiler runs."""

    def __init__(self, run: Callable[..., Any], labels: list[tuple[Any, ...]]) -> None:
        self.run = run
        self.labels = labels

    def __call__(self, *inputs: Any) -> Any:
        if not profiler_runs():
            return self.run(*inputs)
        with ExitStack() as stack:
            for label in self.labels:
                stack.enter_context(record_function(*label))
            return self.run(*inputs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.run, name)


def with_regions(gm: GraphModule, run: Callable[..., Any]) -> Callable[..., Any]:
    """What runs in place of a graph, inside of the regions that the graph has, if any."""
    labels = [node.args for node in gm.graph.nodes if node.target is begin_profiler_region]
    return InRegions(run, labels) if labels else run
