"""Frozen parameters: what is computed once, that every change torch counts is noticed, and memory that is held."""

from __future__ import annotations

import functools
import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import firesteel as fs
from firesteel import config
from firesteel.backends import native
from firesteel.functional import run
from firesteel.passes.fold_batch_norm import fold_batch_norm
from firesteel.passes.freezing import Kept, freeze
from firesteel.passes.settings import Settings
from firesteel.pipeline.graph_passes import run_passes
from passes.pass_checks import assert_same, body, check, functional, operators

pytestmark = pytest.mark.usefixtures("quick_collections")


@pytest.fixture(autouse=True)
def strict():
    torch.manual_seed(0)
    with torch.no_grad(), config.patch(raise_on_internal_error=True):
        yield


@pytest.fixture
def kept(monkeypatch):
    """All `Kept` objects that compilations make."""
    made = []
    around = Kept.around
    monkeypatch.setattr(Kept, "around", lambda self, run: made.append(self) or around(self, run))
    return made


def frozen_settings(graph, *names):
    return Settings(frozen=frozenset(entry.node for entry in graph.inputs if entry.name in names))


def compiled(module, **options):
    backend = functools.partial(native.native, options={"freeze": True, **options})
    return fs.compile(module, backend=backend, fullgraph=True)


def test_graph_before_and_after():
    def f(x0, x1):
        return x0 @ x1.bfloat16().t()

    args = torch.randn(4, 8, dtype=torch.bfloat16), torch.randn(8, 8)
    graph = functional(f, args)
    assert body(graph) == (
        "_to_copy: bf16[8, 8] = aten._to_copy.default(x1, dtype=torch.bfloat16)\n"
        "t: bf16[8, 8]/[1, 8] = aten.t.default(_to_copy)\n"
        "mm: bf16[4, 8] = aten.mm.default(x0, t)\n"
        "return mm")
    after, kept = freeze(graph, frozen_settings(graph, "x1"))
    check(after)
    assert str(after) == (
        "input x1: f32[8, 8], x0: bf16[4, 8], kept_0: bf16[8, 8]\n"
        "t: bf16[8, 8]/[1, 8] = aten.t.default(kept_0)\n"
        "mm: bf16[4, 8] = aten.mm.default(x0, t)\n"
        "return mm")
    runner = kept.around(lambda *inputs: run(after, inputs))
    for _ in range(2):
        assert_same(runner(*reversed(args)), f(*args))
    assert kept.times_computed == 1
    args[1].mul_(2)
    assert_same(runner(*reversed(args)), f(*args))
    assert kept.times_computed == 2


def test_what_stays_in_the_graph():
    def f(x0, x1, x2):
        x2.add_(1)
        large = x1[:, None] * torch.ones(1000)
        return x0 + x1.view(2, 4), large, torch.rand(8) * x1, x2 * 2

    args = torch.randn(2, 4), torch.randn(8), torch.randn(8)
    graph = functional(f, args)
    text = str(graph)
    after, kept = freeze(graph, frozen_settings(graph, "x1", "x2"))
    assert kept is None and str(after) == text


class Normalised(nn.Module):
    def __init__(self, bias=False, affine=True):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, bias=bias)
        self.norm = nn.BatchNorm2d(8, affine=affine)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        return self.norm(self.conv(x)).relu()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_batch_norm_is_folded(bias, affine, kept):
    model, x = Normalised(bias, affine).eval(), torch.randn(2, 3, 9, 9)
    function = compiled(model)
    for _ in range(2):
        assert_same(function(x), model(x))
    assert [each.times_computed for each in kept] == [1]
    for change in (lambda: model.norm.running_var.mul_(2), lambda: model.conv.weight.add_(1)):
        change()
        assert_same(function(x), model(x))
    assert kept[0].times_computed == 3 and len(kept[0].kept) == 2


@pytest.mark.parametrize("trained", ["compiled", "eager"])
def test_statistics_that_training_updates_are_noticed(trained, kept):
    """Batch norm writes them without counting."""
    model, x = Normalised(True, True).eval(), torch.randn(2, 3, 9, 9) * 5 + 3
    function = compiled(model)
    assert_same(function(x), model(x))
    counted = model.norm.running_mean._version
    for _ in range(2):
        model.train()
        (function if trained == "compiled" else model)(x)
        model.eval()
        assert_same(function(x), model(x))
    assert model.norm.running_mean._version == counted


