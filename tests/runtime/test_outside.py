"""What runs outside of graphs is counted: `explain` lists it, and a function that is mostly uncompiled warns once."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import firesteel as fs

X = torch.ones(3)


@fs.disable
def disabled(x: torch.Tensor) -> torch.Tensor:
    for _ in range(20):
        x = x * 1.01
    return x


@functools.lru_cache
def cached(number: int) -> torch.Tensor:
    fs.graph_break()
    return torch.full((3,), float(number)).sin()


class Passing(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def calls_what_is_disabled(x: torch.Tensor) -> torch.Tensor:
    return disabled(x + 1) * 2


def is_skipped(x: torch.Tensor) -> torch.Tensor:
    with Passing():
        for _ in range(20):
            x = x * 1.01
        fs.graph_break()
    return x


def breaks_only(x: torch.Tensor) -> torch.Tensor:
    for _ in range(20):
        x = x * 1.01
        fs.graph_break()
    return x


def generates(x: torch.Tensor) -> torch.Tensor:
    def items() -> Iterator[torch.Tensor]:
        for step in range(20):
            fs.graph_break()
            yield x * step

    return sum(items(), x)


def calls_little(x: torch.Tensor) -> torch.Tensor:
    fs.graph_break()
    return x.tolist() and x


def warned(function: Callable[..., Any], calls: int = 6, **options: Any) -> list[str]:
    """What a compiled function warns of in its first calls."""
    compiled = fs.compile(function, **options)
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        for _ in range(calls):
            assert torch.equal(compiled(X), function(X))
    return [str(warning.message) for warning in issued]


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_function_that_is_mostly_uncompiled_warns_once(backend: str) -> None:
    (message,) = warned(calls_what_is_disabled, backend=backend)
    assert "20 of 22 operators of calls_what_is_disabled run outside of graphs" in message
    (message,) = warned(is_skipped, backend=backend)
    assert "20 of 20 operators of is_skipped run outside of graphs" in message and "function mode" in message


@pytest.mark.parametrize("function", [breaks_only, generates, calls_little, lambda x: x * 2])
def test_what_runs_in_graphs_does_not_warn(function: Callable[..., Any]) -> None:
    assert warned(function, backend="eager") == []


def test_graphs_are_watched_no_longer_than_needed() -> None:
    compiled = fs.compile(breaks_only, backend="eager")
    unit = compiled._firesteel_unit
    for _ in range(4):
        compiled(X)
    assert unit.compiler.watched and not unit.compiler.watches
    units = [unit, *unit.continuations.values()]
    kinds = {type(value).__name__ for part in units for entry in part.entries for value in
             entry.function.__globals__.values()}
    assert "WatchedGraph" not in kinds
    whole = fs.compile(lambda x: x * 2, backend="eager")
    whole(X)
    assert not whole._firesteel_unit.compiler.watched


def test_counting_ends_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    from firesteel.runtime import outside

    monkeypatch.setattr(outside, "MOST_RUNS", 3)
    ran: list[bool] = []
    note = fs.disable(lambda: ran.append(outside.is_recording()))

    def long(x: torch.Tensor) -> torch.Tensor:
        for step in range(30):
            x = x * 2
            fs.graph_break()
            note()
        return disabled(x)

    compiled = fs.compile(long, backend="eager")
    for _ in range(3):
        compiled(X)
    assert 0 < sum(ran) <= 4


def test_a_profiler_of_the_program_has_precedence() -> None:
    def profiled(x: torch.Tensor) -> Any:
        fs.graph_break()
        with torch.autograd.profiler.profile(use_cpu=True) as profile:
            x = disabled(x)
        return x, sum(event.name == "aten::mul" for event in profile.function_events)

    compiled = fs.compile(profiled, backend="eager")
    for _ in range(4):
        assert compiled(X)[1] == 20


def test_explain_counts_operators_and_lists_what_ran_plain() -> None:
    explanation = fs.explain(calls_what_is_disabled)(X)
    assert (explanation.operators_inside, explanation.operators_outside) == (2, 20)
    (callee,) = explanation.plain
    assert (callee.name, callee.operators) == ("disabled", 20) and "not compiled" in callee.reason
    assert "9% of 22 operators ran inside of graphs" in str(explanation)
    assert "Ran as plain Python: disabled, 20 operators" in str(explanation)
    assert "disabled" in explanation._repr_html_()

    explanation = fs.explain(is_skipped)(X)
    assert explanation.share_inside == 0
    (callee,) = explanation.plain
    assert callee.name == "is_skipped" and "function mode" in callee.reason and callee.operators == 20

    explanation = fs.explain(lambda x: x + cached(3))(X)
    (callee,) = explanation.plain
    assert callee.name == "cached" and "not a function written in Python" in callee.reason

    for function, operators in ((breaks_only, 20), (generates, 40)):
        explanation = fs.explain(function)(X)
        assert explanation.share_inside == 1 and explanation.operators_inside == operators and not explanation.plain
    assert fs.explain(lambda x: x)(X).share_inside == 1


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_the_warning_says_what_explain_says(backend: str) -> None:
    def late(x: torch.Tensor) -> torch.Tensor:
        for step in range(40):
            x = x + 1
            fs.graph_break()
            if step > 30:
                x = disabled(x)
        return x

    explanation = fs.explain(late)(X)
    total = explanation.operators_inside + explanation.operators_outside
    (warning,) = warned(late, backend=backend)
    assert f"{explanation.operators_outside} of {total} operators of late" in warning
