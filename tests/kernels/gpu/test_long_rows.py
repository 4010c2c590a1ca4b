"""Rows that have something in common run in one program each; sums of columns are cut where rows share numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.fake.tensor import new_fake
from firesteel.functional import FunctionalGraph, trace
from firesteel.kernels.gpu import statements
from firesteel.kernels.gpu.blocks import Blocks
from firesteel.kernels.gpu.triton_printer import print_triton
from firesteel.kernels.lowering import lower
from firesteel.kernels.plan import Launch
from firesteel.kernels.scheduling import costs, schedule
from firesteel.kernels.scheduling.machines import GPU
from kernels.gpu.stand_in_triton import run
from kernels.scheduling.programs import Planned, kernels

CUDA = torch.device("cuda", 0)


def on_gpu(graph: FunctionalGraph) -> FunctionalGraph:
    """The graph as if its tensors were on a GPU."""
    def moved(value: Any) -> Any:
        return new_fake(value.shape, value.stride(), value.dtype, CUDA) if isinstance(value, torch.Tensor) else value

    for node in graph.graph.nodes:
        if "val" in node.meta:
            node.meta["val"] = moved(node.meta["val"])
    graph.inputs = [replace(entry, example=moved(entry.example)) for entry in graph.inputs]
    return graph


def planned(f: Callable[..., Any], *args: torch.Tensor) -> tuple[Any, list[torch.Tensor]]:
    """The plan of a function for a GPU, and its inputs in the order of the plan's."""
    found: list[Any] = []

    def backend(module: torch.fx.GraphModule, examples: Any) -> Any:
        found.append(schedule(lower(on_gpu(trace(module, examples)).module, device=CUDA), GPU))
        return lambda *given: (found.append(list(given)), module(*given))[1]

    with torch.no_grad():
        fs.compile(f, backend=backend, fullgraph=True)(*args)
    return found[0], found[1]


def gradient(x: torch.Tensor, largest: torch.Tensor, log: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    rows = (x.float() - largest - log).exp().mul(-scale).bfloat16()
    whole = torch.zeros(8, 65, 41, dtype=torch.bfloat16)
    whole[:, :-1] = rows.view(8, 64, 41)
    return F.pad(whole.view(520, 41), (0, 7))


@pytest.fixture
def short_rows_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "LONG_ROW", 32)
    monkeypatch.setattr(statements, "LONG_ROW", 32)


@pytest.mark.usefixtures("short_rows_are_long")
def test_what_a_row_has_in_common_is_read_once() -> None:
    torch.manual_seed(0)
    x = torch.randn(512, 41).bfloat16()
    args = (x, x.float().amax(1, True), torch.rand(512, 1), torch.rand(()))
    plan, given = planned(gradient, *args)
    [kernel] = kernels(plan)
    assert [(loop.parallel, str(loop.axis.size)) for loop in (kernel.body[0], kernel.body[0].body[0])] == [
        (True, "520"), (False, "48")]
    made = print_triton(kernel)
    loads = [line for line in made.source.splitlines() if "tl.load" in line]
    assert len(loads) == 4 and sum("[1, 1]" in line for line in loads) == 3, made.source
    memory = {part.name: tensor for part, tensor in zip(plan.inputs, given, strict=True)}
    [step] = [step for step in plan.steps if isinstance(step, Launch)]
    result = torch.empty(520, 48, dtype=torch.bfloat16)
    run(made, [memory.get(name, result) for name in step.buffers], [])
    torch.testing.assert_close(result, gradient(*args))


def test_short_rows_are_one_long_one() -> None:
    x = torch.randn(512, 41).bfloat16()
    plan, _ = planned(gradient, x, x.float().amax(1, True), torch.rand(512, 1), torch.rand(()))
    [kernel] = kernels(plan)
    assert kernel.body[0].body[0].parallel


def test_sums_of_columns_are_cut_where_rows_share_numbers() -> None:
    def weight_gradient(x: torch.Tensor, y: torch.Tensor, mean: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return (x * ((y - mean) * scale)).sum(0)

    backend = Planned(runs=False, machine=GPU)
    tall, thin = torch.randn(8192, 64), torch.randn(8192, 1)
    with torch.no_grad():
        fs.compile(weight_gradient, backend=backend, fullgraph=True)(tall, tall, thin, thin)
    assert len(kernels(backend.plans[0])) == 2
    assert any(name.endswith("_parts") for name in backend.plans[0].buffers)


def test_sums_of_rows_that_are_looked_up_stay_whole() -> None:
    backend = Planned(runs=False, machine=GPU)
    with torch.no_grad():
        fs.compile(lambda table, rows: table[rows].square().mean(-1, keepdim=True) * table[rows], backend=backend,
                   fullgraph=True)(torch.randn(50, 2048), torch.arange(2048) % 50)
    assert not any(name.endswith("_parts") for name in backend.plans[0].buffers)


def test_one_pass_over_what_is_not_finite() -> None:
    """The largest element and the sum of exponentials for it, in lanes that see a few elements each."""
    inf, nan = torch.inf, torch.nan
    x = torch.randn(7, 40)
    x[0, :20], x[1], x[2, 3], x[3, 39], x[4, 0], x[5, ::2] = -inf, -inf, inf, nan, nan, -inf
    backend = Planned(runs=False, machine=GPU)
    with torch.no_grad():
        fs.compile(lambda x: F.log_softmax(x, -1), backend=backend, fullgraph=True)(x)
    [kernel] = kernels(backend.plans[0])
    made = print_triton(kernel, Blocks(1, 16, 0, 1))
    assert made.source.count("for i1_") == 2  # the row is read once for both, and once more for the result
    result = torch.empty(7, 40)
    run(made, [x if buffer.name.startswith("in") else result for buffer in kernel.buffers], [])
    torch.testing.assert_close(result, F.log_softmax(x, -1), equal_nan=True)