def test_batch_norm_graph():
    def f(x0, x1, x2, x3):
        return F.batch_norm(F.conv2d(x0, x1), x2, x3)

    args = torch.randn(1, 2, 4, 4), torch.randn(3, 2, 1, 1), torch.randn(3), torch.rand(3) + 0.5
    graph = functional(f, args)
    untouched = str(graph)
    assert str(fold_batch_norm(graph, frozen_settings(graph, "x1", "x2"))) == untouched
    after = fold_batch_norm(graph, frozen_settings(graph, "x1", "x2", "x3"))
    assert "batch_norm" not in str(after)
    assert_same(run(after, args), f(*args))
    after, kept = freeze(after, frozen_settings(after, "x1", "x2", "x3"))
    assert operators(after) == ["aten.convolution.default"]


CHANGES = {
    "in place": lambda m: m.weight.add_(1),
    "through a view": lambda m: m.weight[0].zero_(),
    "detached": lambda m: m.weight.detach().add_(1),
    "data assigned": lambda m: setattr(m.weight, "data", m.weight.data * 2),
    "data assigned twice": lambda m: [setattr(m.weight, "data", m.weight.data * 2) for _ in range(2)],
    "state dict": lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}),
    "state dict assigned": lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}, assign=True),
    "another parameter": lambda m: setattr(m, "weight", nn.Parameter(torch.randn(8, 8))),
    "initialised": lambda m: nn.init.normal_(m.weight),
    "vector": lambda m: nn.utils.vector_to_parameters(torch.randn(72), m.parameters()),
    "optimizer": lambda m: step(m, torch.optim.SGD(m.parameters(), 1.0)),
    "foreach optimizer": lambda m: step(m, torch.optim.AdamW(m.parameters(), 1.0, foreach=True)),
}


def step(module, optimizer):
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()


class Cast(nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight.double(), self.bias.double())


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_noticed(name, kept):
    model, x = Cast(8, 8), torch.randn(2, 8, dtype=torch.float64)
    function = compiled(model)
    assert_same(function(x), model(x))
    assert kept[0].times_computed == 1
    before = model(x)
    CHANGES[name](model)
    assert not torch.equal(model(x), before)
    assert_same(function(x), model(x))
    assert_same(function(x), model(x))


def test_not_frozen_by_default(kept):
    model, x = Cast(8, 8), torch.randn(2, 8, dtype=torch.float64)
    function = fs.compile(model, backend="native", fullgraph=True)
    function(x)
    assert not kept
    model.weight.data.add_(1)  # the version counter does not move
    assert_same(function(x), model(x))


def test_arguments_are_not_frozen(kept):
    def f(x, weight):
        return x @ weight.double()

    compiled(f)(torch.randn(2, 8, dtype=torch.float64), torch.randn(8, 8))
    assert not kept


def test_inference_tensors(kept):
    with torch.inference_mode():
        model, x = Cast(8, 8), torch.randn(2, 8, dtype=torch.float64)
        assert_same(compiled(model)(x), model(x))


def test_autocast_weights_are_cast_once(kept):
    model, x = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), torch.randn(8, 16)
    function = compiled(model)
    with torch.autocast("cpu"):
        for _ in range(2):
            assert_same(function(x), model(x))
    assert kept[0].times_computed == 1 and len(kept[0].kept) >= 4


def test_memory_goes_with_the_compiled_function():
    model, x = Cast(8, 8), torch.randn(2, 8, dtype=torch.float64)
    function = compiled(model)
    function(x)
    gone = weakref.ref(model.weight)
    del model, function
    gc.collect()
    assert gone() is None


def test_no_settings_no_change():
    graph = functional(lambda x0, x1: x0 * x1.exp(), (torch.randn(3), torch.randn(3)))
    passed = run_passes(graph)
    assert passed.kept is None and [each.name for each in passed.runs][0] == "identities"
