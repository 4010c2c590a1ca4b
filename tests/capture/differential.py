"""Runs a function plain and compiled and compares everything that Python can observe of the two runs."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import torch
from tests.fuzz.snapshot import Facts, Snapshot, TensorFact, drain

import firesteel as fs
from firesteel.errors import FiresteelError


def x() -> torch.Tensor:
    """The tensor most tests work on; a fresh one with the same values every time."""
    return torch.arange(6.0).reshape(2, 3) - 2.5


def observe(function: Callable[..., Any], args: tuple[Any, ...], state: Callable[[], Any] | None) -> Facts:
    """Call `function`; the facts are about its arguments, its result or exception, what it printed, and `state()`."""
    snapshot = Snapshot()
    result: Any = None
    error: str | None = None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = drain(function(*args))
        except FiresteelError:
            raise
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    snapshot.add("args", args)
    if state is not None:
        snapshot.add("state", state())
    snapshot.add("result", result)
    snapshot.add("error", error)
    snapshot.add("printed", printed.getvalue())
    return snapshot.facts


def assert_same_facts(plain: Facts, compiled: Facts) -> None:
    """Equal facts: values, types, aliasing; tensors bit for bit."""
    assert [path for path, _ in plain] == [path for path, _ in compiled], (plain, compiled)
    for (path, expected), (_, actual) in zip(plain, compiled, strict=True):
        if isinstance(expected, TensorFact):
            assert isinstance(actual, TensorFact), f"{path}: expected a tensor, got {actual}"
            same = torch.equal(expected.values, actual.values)
            expected, actual = (TensorFact(**{**vars(fact), "values": None}) for fact in (expected, actual))
            assert expected == actual, f"{path}: expected {expected}, got {actual}"
            assert same, f"{path}: other values"
        else:
            assert repr(expected) == repr(actual), f"{path}: expected {expected}, got {actual}"


def check(
    function: Callable[..., Any],
    make_args: Callable[[], tuple[Any, ...]] = lambda: (x(),),
    *,
    fullgraph: bool = True,
    state: Callable[[], Any] | None = None,
    entries: int | None = 1,
) -> Any:
    """Compare three compiled calls with a plain one; with `fullgraph` no break is allowed.

    `entries` is how many captures the function itself may need for these calls; None does not look.
    """
    plain = observe(function, make_args(), state)
    compiled = fs.compile(function, backend="eager", fullgraph=fullgraph)
    for _ in range(3):
        assert_same_facts(plain, observe(compiled, make_args(), state))
    if entries is not None:
        unit = compiled._firesteel_unit
        assert len(unit.entries) == entries, [entry.text for entry in unit.entries]
    return compiled
