"""Global state of torch that captured graphs change while they run: grad mode, inference mode, autocast."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch

from .. import torch_compat


@dataclass(frozen=True)
class GlobalState:
    """The state at one moment."""

    grad: bool
    inference: bool
    autocast: tuple[torch_compat.AutocastState, ...]

    @staticmethod
    def current() -> GlobalState:
        states = tuple([torch_compat.autocast_state(device) for device in torch_compat.AUTOCAST_DEVICES])
        return GlobalState(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), states)

    def restore(self) -> None:
        """Put back all but inference mode, which is left by those who entered it."""
        torch_compat.set_grad_enabled(self.grad)
        for state in self.autocast:
            torch_compat.set_autocast_state(state)


def is_state_change(function: Any) -> bool:
    """Whether a function of the graph sets a part of the state."""
    return id(function) in _setters()


@functools.cache
def _setters() -> frozenset[int]:
    return frozenset(map(id, torch_compat.state_setters()))
