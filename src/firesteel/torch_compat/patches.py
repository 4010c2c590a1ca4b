"""What firesteel has changed in torch, in this process, and how all of it is undone.

Whoever changes something of torch that outlasts a call says so here, with a title for `applied` and a function that
takes the change back. ``docs/support.md`` lists the titles.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Collection
from typing import Any

from ..locks import new_rlock
from ..records import dataclass

ABSENT = object()
"""Stands for an attribute or a module that was not there."""


@dataclass(frozen=True)
class Patch:
    """One change."""

    title: str
    undo: Callable[[], None]


_applied: list[Patch] = []
_lock = new_rlock()


def register(title: str, undo: Callable[[], None]) -> None:
    """Remember a change that has been made."""
    with _lock:
        _applied.append(Patch(title, undo))


def applied() -> list[str]:
    """The titles of what is changed now, in the order of the changes."""
    return list(dict.fromkeys(patch.title for patch in _applied))


def restore(only: Collection[str] | None = None) -> list[str]:
    """Undo all changes, or those with certain titles, the last first; returns the titles of what was undone."""
    with _lock:
        chosen = [patch for patch in _applied if only is None or patch.title in only]
        for patch in reversed(chosen):
            _applied.remove(patch)
            patch.undo()
    return list(dict.fromkeys(patch.title for patch in chosen))


def set_attribute(title: str, owner: Any, name: str, value: Any) -> None:
    """Change an attribute. What somebody else has put there since is left when this is undone."""
    before = vars(owner).get(name, ABSENT)
    setattr(owner, name, value)

    def undo() -> None:
        if vars(owner).get(name, ABSENT) is not value:
            return
        if before is ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, before)

    register(title, undo)


def set_code(title: str, function: types.FunctionType, code: types.CodeType) -> None:
    """Give a function another body."""
    before = function.__code__
    function.__code__ = code

    def undo() -> None:
        if function.__code__ is code:
            function.__code__ = before

    register(title, undo)


def set_module(title: str, name: str, module: types.ModuleType) -> None:
    """Put a module where ``import`` looks first."""
    before = sys.modules.get(name)
    sys.modules[name] = module

    def undo() -> None:
        if sys.modules.get(name) is not module:
            return
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before

    register(title, undo)
