"""Programs of plain Python with some tensor work, drawn from what Python's own documentation shows, by subject.

A program is a public function of a module here. It is called with `x`, a fresh tensor of two rows and three columns,
and with what `given` makes for each call.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

Program = Callable[..., Any]


def given(make: Callable[[], tuple[Any, ...]]) -> Callable[[Program], Program]:
    """A program that takes more arguments than `x`: `make` makes them for each call."""

    def mark(program: Program) -> Program:
        program.given = make  # type: ignore[attr-defined]
        return program

    return mark


def arguments(program: Program) -> tuple[Any, ...]:
    """Fresh arguments for one call."""
    make = getattr(program, "given", tuple)
    return (torch.arange(6.0).reshape(2, 3) - 2.5, *make())


def subjects() -> list[str]:
    """The names of the modules here."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def programs(subject: str) -> dict[str, Program]:
    """The programs of a subject, by name."""
    module = importlib.import_module(f"{__name__}.{subject}")
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__ and not name.startswith("_")
    }
