"""The table of lowerings: an operator's name to the function that says what its result is, element by element."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, TypeVar

Lower = Callable[..., Any]
F = TypeVar("F", bound=Lower)

_table: dict[str, Lower] = {}
_loaded = False

COMMON = ("arithmetic", "casts", "math_functions", "reductions", "views")
"""The files that nearly every program needs. The others are loaded when an operator is met that is not in these."""


def lowering(*names: str) -> Callable[[F], F]:
    """Register the lowering of operators, by their full names such as ``aten.add.Tensor``.

    The function gets the `Lowering` and then the operator's arguments, with `Tensor` in the place of tensors and shape
    expressions in the place of numbers that are not constant. It gives a `Tensor` (a tuple of them for an operator with
    several results), or ``ctx.unsupported(reason)``, and then the ATen operator is called.
    """

    def register(function: F) -> F:
        for name in names:
            assert name not in _table, f"{name} has two lowerings"
            _table[name] = function
        return function

    return register


def find_lowering(name: str) -> Lower | None:
    """The lowering of an operator, if there is one."""
    found = _table.get(name)
    if found is None and not _loaded:
        load_common()
        found = _table.get(name)
        if found is None:
            _load()
            found = _table.get(name)
    return found


def is_lowered(name: str) -> bool:
    """Whether an operator has a lowering; for some arguments it may still need ATen.

    >>> is_lowered("aten.add.Tensor"), is_lowered("aten.linalg_svd.default")
    (True, False)
    """
    return find_lowering(name) is not None


def lowered_names() -> list[str]:
    """All operators with a lowering."""
    if not _loaded:
        _load()
    return sorted(_table)


def load_common() -> None:
    """Import the files of the commonest operators."""
    for name in COMMON:
        importlib.import_module(f"{__package__}.{name}")


def _load() -> None:
    """Import every file beside this one, so that adding operators means adding a file."""
    global _loaded
    _loaded = True
    package = importlib.import_module(__package__ or "")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
