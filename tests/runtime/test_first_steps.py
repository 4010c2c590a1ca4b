"""Training steps: the first call of an optimizer runs uncompiled, and the second serves all others."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import firesteel as fs
from firesteel import events

OPTIMIZERS = {
    "adam": lambda parameters: torch.optim.Adam(parameters, 0.01),
    "adamw_amsgrad": lambda parameters: torch.optim.AdamW(parameters, 0.01, amsgrad=True),
    "momentum": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9),
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.1),  # it never has any state
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, 0.01),  # it has state from the start
    "adafactor": lambda parameters: torch.optim.Adafactor(parameters, 0.01),
}


@pytest.fixture
def compilations(monkeypatch):
    seen = []
    monkeypatch.setattr(events, "LISTENERS", [lambda kind, unit, what: seen.append(unit.name) if kind == "compiled"
                                              else None])
    return seen


def _model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def _steps(model, optimizer, transform, number=5):
    def step(x, y):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run = transform(step)
    torch.manual_seed(1)
    return [run(torch.randn(3, 4), torch.randn(3, 2)) for _ in range(number)]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_compilation_and_the_results_of_eager(name, compilations):
    plain, model = _model(), _model()
    make = OPTIMIZERS[name]
    expected = _steps(plain, make(plain.parameters()), lambda step: step)
    losses = _steps(model, make(model.parameters()), fs.compile)
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(model.state_dict(), plain.state_dict())
    assert all(loss.requires_grad for loss in losses)
    # Adagrad's state is there before its first step, but no gradients are
    assert compilations == ["step"] * (2 if name == "adagrad" else 1)


def test_who_insists_on_one_graph_gets_it_in_the_first_call(compilations):
    model = _model()
    _steps(model, torch.optim.Adam(model.parameters()), lambda step: fs.compile(step, fullgraph=True), number=1)
    assert compilations == ["step"]


def test_explain_tells_of_the_first_call():
    model = _model()
    optimizer = torch.optim.Adam(model.parameters())

    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    assert fs.explain(step)(torch.ones(3, 4)).graph_count == 1


def test_optimizers_are_seen_in_objects_and_lists(compilations):
    class Trainer:
        def __init__(self):
            self.model = _model()
            self.optimizer = torch.optim.Adam(self.model.parameters())

        def step(self, x):
            self.optimizer.zero_grad()
            loss = self.model(x).square().mean()
            loss.backward()
            self.optimizer.step()
            return loss.detach()

    def steps(state, optimizers, x):
        state.model(x).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()

    trainer = Trainer()
    compiled = fs.compile(trainer.step)
    for _ in range(4):
        compiled(torch.ones(3, 4))
    model = _model()
    several = fs.compile(steps)
    optimizers = [torch.optim.Adam(model.parameters())]
    for _ in range(4):
        several(SimpleNamespace(model=model), optimizers, torch.ones(3, 4))
    assert compilations == ["step", "steps"]


def test_sizes_that_differ_from_the_first_call_are_symbols_at_once(compilations):
    model = _model()
    plain = copy.deepcopy(model)

    def losses(model, transform):
        optimizer = torch.optim.Adam(model.parameters(), 0.01)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = transform(step)
        return [run(torch.ones(size, 4)) for size in (3, 4, 5, 6)]

    torch.testing.assert_close(losses(model, fs.compile), losses(plain, lambda step: step))
    assert compilations == ["step"]


def test_functions_that_only_clear_gradients_do_not_wait(compilations):
    model = _model()
    optimizer = torch.optim.Adam(model.parameters())

    @fs.compile
    def closure(x):
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        return loss.detach()

    closure(torch.ones(3, 4))
    assert compilations == ["closure"]
