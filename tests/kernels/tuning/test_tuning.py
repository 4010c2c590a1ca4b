"""Choices by measurement: what is chosen and remembered, and that every choice gives eager's results."""

from __future__ import annotations

import time

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel import config, disk_cache
from firesteel.functional.size_nodes import hints_of
from firesteel.kernels import ir, tuning
from firesteel.kernels.cpu.target import Tuning, host
from firesteel.kernels.options import Options
from firesteel.kernels.plan import Launch
from firesteel.kernels.tuning import measuring
from firesteel.kernels.tuning.kernels import ALONE, _may_divide_by_zero, made_up
from firesteel.passes.settings import Settings
from firesteel.pipeline.compile import compile_graph


@pytest.fixture(autouse=True)
def own_cache(tmp_path):
    torch.manual_seed(0)
    with config.patch(raise_on_internal_error=True, disk_cache=True, cache_dir=str(tmp_path)), torch.no_grad():
        yield


unchecked = pytest.mark.skipif(config.check_bounds, reason="kernels that check every access are not measured")


class Chooser(tuning.Tuner):
    """Takes what it is told to, without measuring."""

    def __init__(self, wanted):
        super().__init__()
        self.wanted, self.asked = wanted, []

    def given(self, compile):
        self.compile = compile
        return self

    def choose(self, what, identity, ways, one_thread=False):
        self.asked.append((what, list(ways)))
        return self.wanted if self.wanted in ways else next(iter(ways))


def slow():
    time.sleep(0.002)


# Measuring


def test_the_fastest_way_is_chosen_and_remembered():
    ways = {"slow": lambda: slow, "fast": lambda: lambda: None}
    first, second = tuning.Tuner(), tuning.Tuner()
    assert first.choose("k0", "this kernel", ways) == "fast" and first.measured == 2
    assert second.choose("k0", "this kernel", ways) == "fast" and second.measured == 0
    assert second.decisions == {"k0": "fast"}
    assert second.choose("k0", "another kernel", {"fast": ways["fast"], "slow": ways["slow"]}) == "fast"
    assert second.measured == 2


def test_what_gains_nothing_is_not_chosen(monkeypatch):
    for usual, other, chosen in ((1e-3, 0.99e-3, "usual"), (1e-3, 0.9e-3, "other"), (1e-7, 0.8e-7, "usual")):
        times = {"usual": usual, "other": other}
        monkeypatch.setattr(measuring, "measure", lambda ways, one_thread, times=times: times)
        ways = {name: lambda: slow for name in times}
        assert tuning.Tuner().choose("k", f"{usual} {other}", ways) == chosen


def test_a_damaged_entry_is_measured_again(monkeypatch):
    ways = {"slow": lambda: slow, "fast": lambda: lambda: None}
    for data in (b"", b"[1]", b'{"chosen": 3}', b'{"chosen": "gone"}'):
        monkeypatch.setattr(disk_cache, "get", lambda kind, key, data=data: data)
        assert tuning.Tuner().choose("k0", "this kernel", ways) == "fast"


# Kernels

PROGRAMS = {
    "softmax": (lambda x: torch.softmax(x * 2, -1), (torch.randn(37, 301),)),
    "layer norm in bfloat16": (lambda x: F.layer_norm(x, (96,)), (torch.randn(5, 96).bfloat16(),)),
    "sums": (lambda x: (x.sum(), x.sum(0), x.sum(1), x.amax(1), x.argmax(1)), (torch.rand(130, 67),)),
    "pointwise": (lambda x, y: (x.sin() + y * x).relu(), (torch.randn(1003), torch.randn(1003))),
    "transposed": (lambda x, y: x.t() + y, (torch.randn(70, 66), torch.randn(66, 70))),
    "integers": (lambda x, y: (x * 3 + y, x > y), (torch.arange(500), torch.arange(500).flip(0))),
}
CHOICES = [
    {"vector_bytes": 32}, {"tuning": Tuning(unroll=1)}, {"tuning": Tuning(unroll=4, accumulators=8)},
    {"tuning": Tuning(accumulators=1, grain=1)}, {"tuning": Tuning(grain=ALONE, stream=1)},
]  # fmt: skip


def assert_same(found, expected):
    torch.testing.assert_close(found, expected)
    for a, b in zip(torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(expected), strict=True):
        assert a.stride() == b.stride() and a.dtype is b.dtype


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_every_choice_gives_the_results_of_eager(choice, monkeypatch):
    if "vector_bytes" in choice and host().vector_bytes < 64:
        pytest.skip("vectors are narrow already")
    target = type(host())(**{**{k: getattr(host(), k) for k in ("cpu", "features", "vector_bytes")}, **choice})
    monkeypatch.setattr(tuning, "tuned_targets", lambda plan, kernels, hints, tuner: [target] * len(kernels))
    for f, args in PROGRAMS.values():
        assert_same(fs.compile(f, backend="native", options={"max_autotune": True})(*args), f(*args))


