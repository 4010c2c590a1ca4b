"""Training loops with recorded halves against eager: a stand-in for CUDA graphs, on the CPU."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.autodiff.joint import trace_training
from firesteel.kernels.compile import compile_functional
from firesteel.kernels.options import Options
from firesteel.runtime.cuda_graphs import GraphedFunction
from firesteel.runtime.training import TrainingUnit
from runtime.test_cuda_graphs import record_on_cpu

CPU = torch.device("cpu")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16), torch.nn.LayerNorm(16)

    def forward(self, x):
        return self.norm(F.gelu(self.second(torch.tanh(self.first(x)))) * x)


class Halves:
    """A backend whose forward and backward are recorded."""

    def __init__(self):
        self.made = []

    def __call__(self, module, examples):
        return TrainingUnit(module, examples, trace_training(module, examples), self.half)

    def half(self, functional, name, takes_list):
        compiled = compile_functional(functional, Options(), name, takes_list=takes_list)
        self.made.append(GraphedFunction(compiled.run, compiled.functional, CPU, name, takes_list, 1e6))
        return self.made[-1]

    def recordings(self):
        return [len(half.sizes[None].recordings) for half in self.made]


@pytest.fixture
def trained(monkeypatch):
    record_on_cpu(monkeypatch)
    fs.reset()
    torch.manual_seed(0)
    model, backend = Net(), Halves()
    return model, fs.compile(model, backend=backend, fullgraph=True), copy.deepcopy(model), backend


def compare(model, eager):
    for p, q in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_loops(trained, to_none, accumulate):
    model, compiled, eager, backend = trained
    optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (model, eager)]
    losses = []
    for number in range(9):
        x = torch.randn(8, 16)
        pair = [run(x).square().mean() for run in (compiled, eager)]
        for loss in pair:
            loss.backward()
        losses.append(pair)
        compare(model, eager)
        if number % accumulate == accumulate - 1:
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=to_none)
    for ours, theirs in losses:
        torch.testing.assert_close(ours, theirs)
    forward, backward = backend.recordings()
    assert forward == 1 and backward == (2 if to_none and accumulate > 1 else 1)


def test_results_that_are_kept(trained):
    model, compiled, eager, backend = trained
    kept = []
    for _ in range(8):
        x = torch.randn(8, 16)
        kept.append((compiled(x), eager(x)))
        for result in kept[-1]:
            result.square().mean().backward()
        compare(model, eager)
        model.zero_grad(), eager.zero_grad()
    for ours, theirs in kept:
        torch.testing.assert_close(ours, theirs)
    assert backend.recordings()[0] <= 2  # results are copied rather than all that is saved


def test_two_calls_before_backward(trained):
    model, compiled, eager, backend = trained
    for _ in range(6):
        x, y = torch.randn(8, 16), torch.randn(8, 16)
        for run in (compiled, eager):
            (run(x) * run(y)).mean().backward()
        compare(model, eager)
        model.zero_grad(), eager.zero_grad()
    assert backend.recordings() == [2, 2]


def test_backward_never_or_twice_and_exceptions(trained):
    model, compiled, eager, backend = trained
    for number in range(10):
        x = torch.randn(8, 16)
        for run in (compiled, eager):
            loss = run(x).square().mean()
            if number % 3 == 1:
                loss.register_hook(lambda gradient: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    loss.backward()
            elif number % 3 == 2:
                loss.backward(retain_graph=True)
                loss.backward()
        if number % 3 == 2:
            compare(model, eager)
            model.zero_grad(), eager.zero_grad()
    assert max(backend.recordings()) <= 2


def test_hooks_that_pack_what_is_saved(trained):
    model, compiled, eager, backend = trained
    for _ in range(5):
        x = torch.randn(8, 16)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            losses = [compiled(x).square().mean(), eager(x).square().mean()]
        compiled(torch.randn(8, 16))  # what was saved has been packed, so this may overwrite it
        for loss in losses:
            loss.backward()
        compare(model, eager)
        model.zero_grad(), eager.zero_grad()


def test_saved_tensors_that_the_user_holds(trained):
    model, compiled, _, _ = trained
    held = []
    for _ in range(5):
        x = torch.randn(8, 16)
        result = compiled(x)
        saved = [t for t in result.grad_fn.saved_tensors if t is not None]
        held.append((saved, [t.clone() for t in saved]))
        result.sum().backward()
        model.zero_grad()
    for saved, copies in held:
        for t, c in zip(saved, copies, strict=True):
            assert torch.equal(t, c)
