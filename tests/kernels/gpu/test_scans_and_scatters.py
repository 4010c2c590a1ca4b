"""Scans and scatters as Triton source, lowered as for a GPU: run by a stand-in for Triton they give eager's results."""

from __future__ import annotations

import sys

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.functional import trace
from firesteel.kernels.gpu.blocks import Blocks
from firesteel.kernels.gpu.triton_printer import print_triton
from firesteel.kernels.lowering import lower
from firesteel.kernels.plan import Launch
from firesteel.kernels.scheduling import scan_splitting, schedule
from firesteel.kernels.scheduling.machines import GPU
from kernels.gpu.test_triton_printer import run_plan

CUDA = torch.device("cuda")
NAN, INF = float("nan"), float("inf")


def lowered(program, args, monkeypatch, dynamic=False):
    """A program lowered as if its tensors were on a GPU, and the arguments of its graph."""
    module = sys.modules["firesteel.kernels.lowering.lower"]
    on_device = module._exotic
    monkeypatch.setattr(module, "_exotic", lambda value, device: on_device(value, torch.device("cpu")))
    found, given = [], []

    def backend(gm, example_inputs):
        found.append(lower(trace(gm, example_inputs).module, device=CUDA))
        return lambda *args: given.extend(args) or gm(*args)

    fs.reset()
    with torch.no_grad():
        fs.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)(*args)
    [graph] = found
    return graph, given


def check(program, *args, monkeypatch, blocks=None, dynamic=False):
    want = program(*args)
    graph, given = lowered(program, args, monkeypatch, dynamic)
    assert not graph.fallbacks, graph.fallbacks
    plan = schedule(graph, GPU)
    made = [print_triton(step.kernel, blocks) for step in plan.steps if isinstance(step, Launch)]
    results = run_plan(plan, made, given)
    for left, right in zip([want] if isinstance(want, torch.Tensor) else want, results, strict=True):
        torch.testing.assert_close(right.reshape(left.shape), left, equal_nan=True)
    return made


def index(high, *shape):
    return torch.randint(0, high, shape)


SCANS = {
    "cumsum": (lambda x: x.cumsum(-1), torch.randn(3, 70)),
    "cumsum_of_columns": (lambda x: x.cumsum(0), torch.randn(70, 5)),
    "cumsum_of_a_vector": (lambda x: (x * 2).cumsum(0), torch.randn(50)),
    "cumsum_of_bools": (lambda x: (x > 0).cumsum(-1), torch.randn(3, 70)),
    "cumsum_bfloat16": (lambda x: x.cumsum(-1), torch.randn(3, 40).bfloat16()),
    "cumsum_int": (lambda x: x.cumsum(1), torch.arange(60, dtype=torch.int32).reshape(2, 30)),
    "cumprod": (lambda x: x.cumprod(-1), torch.randn(3, 40)),
    "cummax": (lambda x: x.cummax(-1), torch.tensor([[1.0, 3.0, 2.0, 3.0, NAN, 5.0, NAN, 1.0], [-INF] * 8])),
    "cummin": (lambda x: x.cummin(0), torch.tensor([[3, 1], [1, 1], [2, -5], [1, 9]], dtype=torch.int16)),
    "logcumsumexp": (lambda x: x.logcumsumexp(-1), torch.tensor([[-INF, -INF, 1.0, 2.0], [INF, INF, 1.0, -INF]])),
}
BLOCKS = {"chosen": None, "looped": Blocks(8, 16, 0, 1)}


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("name", SCANS)
def test_scans(name, blocks, monkeypatch):
    program, x = SCANS[name]
    made = check(program, x, monkeypatch=monkeypatch, blocks=BLOCKS[blocks])
    assert "associative_scan" in made[-1].source


def test_sizes_that_are_not_known(monkeypatch):
    graph, _ = lowered(lambda x: x.cumsum(0), (torch.randn(100000),), monkeypatch, dynamic=True)
    assert [fallback.reason for fallback in graph.fallbacks] == ["one long row"]
    check(lambda x: x.cumsum(-1), torch.randn(2, 40), monkeypatch=monkeypatch, dynamic=True)


@pytest.mark.parametrize("shape, dim", [((70,), 0), ((3, 70), 1), ((70, 5), 0), ((2, 64, 3), 1)])
def test_long_scans_of_few_rows_run_in_parts(shape, dim, monkeypatch):
    monkeypatch.setattr(scan_splitting, "POINTS", 0)
    monkeypatch.setattr(scan_splitting, "LEAST", 4)
    monkeypatch.setattr(scan_splitting, "LEAST_COLUMN", 4)
    monkeypatch.setattr(scan_splitting, "ALIGNED", 4)
    x = torch.randn(shape)
    for program in (lambda x: x.cumsum(dim), lambda x: x.cummax(dim), lambda x: (x * 3).int().cumprod(dim)):
        made = check(program, x, monkeypatch=monkeypatch)
        assert len(made) >= 3
    x.view(-1)[40] = NAN
    check(lambda x: x.cummin(dim), x, monkeypatch=monkeypatch)


