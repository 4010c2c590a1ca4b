"""What passes may rely on, chosen by the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.fx

from ..functional.graph import FunctionalGraph
from ..records import dataclass

if TYPE_CHECKING:
    from ..kernels.tuning import Tuner


@dataclass(frozen=True)
class Settings:
    """Options of one run of the passes."""

    relaxed: bool = False
    """Whether library calls may round more, or treat NaN otherwise, than eager does."""
    frozen: frozenset[torch.fx.Node] = frozenset()
    """Inputs that seldom change: what is computed from them alone is kept from call to call."""
    tuner: Tuner | None = None
    """Measures alternatives, where choices are to be made by measurement."""
    device: torch.device = torch.device("cpu")
    """What the graph is compiled for."""
    recorded: bool = False
    """Whether its launches are recorded and replayed, with what the host has computed at the time."""


STRICT = Settings()
Pass = Callable[[FunctionalGraph, Settings], FunctionalGraph]
"""Makes a better graph of one, which is changed."""
