"""What tests of passes share: a function traced, a pass run over its graph, results compared with eager's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import firesteel as fs
from firesteel import config
from firesteel.functional import FunctionalGraph, run, trace
from firesteel.passes.settings import Pass


def functional(f: Callable[..., Any], args: Sequence[Any]) -> FunctionalGraph:
    """The functional graph of a function of tensors."""
    found: list[FunctionalGraph] = []

    def backend(module: torch.fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        found.append(trace(module, examples))
        return module.forward

    with torch.no_grad():
        fs.compile(f, backend=backend, fullgraph=True)(*args)
    assert len(found) == 1
    return found[0]


def body(graph: FunctionalGraph) -> str:
    """The text of a graph without its inputs."""
    return str(graph).partition("\n")[2]


def operators(graph: FunctionalGraph) -> list[str]:
    """The names of the operators called, in order."""
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


def transformed(step: Pass, f: Callable[..., Any], *args: Any) -> FunctionalGraph:
    """The graph of a function after a pass; checked: it is well formed and gives eager's results and strides."""
    graph = functional(f, args)
    order = [args[position] for position in input_positions(graph, args)]
    after = step(graph)
    check(after)
    assert_same(run(after, order), f(*args))
    return after


def input_positions(graph: FunctionalGraph, args: Sequence[Any]) -> list[int]:
    """Which argument each input is; the names of test functions' parameters are x0, x1, ..."""
    return [int(entry.name.rpartition("x")[2]) for entry in graph.inputs]


def check(graph: FunctionalGraph) -> None:
    """Every node says truly what it is."""
    graph.graph.lint()
    for node in graph.graph.nodes:
        if node.op == "call_function":
            assert "val" in node.meta, node


def assert_same(result: Any, expected: Any) -> None:
    """Equal within tolerance, with NaN in the same places, the same signs of zeros and the same strides."""
    torch.testing.assert_close(flat(result), flat(expected), equal_nan=True)
    for one, other in zip(flat(result), flat(expected), strict=True):
        assert one.stride() == other.stride() and one.dtype is other.dtype
        zeros = (one == 0) & (other == 0)
        assert one.dtype.is_complex or torch.equal(one.signbit()[zeros], other.signbit()[zeros])


def flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for part in value for t in flat(part)] if isinstance(value, (tuple, list)) else []


def check_compiled(f: Callable[..., Any], *args: Any, **options: Any) -> None:
    """The whole road: compiled with all passes, a function gives eager's results."""
    compiled = fs.compile(f, backend="native", fullgraph=True, **options)
    with torch.no_grad(), config.patch(raise_on_internal_error=True):
        for _ in range(2):
            assert_same(compiled(*args), f(*args))
