"""Global state of torch that captured graphs change while they run: grad mode, inference mode, autocast."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .. import torch_compat
from ..records import dataclass
from .modes import leave_mode


@dataclass(frozen=True)
class GlobalState:
    """The state at one moment."""

    grad: bool
    inference: bool
    autocast: tuple[torch_compat.AutocastState, ...]
    autocast_nesting: int
    settings: tuple[Any, ...]

    @staticmethod
    def current() -> GlobalState:
        states = tuple([torch_compat.autocast_state(device) for device in torch_compat.AUTOCAST_DEVICES])
        return GlobalState(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), states,
                           torch_compat.autocast_nesting(), torch_compat.current_settings())

    def restore(self) -> None:
        """Put back all but inference mode, which is left by those who entered it."""
        torch_compat.set_grad_enabled(self.grad)
        for state in self.autocast:
            torch_compat.set_autocast_state(state)
        torch_compat.set_autocast_nesting(self.autocast_nesting)
        torch_compat.restore_settings(self.settings)


def is_state_change(function: Any) -> bool:
    """Whether a function of the graph sets a part of the state."""
    return id(function) in _setters()


def is_profiling(function: Any) -> bool:
    """Whether a function of the graph opens or closes a region of the profiler."""
    return function is torch_compat.begin_profiler_region or function is torch_compat.end_profiler_region


class EnteredModes:
    """The modes that a graph has entered and not left: inference mode, default devices."""

    def __init__(self) -> None:
        self.stack: list[Any] = []

    def concerns(self, function: Any) -> bool:
        """Whether a function of the graph enters or leaves a mode."""
        return getattr(function, "__module__", None) == _MODES

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Do what the graph does."""
        result = function(*args)
        if function.__name__.startswith("enter"):
            self.stack.append(args[0] if result is None else result)
        else:
            self.stack.pop()
        return result

    def leave(self) -> None:
        """Leave what is still entered."""
        if self.stack:
            while self.stack:
                leave_mode(self.stack.pop())


# Where the functions are that captured graphs enter and leave modes with.
_MODES = "firesteel.functional.modes"


@functools.cache
def _setters() -> frozenset[int]:
    return frozenset(map(id, torch_compat.state_setters()))
