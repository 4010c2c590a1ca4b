"""Functions run as plain Python where that is faster."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel.runtime import retiring
from firesteel.runtime.retiring import CALLS_BEFORE, SAMPLES, Race

CALLS = CALLS_BEFORE + 2 * SAMPLES + 4


def _broken(x, threshold):
    for _ in range(6):
        x = x + 1
        if x.sum() > threshold:
            x = x - 1
    return x


def _run(function, calls=CALLS):
    return [function(torch.full((2,), number / 7), 9.0) for number in range(calls)]


@pytest.fixture(autouse=True)
def without_gpu(monkeypatch):
    """Nothing is measured beside a GPU, which tests before these may have used."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)


@pytest.fixture
def compiled():
    function = fs.compile(_broken)
    return function, function._firesteel_unit


@pytest.mark.parametrize("winner", ["plain", "graphs"])
def test_the_faster_way_stays(monkeypatch, compiled, winner):
    function, unit = compiled
    monkeypatch.setattr(Race, "plain_wins", winner == "plain")
    expected = _run(lambda *args: _broken(*args))
    assert all(torch.equal(a, b) for a, b in zip(_run(function), expected, strict=True))
    if winner == "plain":
        assert unit.given_up.startswith("it is faster uncompiled: plain Python takes ")
        assert not unit.functions
    else:
        assert unit.given_up is None and len(unit.functions) == len(unit.entries) > 0
    assert all(torch.equal(a, b) for a, b in zip(_run(function), expected, strict=True))


def test_a_callee_is_measured_for_itself(monkeypatch):
    monkeypatch.setattr(Race, "plain_wins", True)
    compiled = fs.compile(lambda x, threshold: _broken(x * 2, threshold) * 3)
    expected = _run(lambda x, threshold: _broken(x * 2, threshold) * 3)
    assert all(torch.equal(a, b) for a, b in zip(_run(compiled), expected, strict=True))
    (unit,) = compiled._firesteel_unit.compiler.units[_broken.__code__]
    assert "faster uncompiled" in unit.given_up


def test_measured_calls_are_both_kinds_in_turn(monkeypatch, compiled):
    function, unit = compiled
    plain = []
    run_plain = unit.plain
    monkeypatch.setattr(unit, "plain", lambda args: plain.append(None) or run_plain(args))
    monkeypatch.setattr(Race, "plain_wins", False)
    _run(function)
    assert len(plain) == SAMPLES
    _run(function)
    assert len(plain) == SAMPLES


def test_it_can_be_switched_off(compiled):
    function, unit = compiled
    with fs.config.patch(retire_slow=False):
        _run(function)
    assert unit.given_up is None


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backends_for_finding_faults_are_not_measured(backend):
    function = fs.compile(_broken, backend=backend)
    _run(function)
    assert function._firesteel_unit.given_up is None


def test_work_that_goes_on_in_a_backward_pass_is_not_measured(compiled):
    function, unit = compiled
    weight = torch.ones(2, requires_grad=True)
    for _ in range(CALLS):
        function(weight, 9.0).sum().backward()
    assert unit.given_up is None and len(unit.functions) == len(unit.entries)


@pytest.mark.parametrize("calls_each_step", [1, 2])
@pytest.mark.parametrize("winner", ["plain", "graphs"])
def test_steps_of_training_are_measured_with_their_backward_passes(monkeypatch, winner, calls_each_step):
    class Broken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)

        def forward(self, x):
            x = self.linear(x)
            return x * 2 if x.sum() > 1e6 else x * 3

    now = [0.0]
    monkeypatch.setattr(retiring.time, "thread_time", lambda: now[0])
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    torch.manual_seed(0)
    model, expected = Broken(), Broken()
    expected.load_state_dict(model.state_dict())
    compiled = fs.compile(model)
    unit = type(compiled)._firesteel_compiler.unit_of(Broken.forward)
    for number in range(CALLS * calls_each_step):
        x = torch.full((3, 2), number / 50)
        for module in (compiled, expected):
            loss = module(x).square().mean()
            if (number + 1) % calls_each_step == 0:
                loss.backward()
                with torch.no_grad():
                    for parameter in module.parameters():
                        parameter -= 0.01 * parameter.grad
        runs_plain = number % 2 == 1  # every second call, as long as it is measured
        now[0] += 1.0 if runs_plain == (winner == "plain") else 2.0
    for a, b in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(a, b)
    assert (unit.given_up is not None) == (calls_each_step == 1 and winner == "plain")


def test_other_sizes_and_errors_during_the_race_are_as_ever(compiled):
    function, unit = compiled
    _run(function, CALLS_BEFORE)
    assert len(unit.functions) == len(unit.entries) + 1
    assert torch.equal(function(torch.zeros(5), 100.0), torch.full((5,), 6.0))
    with pytest.raises(TypeError):
        function(torch.zeros(5), "no number")
    assert torch.equal(function(torch.zeros(3, 2), 100.0), torch.full((3, 2), 6.0))


def test_a_call_is_as_long_as_its_quickest(compiled):
    assert retiring.typical([5.0, 1.0, 2.0, 3.0, 90.0]) == 2.0
    race = Race(compiled=[2.0] * SAMPLES, plain=[1.95] * SAMPLES)
    assert race.over and not race.plain_wins
    assert Race(compiled=[2.0] * SAMPLES, plain=[1.5] * SAMPLES).plain_wins
    assert not Race(compiled=[2.0], plain=[1.0], disturbed=retiring.MOST_DISTURBED).plain_wins


@pytest.mark.parametrize("winner", ["plain", "graphs"])
def test_a_function_in_one_graph_that_ran_uncompiled_before_is_measured_too(monkeypatch, winner):
    monkeypatch.setattr(Race, "plain_wins", winner == "plain")
    with fs.config.patch(compile_after=1e-9):
        function = fs.compile(lambda x, n: x * 2 + n)
        for number in range(CALLS + 2):
            assert torch.equal(function(torch.full((2,), 1.0), 0.5), torch.full((2,), 2.5)), number
    unit = function._firesteel_unit
    assert len(unit.entries) == 1
    if winner == "plain":
        assert "faster uncompiled" in unit.given_up and not unit.functions
    else:
        assert unit.given_up is None and unit.functions == (unit.entries[0].function,)
