"""What a capture knows of the branches on data that it has captured (see `branches`)."""

from __future__ import annotations

import types
from dataclasses import field
from typing import Any

from ..records import dataclass


@dataclass(frozen=True)
class Copy:
    """A result of a branch that is a copy on one of the ways, where the program has the tensor itself."""

    step: int
    """The step of the root frame at which the branch is."""
    made: Any
    source: Any
    version: int
    """How often the source had been changed by then."""


@dataclass
class Branches:
    """The branches on data of one capture."""

    #: those that are being captured, by code and instruction
    entered: list[tuple[types.CodeType, int]] = field(default_factory=list)
    #: copies that captured ones have made
    copies: list[Copy] = field(default_factory=list)
    #: conditions that the graph asserts, and which way they go (see `assumed_branches`)
    assumed: dict[Any, bool] = field(default_factory=dict)
