"""Debuggers, trace functions and coverage beside compiled code."""

from __future__ import annotations

import bdb
import subprocess
import sys
import textwrap
import types

import pytest
import torch

import firesteel as fs
from firesteel.runtime.debuggers import debugger_traces

X = torch.ones(2)


def inner(x):
    hidden = x + 1
    breakpoint()
    return hidden * 2


def outer(x):
    before = x.sin()
    return inner(before).cos()


def test_breakpoint_sees_the_whole_function(monkeypatch):
    seen = []

    def hook(*args, **kwargs):
        frame = sys._getframe(1)
        seen.append((frame.f_code is inner.__code__, sorted(frame.f_locals)))

    compiled = fs.compile(outer, tier="wait")
    monkeypatch.setattr(sys, "breakpointhook", hook)
    for _ in range(3):
        torch.testing.assert_close(compiled(X), (X.sin() + 1).mul(2).cos())
    assert seen == [(True, ["hidden", "x"])] * 3
    explanation = fs.explain(outer)(X)
    assert "a debugger stops here" in str(explanation) and explanation.graph_count == 2
    with pytest.raises(fs.errors.GraphBreakError, match="a debugger stops here"):
        fs.compile(outer, fullgraph=True)(X)


def test_pdb_steps_through_the_lines_of_the_function():
    source = textwrap.dedent("""
        import pdb, sys, torch
        import firesteel as fs

        def f(x):
            y = x + 1
            pdb.set_trace()
            z = y * 2
            return z

        print(fs.compile(f, tier="wait")(torch.ones(1)))
        """)
    done = subprocess.run([sys.executable, "-c", source], input="p y\nn\nn\np z\nc\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line.removeprefix("(Pdb) ") for line in done.stdout.splitlines()]
    assert "tensor([2.])" in lines and lines.count("tensor([4.])") == 2


def test_functions_called_under_a_debugger_run_as_they_are():
    def f(x):
        y = x + 1
        return y * 2

    lines = []

    class Recording(bdb.Bdb):
        def user_line(self, frame):
            if frame.f_code is f.__code__:
                lines.append(frame.f_lineno - f.__code__.co_firstlineno)
            self.set_step()

    before = sys.gettrace()
    compiled = fs.compile(f, tier="wait")
    try:
        result = Recording().runcall(compiled, X)
    finally:
        sys.settrace(before)
    assert result.tolist() == [4, 4] and lines == [1, 2]
    assert not debugger_traces() and compiled._firesteel_unit.entries == []
    compiled(X)
    assert len(compiled._firesteel_unit.entries) == 1


def test_trace_functions_of_others_change_nothing():
    calls = []

    def trace(frame, event, arg):
        calls.append(frame.f_code.co_name)
        return trace

    compiled = fs.compile(lambda x: x.sin() + 1, tier="wait")
    compiled(X)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = compiled(X)
    finally:
        sys.settrace(before)
    torch.testing.assert_close(result, X.sin() + 1)
    assert len(compiled._firesteel_unit.entries) == 1 and "entry" in calls


class Measures:
    """Stands for the tracer of `coverage`: keeps which lines of this file are run."""

    def __init__(self):
        self.lines = set()

    def trace(self, frame, event, arg):
        if frame.f_code.co_filename != __file__:
            return None
        if event == "line":
            self.lines.add(frame.f_lineno)
        return self.trace


Measures.__module__ = "coverage.pytracer"


def called(x):
    y = x + 1
    return y * 2


def counted(n):
    for i in range(n):  # noqa: UP028
        yield i


def measured(x, flag):
    a = x.sin()
    if flag:
        b = called(a)
    else:
        b = a - 1
    for i in counted(2):
        b = b + i
    fs.graph_break()
    try:
        b = b.cos()
        raise ValueError
    except ValueError:
        b = b + 1
    return b


def test_lines_in_graphs_count_as_run(monkeypatch):
    monkeypatch.setitem(sys.modules, "coverage", types.ModuleType("coverage"))
    plain, inside = Measures(), Measures()
    compiled = fs.compile(measured, tier="wait")
    before = sys.gettrace()
    try:
        for measures, function in ((plain, measured), (inside, compiled)):
            sys.settrace(measures.trace)
            result = function(X, True)
            sys.settrace(before)
            torch.testing.assert_close(result, measured(X, True))
    finally:
        sys.settrace(before)
    first = called.__code__.co_firstlineno
    # a function that is inlined is entered at its head
    heads = {code.__code__.co_firstlineno for code in (called, counted, measured)}
    end = test_lines_in_graphs_count_as_run.__code__.co_firstlineno
    assert {line for line in plain.lines if first <= line < end} == \
        {line for line in inside.lines if first <= line < end} - heads
    assert measured.__code__.co_firstlineno + 5 not in inside.lines  # the other branch
    from firesteel.capture.opcode_handlers import HANDLERS

    assert not any(handler.__name__ == "noted" for handler in HANDLERS.values())
