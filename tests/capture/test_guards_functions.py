"""Guards on functions, globals, builtins and modules: change them, see the right result and a recompilation."""

from __future__ import annotations

import builtins
import functools
import types
from typing import Any

import pytest
import torch

from capture.guard_probe import Point, Probe

X = torch.arange(4.0)


# Functions


def test_function_arguments_by_code_closure_and_defaults() -> None:
    def make(n: int) -> Any:
        def inner(x: torch.Tensor, k: int = 1, *, scale: int = 1) -> torch.Tensor:
            return (x + n + k) * scale

        return inner

    def f(x: torch.Tensor, g: Any) -> Any:
        return g(x)

    probe = Probe(f)
    g = make(5)
    assert probe(X, g) == 1
    assert probe(X, make(5)) == 0
    assert probe(X, make(6)) == 1
    g.__defaults__ = (20,)
    assert probe(X, g) >= 1
    g.__defaults__ = (1,)
    g.__kwdefaults__ = {"scale": 30}
    assert probe(X, g) >= 1
    g.__kwdefaults__ = None
    probe(X, g)
    g.__kwdefaults__ = {"scale": 1}
    other = make(5)
    other.__code__ = (lambda n: lambda x, k=1, *, scale=1: x - n)(5).__code__
    assert probe(X, other) >= 1


def test_defaults_gained() -> None:
    def g(x: torch.Tensor, k: int = 1) -> torch.Tensor:
        return x + k

    def f(x: torch.Tensor) -> Any:
        return g(x)

    g.__defaults__ = None
    probe = Probe(f)
    probe(X)
    g.__defaults__ = (3,)
    probe(X)


def test_mutable_default_mutated() -> None:
    def f(x: torch.Tensor, seen: list[int] = [1]) -> Any:  # noqa: B006
        return x + sum(seen)

    probe = Probe(f)
    assert probe(X) == 1
    f.__defaults__[0].append(5)  # type: ignore[index]
    assert probe(X) == 1


def test_own_closure_rebound() -> None:
    n = 1

    def f(x: torch.Tensor) -> Any:
        return x + n  # noqa: F821  (deleted below)

    probe = Probe(f)
    assert probe(X) == 1
    n = "text"  # type: ignore[assignment]
    assert probe(X) >= 1
    n = X  # type: ignore[assignment]
    assert probe(X) >= 1
    del n
    assert probe(X) >= 1


def test_partial_and_bound_methods() -> None:
    def f(x: torch.Tensor, g: Any) -> Any:
        return g(x)

    def add(x: torch.Tensor, k: int, *, scale: int = 1) -> torch.Tensor:
        return (x + k) * scale

    probe = Probe(f)
    assert probe(X, functools.partial(add, k=1)) == 1
    assert probe(X, functools.partial(add, k=2)) >= 1
    assert probe(X, functools.partial(add, k=2, scale=4)) >= 1
    assert probe(X, Point(3).shifted) >= 1
    assert probe(X, Point(3).fixed) >= 1
    assert probe(X, Point.of_class) >= 1


def test_builtin_callable_arguments() -> None:
    def f(x: torch.Tensor, g: Any) -> Any:
        return g(x)

    probe = Probe(f)
    assert probe(X, torch.sin) == 1
    assert probe(X, torch.cos) == 1
    assert probe(X, len) >= 1
    assert probe(X, abs) >= 1
    assert probe(X, torch.sin) == 0


def test_own_code_and_defaults_replaced() -> None:
    def f(x: torch.Tensor, k: int = 1, *, scale: int = 2) -> Any:
        return (x + k) * scale

    probe = Probe(f)
    assert probe(X) == 1
    f.__defaults__ = ("text",)
    probe(X)
    f.__defaults__ = (5,)
    f.__kwdefaults__ = {"scale": 7}
    assert torch.equal(probe.compiled(X), (X + 5) * 7)
    f.__code__ = (lambda x, k=1, *, scale=2: x - k - scale).__code__
    assert torch.equal(probe.compiled(X), X - 12)


# Globals and builtins

GLOBAL: Any = 3
TABLE: dict[str, Any] = {"scale": 2}


def helper(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def other_helper(x: torch.Tensor) -> torch.Tensor:
    return x * 200


def test_globals_reassigned(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor) -> Any:
        return helper(x) + GLOBAL + TABLE["scale"]

    probe = Probe(f)
    assert probe(X) == 1
    monkeypatch.setitem(globals(), "GLOBAL", 4.5)
    assert probe(X) >= 1
    monkeypatch.setitem(TABLE, "scale", 100)
    assert probe(X) >= 1
    monkeypatch.setitem(globals(), "TABLE", {"scale": "text"})
    assert probe(X) >= 1
    monkeypatch.setitem(globals(), "helper", other_helper)
    assert probe(X) == 1
    monkeypatch.setitem(globals(), "unrelated", 1)
    assert probe(X) == 0


def test_global_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor) -> Any:
        return x + GLOBAL

    probe = Probe(f)
    assert probe(X) == 1
    monkeypatch.delitem(globals(), "GLOBAL")
    assert probe(X) >= 1


def test_builtin_shadowed_by_a_global(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor) -> Any:
        return x + len([1, 2, 3])

    probe = Probe(f)
    assert probe(X) == 1
    monkeypatch.setitem(globals(), "len", lambda items: 100)
    assert probe(X) == 1


def test_builtin_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor) -> Any:
        return x + abs(-3)

    probe = Probe(f)
    assert probe(X) == 1
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "abs", lambda value: 100)
        assert probe(X) == 1
    assert probe(X) == 0


def test_module_attribute_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("settings")
    module.scale = 2  # type: ignore[attr-defined]
    module.helper = helper  # type: ignore[attr-defined]
    monkeypatch.setitem(globals(), "GLOBAL", module)

    def f(x: torch.Tensor) -> Any:
        return GLOBAL.helper(x) * GLOBAL.scale, hasattr(GLOBAL, "extra")

    probe = Probe(f)
    assert probe(X) == 1
    module.scale = 5  # type: ignore[attr-defined]
    assert probe(X) == 1
    module.helper = other_helper  # type: ignore[attr-defined]
    assert probe(X) == 1
    module.extra = 1  # type: ignore[attr-defined]
    assert probe(X) == 1


def test_torch_function_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor) -> Any:
        return torch.sin(x), torch.nn.functional.relu(x)

    probe = Probe(f)
    assert probe(X) == 1
    with monkeypatch.context() as patch:
        patch.setattr(torch, "sin", torch.cos)
        assert probe(X) == 1
    assert probe(X) == 0
    monkeypatch.setattr(torch.nn.functional, "relu", torch.cos)
    assert probe(X) == 1
