"""The explanation of a miss names the one condition that fails, not the whole guard."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import firesteel as fs
from firesteel.runtime.explain_miss import first_failure


def compiled_once(f: Any, *args: Any) -> Any:
    compiled = fs.compile(f, backend="eager")
    compiled(*args)
    (entry,) = compiled._firesteel_unit.entries
    return compiled._firesteel_unit, entry


def f(x: torch.Tensor, scale: float) -> torch.Tensor:
    return x * scale


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((torch.ones(4), 2.0), "x.shape == (3,)"),
        ((torch.ones(3, dtype=torch.float64), 2.0), "x.dtype is torch.float32"),
        ((torch.ones(6)[::2], 2.0), "x.stride() == (1,)"),
        ((torch.ones(3, requires_grad=True), 2.0), "x.requires_grad is False"),
        ((torch.ones(3), 3.0), "type(scale) is float and scale == 2.0"),
    ],
)
def test_the_condition_that_fails(args: tuple[Any, ...], text: str) -> None:
    unit, entry = compiled_once(f, torch.ones(3), 2.0)
    failure = first_failure(entry, unit, args)
    assert failure is not None and failure.text == text


def test_global_state() -> None:
    unit, entry = compiled_once(f, torch.ones(3), 2.0)
    with torch.no_grad():
        failure = first_failure(entry, unit, (torch.ones(3), 2.0))
    assert failure is not None and failure.text == "is_grad_enabled() is True"


def test_nothing_fails_and_nothing_runs() -> None:
    seen: list[int] = []

    def g(x: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return x + 1

    unit, entry = compiled_once(g, torch.ones(3))
    assert first_failure(entry, unit, (unit_closure(g), torch.ones(3))) is None
    assert seen == [1]


def unit_closure(function: Any) -> Any:
    return function.__closure__
