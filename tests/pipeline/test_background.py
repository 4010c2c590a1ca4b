"""Compiling while the program runs: the same results before and after, errors where the program can see them."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
import torch

import firesteel as fs
from firesteel import config
from firesteel.errors import FiresteelWarning
from firesteel.pipeline import background
from firesteel.pipeline import compile as stages
from firesteel.pipeline.locking import compiling

LATER = {"background": True}


@pytest.fixture
def later(monkeypatch):
    """What was compiled in threads."""
    found = []

    class Noted(background.CompiledLater):
        def __init__(self, *args):
            found.append(self)
            super().__init__(*args)

    monkeypatch.setattr(background, "CompiledLater", Noted)
    return found


def test_it_takes_over(later):
    def program(x):
        x.add_(1)
        return torch.softmax(x, -1), x.view(-1)

    compiled = fs.compile(program, options=LATER)
    with torch.no_grad():
        for turn in range(4):
            x = torch.randn(6, 5)
            mine = x.clone()
            if turn == 0:
                with compiling():  # the thread cannot begin
                    got = compiled(mine)
                    before = later[0].run
            else:
                got = compiled(mine)
            torch.testing.assert_close(got, program(x))
            torch.testing.assert_close(mine, x)
            assert got[1].data_ptr() == mine.data_ptr()
            later[0].wait()
    assert len(later) == 1 and later[0].run is not before


def test_training(later):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8))
    compiled = fs.compile(model, options=LATER)

    def gradients(run, x):
        model.zero_grad()
        run(x).square().sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    for _ in range(3):
        x = torch.randn(4, 8)
        torch.testing.assert_close(gradients(compiled, x), gradients(model, x))
        for one in later:
            one.wait()
    [unit] = [one.run for one in later]
    assert len(unit.backwards) == 1  # made before it was needed, and the right one


def test_the_thread_sees_the_callers_state(later):
    linear = torch.nn.Linear(8, 8)
    compiled = fs.compile(linear, options=LATER)
    x = torch.randn(4, 8)
    for _ in range(2):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            got, want = compiled(x), linear(x)
        assert got.dtype is torch.bfloat16 and not got.requires_grad
        torch.testing.assert_close(got, want)
        later[0].wait()
    with torch.inference_mode():
        assert compiled(x).is_inference()


def test_a_failure_is_one_warning_and_operators_go_on(later, monkeypatch):
    def fail(*args):
        raise ValueError("no code today")

    monkeypatch.setattr(stages, "compile_graph", fail)
    compiled, x = fs.compile(lambda x: x.sin() + 1, options=LATER), torch.randn(5)
    with torch.no_grad(), config.patch(raise_on_internal_error=False), pytest.warns(FiresteelWarning, match="today"):
        compiled(x)
        later[0].wait()
        torch.testing.assert_close(compiled(x), x.sin() + 1)


def test_a_failure_is_raised_by_the_next_call_where_it_is_asked_for(later, monkeypatch):
    def fail(*args):
        raise ValueError("no code today")

    monkeypatch.setattr(stages, "compile_graph", fail)
    compiled, x = fs.compile(lambda x: x.sin() + 1, options=LATER), torch.randn(5)
    with torch.no_grad():
        with compiling():
            compiled(x)
        later[0].wait()
        with pytest.raises(ValueError, match="today"):
            compiled(x)
        torch.testing.assert_close(compiled(x), x.sin() + 1)


def test_sizes_that_change_and_modes_are_compiled_at_once(later):
    with torch.no_grad():
        compiled = fs.compile(lambda x: x.sin() + 1, options=LATER, dynamic=True)
        for size in (5, 6):
            x = torch.randn(size)
            torch.testing.assert_close(compiled(x), x.sin() + 1)
        with torch.device("cpu"):
            fs.compile(lambda: torch.ones(3) + 1, options=LATER)()
    assert not later


def test_settings_that_change_meanwhile(later):
    x = torch.randn(5)
    with torch.no_grad():
        with compiling():
            compiled = fs.compile(lambda x: x + torch.ones(5), options=LATER)
            compiled(x)
            torch.set_default_dtype(torch.float64)
        try:
            later[0].wait()
        finally:
            torch.set_default_dtype(torch.float32)
        assert isinstance(later[0].run.__self__, torch.fx.GraphModule)
        torch.testing.assert_close(compiled(x), x + 1)


def test_a_program_that_ends_early():
    code = ("import torch, firesteel as fs\n"
            "compiled = fs.compile(lambda x: torch.softmax(x, -1), options={'background': True})\n"
            "with torch.no_grad(): print(compiled(torch.zeros(2, 2))[0, 0].item())")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "0.5\n" and not found.stderr


def test_no_thread_without_the_option():
    before = threading.active_count()
    with torch.no_grad():
        fs.compile(lambda x: x + 1)(torch.randn(3))
    assert threading.active_count() == before
