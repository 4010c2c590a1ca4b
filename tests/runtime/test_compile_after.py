"""Functions that run as plain Python until compiling them may pay."""

from __future__ import annotations

import time

import pytest
import torch

import firesteel as fs


def test_compiles_once_the_time_is_up():
    function = fs.compile(lambda x: x * 2 + 1)
    unit = function._firesteel_unit
    with fs.config.patch(compile_after=10.0):
        for number in range(3):
            assert torch.equal(function(torch.full((2,), float(number))), torch.full((2,), 2.0 * number + 1))
        assert not unit.entries and 0 < unit.plain_seconds < 10
        unit.plain_seconds = 10.0
        assert torch.equal(function(torch.ones(2)), torch.full((2,), 3.0))
    assert len(unit.entries) == 1


def test_time_counts_of_calls_that_raise_too():
    def raises(x):
        time.sleep(0.02)
        raise ValueError("no")

    function = fs.compile(raises)
    with fs.config.patch(compile_after=10.0), pytest.raises(ValueError):
        function(torch.ones(2))
    assert function._firesteel_unit.plain_seconds >= 0.02


def test_what_varied_meanwhile_is_a_symbol_at_once():
    function = fs.compile(lambda x, n: x * n + x.shape[0])
    unit = function._firesteel_unit
    with fs.config.patch(compile_after=10.0):
        function(torch.ones(3), 2)
        unit.plain_seconds = 10.0
        for size in (4, 5, 6):
            assert torch.equal(function(torch.ones(size), size), torch.full((size,), 2.0 * size))
    assert len(unit.entries) == 1


def test_who_insists_on_a_graph_or_asks_for_it_does_not_wait():
    with fs.config.patch(compile_after=10.0):
        whole = fs.compile(lambda x: x + 1, fullgraph=True)
        whole(torch.ones(2))
        assert len(whole._firesteel_unit.entries) == 1
        assert fs.explain(lambda x: x + 1)(torch.ones(2)).graph_count == 1


def test_modules_wait_too():
    module = torch.nn.Linear(3, 2)
    compiled = fs.compile(module)
    x = torch.ones(1, 3)
    with fs.config.patch(compile_after=10.0):
        torch.testing.assert_close(compiled(x), module(x))
        compiled(x).sum().backward()
    assert module.weight.grad is not None


def test_reset_starts_the_clock_anew():
    function = fs.compile(lambda x: x + 1)
    with fs.config.patch(compile_after=10.0):
        function(torch.ones(2))
        assert function._firesteel_unit.plain_seconds > 0
        fs.reset()
        assert function._firesteel_unit.plain_seconds == 0
