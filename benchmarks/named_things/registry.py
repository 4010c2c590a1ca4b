"""Programs by the kind of thing they show, each with fresh arguments for every run."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

KINDS = ("functional", "numbers", "subclasses", "nested", "hooks", "builtins", "scripts", "python", "state",
         "operators", "data", "higher_order", "interface")
"""The files with programs."""


@dataclass(frozen=True)
class Thing:
    """A function, what makes its arguments, and whether gradients are compared."""

    kind: str
    name: str
    function: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    train: bool = False
    again: Callable[[], tuple[Any, ...]] | None = None
    """Other arguments, for the calls behind the first."""
    around: bool = False
    """The function takes a compiler and compiles something itself."""


THINGS: list[Thing] = []


def rand(*shape: int, grad: bool = False, seed: int = 0) -> torch.Tensor:
    """The same random tensor for every run."""
    return torch.randn(*shape or (4, 6), generator=torch.Generator().manual_seed(seed)).requires_grad_(grad)


def one() -> tuple[torch.Tensor]:
    return (rand(),)


def leaf() -> tuple[torch.Tensor]:
    return (rand(grad=True),)


def thing(arguments: Callable[[], tuple[Any, ...]] = one, train: bool = False,
          again: Callable[[], tuple[Any, ...]] | None = None, around: bool = False) -> Callable[[Any], Any]:
    """Register a program of the file that it stands in."""

    def register(function: Any) -> Any:
        kind = function.__module__.rpartition(".")[2]
        THINGS.append(Thing(kind, function.__name__, function, arguments, train, again, around))
        return function

    return register


def load(kinds: tuple[str, ...]) -> list[Thing]:
    """The programs of some files."""
    for kind in kinds:
        importlib.import_module(f"benchmarks.named_things.{kind}")
    return [thing for thing in THINGS if thing.kind in kinds]