SCATTERS = {
    "scatter_add": (lambda x, i, s: x.scatter_add(1, i, s), torch.randn(4, 6), index(6, 4, 30), torch.randn(4, 30)),
    "scatter_add_bfloat16": (
        lambda x, i, s: x.scatter_add(0, i, s), index(9, 5, 3).bfloat16(), index(5, 4, 3), index(9, 4, 3).bfloat16()),
    "amax_with_nan": (
        lambda x, i, s: x.scatter_reduce(0, i, s, "amax"), torch.tensor([1.0, -NAN, -3.0, 0.0]),
        torch.tensor([0, 1, 2, 2, 3]), torch.tensor([-1.0, 5.0, -2.0, -9.0, NAN])),
    "amin_without_self": (
        lambda x, i, s: x.scatter_reduce(0, i, s, "amin", include_self=False), torch.tensor([NAN, 7.0, -3.0, 0.0]),
        torch.tensor([0, 1, 2, 2, 2]), torch.tensor([-1.0, NAN, -0.5, -0.25, INF])),
    "mean": (
        lambda x, i, s: x.scatter_reduce(0, i, s, "mean"), torch.tensor([100, 7, -3, 0], dtype=torch.int8),
        torch.tensor([0, 0, 2, 2, 1]), torch.tensor([100, 100, 3, 4, 5], dtype=torch.int8)),
    "index_add": (
        lambda x, i, s: x.index_add(1, i, s, alpha=2), torch.randn(3, 6, 4), index(6, 9), torch.randn(3, 9, 4)),
    "index_put": (
        lambda x, i, s: x.index_put((i,), s, accumulate=True), torch.zeros(5, 3, dtype=torch.int8), index(5, 9) - 5,
        torch.full((9, 3), 100, dtype=torch.int8)),
    "index_copy": (
        lambda x, i, s: x.index_copy(0, i, s), torch.randn(6, 300), torch.randperm(6)[:4], torch.randn(4, 300)),
    "one_place": (lambda x, i, s: x.index_add(0, i, s), torch.randn(1), index(1, 40), torch.randn(40)),
    "embedding": (lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 7, -1, False),
                  torch.randn(4, 5, 16), index(7, 4, 5)),
    "embedding_with_padding": (lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 7, 2, True),
                               torch.randn(20, 16), index(7, 20)),
    "embedding_bfloat16": (lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 50, 3, False),
                           index(9, 4, 5, 16).bfloat16(), index(7, 4, 5)),
    "reflection_pad": (lambda x, g: torch.ops.aten.reflection_pad1d_backward(g, x, (3, 2)),
                       torch.randn(2, 9), torch.randn(2, 14)),
}  # fmt: skip


@pytest.mark.parametrize("blocks", [None, Blocks(8, 16, 0, 1, 4)], ids=["chosen", "small"])
@pytest.mark.parametrize("name", SCATTERS)
def test_scatters(name, blocks, monkeypatch):
    program, *args = SCATTERS[name]
    made = check(program, *args, monkeypatch=monkeypatch, blocks=blocks)
    assert name == "index_copy" or any("tl.atomic_" in kernel.source for kernel in made)


def test_rows_that_are_gathered_and_added_lie_side_by_side(monkeypatch):
    def program(x, i, j, w):
        return torch.zeros_like(x).index_add(0, j, x[i] * w)

    i, j = torch.randint(5, (2, 40))
    made = check(program, torch.randn(5, 8), i, j, torch.randn(40, 1), monkeypatch=monkeypatch)
    assert "i1 = x % 8" in made[-1].source


@pytest.mark.parametrize("name", ["scatter_add", "amax_with_nan", "index_add", "index_copy", "embedding"])
def test_scatters_of_sizes_that_change(name, monkeypatch):
    program, *args = SCATTERS[name]
    check(program, *args, monkeypatch=monkeypatch, dynamic=True)


def test_the_gradient_of_a_large_table_has_no_wide_copy(monkeypatch):
    program, *args = SCATTERS["embedding_bfloat16"]
    graph, _ = lowered(program, args, monkeypatch)
    shapes = {tuple(int(n) for n in b.shape) for b in graph.buffers.values() if b.dtype is torch.float32}
    assert shapes == {(20, 16)}


def test_what_combines_in_no_fixed_order_is_left_to_aten_where_that_matters(monkeypatch):
    names = ("scatter_add", "index_put", "index_copy", "embedding", "reflection_pad")
    torch.use_deterministic_algorithms(True)
    try:
        for program, *args in [SCATTERS[name] for name in names]:
            graph, _ = lowered(program, args, monkeypatch)
            assert [fallback.reason for fallback in graph.fallbacks] == ["deterministic algorithms are asked for"]
    finally:
        torch.use_deterministic_algorithms(False)
    x, i, s = SCATTERS["scatter_add"][1:]
    graph, _ = lowered(lambda x, i, s: x.scatter_reduce(1, i, s, "prod"), (x, i, s), monkeypatch)
    assert [fallback.reason for fallback in graph.fallbacks] == ["memory does not multiply"]


def test_pooling_gradients(monkeypatch):
    def program(x, g):
        _, places = F.max_pool2d(x, 3, 2, return_indices=True)
        return torch.ops.aten.max_pool2d_with_indices_backward(g, x, [3, 3], [2, 2], [0, 0], [1, 1], False, places)

    check(program, torch.randn(2, 3, 9, 9), torch.randn(2, 3, 4, 4), monkeypatch=monkeypatch)
