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
    assert compilations == ["step"]


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


def _closure_of(model, optimizer, x):
    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    return closure


def test_gradients_that_are_cleared_need_not_be_there(compilations):
    plain, model, x = _model(), _model(), torch.ones(3, 4)
    results = []
    for subject, transform in ((plain, lambda function: function), (model, fs.compile)):
        optimizer = torch.optim.LBFGS(subject.parameters(), 0.5, max_iter=3)
        closure = transform(_closure_of(subject, optimizer, x))
        results.append([optimizer.step(closure) for _ in range(3)])
    torch.testing.assert_close(results[1], results[0])
    assert compilations == ["closure"]


@pytest.mark.parametrize("given", [{}, {"set_to_none": True}, {"set_to_none": False}])
def test_gradients_are_cleared_as_in_eager(given):
    for had in (True, False):
        grads = []
        for transform in (lambda function: function, fs.compile):
            model = _model()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            if had:
                model(torch.ones(1, 4)).sum().backward()

            def clear(optimizer=optimizer):
                optimizer.zero_grad(**given)

            transform(clear)()
            grads.append([parameter.grad for parameter in model.parameters()])
        if grads[0][0] is None:
            assert all(grad is None for grad in (*grads[0], *grads[1]))
        else:
            torch.testing.assert_close(grads[1], grads[0])


def test_a_rate_with_a_scheduler_is_a_number_of_the_graph_at_once(compilations):
    losses = []
    for transform in (lambda function: function, fs.compile):
        model = _model()
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = transform(step)
        losses.append([])
        for _ in range(8):
            losses[-1].append(run(torch.ones(3, 4)))
            schedule.step()
    torch.testing.assert_close(losses[1], losses[0])
    assert compilations == ["step"]


def _averaged(model, kind):
    from torch.optim import swa_utils

    if kind == "average":
        return swa_utils.AveragedModel(model)
    if kind == "exponential":
        return swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    return swa_utils.AveragedModel(model, avg_fn=lambda old, new, number: 0.5 * old + 0.5 * new, use_buffers=True)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("kind", ["average", "exponential", "own"])
def test_averages_of_models(kind, whole, compilations):
    averages = []
    for transform in (lambda function: function, fs.compile):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        average = _averaged(model, kind)

        def step(x, model=model, optimizer=optimizer, average=average, update=None):
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if update is None:
                average.update_parameters(model)
            return loss.detach()

        run = transform(step) if whole else step
        update = transform(average.update_parameters)
        for number in range(6):
            run(torch.randn(5, 4, generator=torch.Generator().manual_seed(number)), update=None if whole else update)
            if not whole:
                update(model)
        averages.append(average.state_dict())
    torch.testing.assert_close(averages[1], averages[0])
    assert compilations == ["step" if whole else "update_parameters"]
