"""Tracebacks of exceptions that leave compiled code show the user's frames and, of ours, only the wrapper."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
import torch

import firesteel as fs


def fails(x: Any) -> Any:
    raise ValueError("here")


def frames_of(function: Any, *args: Any) -> list[tuple[str, int | None]]:
    with pytest.raises(Exception) as caught:
        function(*args)
    frames = traceback.extract_tb(caught.value.__traceback__)[1:]
    ours = [frame for frame in frames if "firesteel" in frame.filename and "tests" not in frame.filename]
    # a module's call goes through more than one function of ours, before the first one of the user's
    assert ours == frames[: len(ours)] and len(ours) <= (3 if isinstance(function, torch.nn.Module) else 1), frames
    return [(frame.name, frame.lineno) for frame in frames if frame not in ours]


def test_no_frames_of_ours_between_the_users() -> None:
    def middle(x):
        fs.graph_break()
        return fails(x + 1)

    def f(x):
        y = middle(x)
        return y

    compiled = fs.compile(f, backend="eager")
    expected = frames_of(f, torch.ones(1))
    assert [name for name, _ in expected] == ["f", "middle", "fails"]
    for _ in range(2):
        assert frames_of(compiled, torch.ones(1)) == expected


def test_through_try_finally_and_with() -> None:
    def f(x, log):
        with torch.no_grad():
            try:
                fails(x + 1)
            except ValueError:
                log.append("caught")
                raise
            finally:
                log.append("finally")

    expected = frames_of(f, torch.ones(1), [])
    compiled = fs.compile(f, backend="eager")
    for _ in range(2):
        assert frames_of(compiled, torch.ones(1), []) == expected


def test_failing_operation_of_a_graph() -> None:
    def f(x, index):
        y = x * 2
        return torch.embedding(y, index)

    compiled = fs.compile(f, backend="eager")
    args = torch.ones(2, 2), torch.tensor([4])
    assert frames_of(compiled, *args) == frames_of(f, *args)


def test_in_a_module() -> None:
    class Model(torch.nn.Module):
        def forward(self, x):
            y = x + 1
            fs.graph_break()
            return fails(y)

    model = Model()
    assert frames_of(fs.compile(model, backend="eager"), torch.ones(1))[-2:] == frames_of(model, torch.ones(1))[-2:]


def test_plain_continuation() -> None:
    def f(x, key):
        y = x + 1
        fs.graph_break()
        return fails(y) if key else y

    compiled = fs.compile(f, backend="eager")
    with fs.config.patch(recompile_limit=1):
        compiled(torch.ones(1), "")
        with pytest.warns():
            assert frames_of(compiled, torch.ones(1), "k") == frames_of(f, torch.ones(1), "k")


def test_internal_failures_keep_their_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr("firesteel.capture.capture.Capture.run", broken)

    def f(x):
        return x + 1

    with pytest.raises(ZeroDivisionError) as caught:
        fs.compile(f, backend="eager")(torch.ones(1))
    assert any(frame.name == "compile" for frame in traceback.extract_tb(caught.value.__traceback__))
