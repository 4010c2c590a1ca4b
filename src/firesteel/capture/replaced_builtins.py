"""Builtins that the user has replaced: the program sees its own, firesteel and torch work with Python's.

A program may put its own `len` into the module `builtins`. While a function is compiled, Python's own builtins are put
back, for all threads: compiling runs a lot of Python that the program never meant to change.
"""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator
from typing import Any

ORIGINAL: dict[str, Any] = dict(vars(builtins))
"""Python's builtins, as they were when firesteel was imported."""

_REPLACED: dict[str, Any] = {}
_MISSING = object()


@contextlib.contextmanager
def pythons_builtins() -> Iterator[None]:
    """Work with Python's own builtins; what the user has put in their place comes back at the end."""
    table = vars(builtins)
    replaced = {name: table.get(name, _MISSING) for name, original in ORIGINAL.items()
                if table.get(name, _MISSING) is not original and name != "_"}
    if not replaced:
        yield
        return
    _REPLACED.update(replaced)
    for name in replaced:
        table[name] = ORIGINAL[name]
    try:
        yield
    finally:
        for name, value in replaced.items():
            _REPLACED.pop(name, None)
            if value is _MISSING:
                table.pop(name, None)
            else:
                table[name] = value


def as_the_program_sees_them() -> dict[str, Any]:
    """The module's names with what the user has put there."""
    table = vars(builtins)
    if not _REPLACED:
        return table
    return {name: value for name, value in {**table, **_REPLACED}.items() if value is not _MISSING}
