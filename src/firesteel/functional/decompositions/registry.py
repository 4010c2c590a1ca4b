"""The table of our own decompositions."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_table: dict[str, Callable[..., Any]] = {}
_writes: dict[str, Callable[..., Any]] = {}


def decomposition(*names: str) -> Callable[[F], F]:
    """Register how operators are made of others.

    The function takes the operator's arguments; where it returns `NotImplemented` the operator stays.
    """

    def register(function: F) -> F:
        for name in names:
            _table[name] = function
        return function

    return register


def write(*names: str) -> Callable[[F], F]:
    """Register the new contents of the first argument of an in-place operator; the recorder comes first."""

    def register(function: F) -> F:
        for name in names:
            _writes[name] = function
        return function

    return register


def find_own(name: str) -> Callable[..., Any] | None:
    """Our decomposition of an operator."""
    _load()
    return _table.get(name)


def find_write(name: str) -> Callable[..., Any] | None:
    """Our functional form of an operator that writes to its first argument."""
    _load()
    return _writes.get(name)


@functools.cache
def _load() -> None:
    """Import every file of this folder: adding an operator means adding a function."""
    package = importlib.import_module(__package__ or "")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