@unchecked
def test_max_autotune(capfd):
    f, args = PROGRAMS["softmax"]
    fs.set_logs("autotune")
    try:
        for dynamic in (False, True):
            assert_same(fs.compile(f, backend="native", mode="max-autotune", dynamic=dynamic)(*args), f(*args))
        log = capfd.readouterr().err
        assert "k0 unroll: " in log and "k0 accumulators: " in log and " us)" in log and "before" not in log
        fs.reset()
        assert_same(fs.compile(f, backend="native", mode="max-autotune", dynamic=False)(*args), f(*args))
        again = capfd.readouterr().err
        assert "as measured before" in again and " us)" not in again
    finally:
        fs.set_logs()


def executable(f, *args):
    graph = torch.fx.Graph()
    graph.output(graph.call_function(f, tuple(graph.placeholder(f"x{k}") for k in range(len(args)))))
    return compile_graph(torch.fx.GraphModule(torch.nn.Module(), graph), args, Options())


def data_for(f, *args):
    made = executable(f, *args)
    launch = [step for step in made.plan.steps if isinstance(step, Launch)][-1]
    return made_up(launch.kernel, launch, hints_of(made.functional))


def test_made_up_memory_holds_all_that_a_kernel_reads():
    base = torch.randn(40, 50)
    data = data_for(lambda x: x.exp() + 1, base[::2, ::3])
    assert sorted(t.numel() for t in data.memory) == [20 * 17, 19 * 100 + 16 * 3 + 1]
    data = data_for(lambda x: F.pad(x, (3, 3)).exp(), torch.randn(4, 5))
    assert all(t.numel() >= 20 for t in data.memory)


@pytest.mark.parametrize("f, args, reason", [
    (lambda x, i: x[i], (torch.randn(9), torch.tensor([1, 2])), "depends on data"),
    (lambda x: x.expand(1 << 20, 1 << 12).exp(), (torch.empty(1),), "too much memory"),
    (lambda x: x // 3, (torch.arange(9),), ""),
])  # fmt: skip
def test_what_cannot_be_made_up_is_not_measured(f, args, reason):
    found = data_for(f, *args)
    assert isinstance(found, str) == bool(reason) and (not reason or reason in found)


def test_divisions_of_integers_that_may_be_by_zero():
    one, two = (ir.load(name, 0, torch.int64) for name in "ab")
    assert not _may_divide_by_zero(ir.op("div_floor", one, ir.cast(ir.load("c", 0, torch.int32), torch.int64)))
    assert not _may_divide_by_zero(ir.op("remainder", one, ir.const(3, torch.int64)))
    assert _may_divide_by_zero(ir.op("remainder", one, ir.op("sub", one, two)))
    real = ir.load("x", 0, torch.float32)
    assert not _may_divide_by_zero(ir.op("div", real, ir.op("sub", real, real)))


# Calls of libraries


@unchecked
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shapes", [((4, 8), (8, 5)), ((3, 4, 8), (3, 8, 5)), ((5,), (4, 8), (8, 5))], ids=str)
def test_small_products_by_loops(shapes, dtype, monkeypatch):
    f = {2: torch.matmul, 3: torch.addmm}[len(shapes)]
    args = [torch.randn(shape, dtype=dtype) for shape in shapes]
    for chosen, calls in (("loops", False), ("library", True)):
        chooser = Chooser(chosen)
        monkeypatch.setattr(tuning, "Tuner", chooser.given)
        backend_calls = []

        def backend(gm, examples, backend_calls=backend_calls):
            made = compile_graph(gm, examples, Options(max_autotune=True))
            backend_calls.extend(type(step).__name__ for step in made.plan.steps)
            return made.run

        assert_same(fs.compile(lambda *args: f(*args).relu(), backend=backend)(*args), f(*args).relu())
        assert ("ExternCall" in backend_calls) == calls
        assert any("library" in ways and "loops" in ways for _, ways in chooser.asked)


def test_products_of_short_floats_are_not_made_by_loops():
    from firesteel.functional import trace
    from firesteel.kernels.products.small_products import small_products

    graph = torch.fx.Graph()
    graph.output(graph.call_function(torch.mm, (graph.placeholder("x"), graph.placeholder("y"))))
    for dtype, asked in ((torch.bfloat16, False), (torch.float32, True)):
        inputs = [torch.ones(4, 4, dtype=dtype)] * 2
        chooser = Chooser("library")
        functional = trace(torch.fx.GraphModule(torch.nn.Module(), graph), inputs)
        small_products(functional, Settings(tuner=chooser))
        assert bool(chooser.asked) == asked


@unchecked
@pytest.mark.parametrize("chosen", ["ATen", "oneDNN"])
def test_linear_layers_by_either_library(chosen, monkeypatch):
    chooser = Chooser(chosen)
    monkeypatch.setattr(tuning, "Tuner", chooser.given)
    module = torch.nn.Sequential(torch.nn.Linear(96, 64), torch.nn.ReLU(), torch.nn.Linear(64, 96, bias=False)).eval()
    x = torch.randn(48, 96)
    assert_same(fs.compile(module, backend="native", mode="max-autotune")(x), module(x))
    assert sum("linear" in what for what, _ in chooser.asked) == 2


def test_measured_linear_layer():
    module = torch.nn.Linear(96, 64).eval()
    x = torch.randn(96, 96)
    assert_same(fs.compile(module, backend="native", mode="max-autotune")(x), module(x))
