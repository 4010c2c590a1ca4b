"""Compiled calls are ranges of torch's profilers, and cost nothing when there is none."""

from __future__ import annotations

import functools

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

import firesteel as fs
from firesteel.runtime.stance import STATE


def names_of(run):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        result = run()
    assert not STATE.special
    return [event.name for event in profiler.events()], result


def plain(x, n=2, *rest, key=1):
    with record_function("mine"):
        y = x.sin() * n
    return y + key


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).relu()


def test_calls_have_the_name_and_place_of_their_function():
    compiled, model, x = fs.compile(plain), fs.compile(Model()), torch.ones(3, 4)
    place = f"test_ranges.py:{plain.__code__.co_firstlineno}"

    def run():
        model(x).sum().backward()
        return compiled(x), compiled(x, 3, key=2)

    for _ in range(2):  # compiled under the profiler, and before it
        names, results = names_of(run)
        assert names.count(f"firesteel: plain ({place})") == 2 and names.count("mine") == 2
        assert [name for name in names if name.startswith("firesteel: Model.forward (test_ranges.py:")]
        torch.testing.assert_close(results, (plain(x), plain(x, 3, key=2)))


def twice(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2
    return wrapper


def test_decorated_functions_have_their_own_name_and_place():
    class Decorated(Model):
        forward = twice(Model.forward)

    compiled, model, x = fs.compile(twice(plain)), fs.compile(Decorated()), torch.ones(3, 4)
    names, results = names_of(lambda: (compiled(x), model(x)))
    lines = [Model.forward.__code__.co_firstlineno, plain.__code__.co_firstlineno]
    assert [f"firesteel: {name} (test_ranges.py:{line})" in names
            for name, line in zip(("Decorated.forward", "plain"), lines, strict=True)] == [True, True], names
    torch.testing.assert_close(results[0], plain(x) * 2)


def test_calls_without_a_profiler_go_the_usual_way(monkeypatch):
    from firesteel.runtime import ranges

    compiled = fs.compile(plain)
    monkeypatch.setattr(ranges, "profiler_range", None)
    torch.testing.assert_close(compiled(torch.ones(2)), plain(torch.ones(2)))


def test_errors_and_new_defaults_under_a_profiler():
    def function(x, n=2):
        if n > 5:
            raise ValueError("too large")
        return x * n

    compiled = fs.compile(function)
    with profile(activities=[ProfilerActivity.CPU]):
        assert compiled(torch.ones(2)).sum() == 4
        with pytest.raises(ValueError, match="too large") as caught:
            compiled(torch.ones(2), 6)
        function.__defaults__ = (3,)
        assert compiled(torch.ones(2)).sum() == 6
        with fs.set_stance("force_eager"):
            assert compiled(torch.ones(2)).sum() == 6
    assert caught.traceback[-1].name == "function"
