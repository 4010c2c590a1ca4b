"""Compilations by stage: every stage has its own time, all together the whole."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel.stage_times import TIMES

STAGES = {"capture", "differentiate", "partition", "passes", "host"}


def two_layers(x, w):
    return torch.softmax(x @ w, -1).sin()


def test_stages_of_forward_and_backward():
    fs.reset()
    x, w = torch.randn(3, 4), torch.randn(4, 5, requires_grad=True)
    with fs.config.patch(disk_cache=False):
        fs.compile(two_layers, backend="native")(x, w).sum().backward()
    forward, backward = TIMES
    assert forward.name == "two_layers" and backward.name == "two_layers (backward)"
    assert backward.where == forward.where and __file__ in forward.where
    assert forward.stages.keys() >= STAGES | {"lower", "schedule", "generate"}
    assert backward.stages.keys() >= {"passes", "lower", "schedule", "generate", "host"}
    assert "capture" not in backward.stages
    for record in TIMES:  # the stages of a compilation have no time in common
        assert all(seconds >= 0 for seconds in record.stages.values())
    assert sum(backward.stages.values()) == pytest.approx(backward.seconds)
    text = fs.compile_times()
    assert all(name in text for name in (*STAGES, "two_layers (backward)"))


def test_stages_that_raise_leave_the_next_ones_alone():
    fs.reset()

    def refuses(gm, inputs):
        raise ValueError("not today")

    try:
        fs.compile(two_layers, backend=refuses, fullgraph=True)(torch.ones(2, 3), torch.ones(3, 2))
    except fs.errors.BackendError:
        pass
    assert not TIMES
    fs.compile(two_layers, backend="eager")(torch.ones(2, 3), torch.ones(3, 2))
    assert [record.name for record in TIMES] == ["two_layers"] and "capture" in TIMES[0].stages


def test_logs_of_times_code_and_lines(capsys):
    fs.reset()
    fs.set_logs("times,+code,+guards,+graphs,+graph_breaks")
    try:
        def f(x):
            y = x.sin()
            fs.graph_break()
            return y + 1

        fs.compile(f)(torch.ones(3))
    finally:
        fs.set_logs()
    lines = capsys.readouterr().err.splitlines()
    times = [line for line in lines if line.startswith("[times]")]
    assert len(times) == 2 and "f (" in times[0] and "capture" in times[0] and "generate" in times[0]
    assert "[code] def entry(x):" in lines and "[code] def run(x):" in lines
    assert any(line.startswith("[code] define void @") for line in lines)
    assert any(line.startswith("[graphs] sin: f32[3] = aten.sin.default") for line in lines)
    assert "[guards]         y = x.sin()" in lines and "[graph_breaks]     fs.graph_break()" in lines
