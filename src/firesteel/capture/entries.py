"""What a capture makes: an entry, which is a compiled version of a unit, where it begins, and why its graph ended."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..errors import UserFrame
from ..records import dataclass
from ..shapes import ShapeGuard
from .dynamism import TensorSeen
from .entry_code import parameter_name
from .graph import CapturedGraph
from .guards import Guard, NumberSeen

if TYPE_CHECKING:
    from .native_guards.upgrade import Upgrade


@dataclass(frozen=True)
class BreakReason:
    """Why and where a graph ended early."""

    reason: str
    hint: str
    frames: tuple[UserFrame, ...]

    def __str__(self) -> str:
        where = f" ({self.frames[-1]})" if self.frames else ""
        return self.reason + where


@dataclass(frozen=True)
class Start:
    """Where a unit begins: an instruction, the kinds of the stack slots and the variables that are passed in."""

    index: int = 0
    stack: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


@dataclass
class Entry:
    """A compiled version of a unit."""

    function: Callable[..., Any]
    guards: list[Guard]
    state_guard: Guard
    shape_guards: list[ShapeGuard]
    graph: CapturedGraph | None
    break_reason: BreakReason | None
    seconds: float
    text: str
    numbers: dict[str, NumberSeen] = field(default_factory=dict)
    tensors: dict[str, TensorSeen] = field(default_factory=dict)
    symbols: dict[Any, Any] = field(default_factory=dict)
    upgrade: Upgrade | None = None
    classes: list[weakref.ref[Any]] = field(default_factory=list)
    """Classes it is for that can go away; the entry is dropped with them."""
    settings: tuple[Any, ...] = ()
    """Those that it was compiled under."""


def parameters_of(code: types.CodeType, start: Start) -> list[str]:
    """Parameter names of a unit's entries, in order."""
    names = ["_fs_closure"] if code.co_freevars else []
    names.extend(f"_fs_stack_{i}" for i in range(len(start.stack)))
    names.extend(parameter_name(variable) for variable in start.variables)
    return names
