"""How functions of ours are named that may stand between two frames of the user's.

`warnings` and `logging` pass over frames of the import system when they count up to the frame that a `stacklevel`
names, and they know them by two words in the file's name; torch's own compiler leaves such frames alone.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, TypeVar

OWN_FILE = "<frozen importlib._bootstrap: firesteel"
"""How the names of their files begin."""

Function = TypeVar("Function", bound=Callable[..., Any])


def own_file(name: str) -> str:
    """The name of a file of ours: frames of its functions do not count for a `stacklevel`."""
    return f"{OWN_FILE}, {name}>"


def passed_over(function: Function) -> Function:
    """Mark a function of ours that calls the user's code."""
    function.__code__ = _renamed(function.__code__)  # type: ignore[attr-defined]
    return function


def _renamed(code: types.CodeType) -> types.CodeType:
    constants = tuple(_renamed(part) if isinstance(part, types.CodeType) else part for part in code.co_consts)
    return code.replace(co_filename=own_file(code.co_filename), co_consts=constants)
