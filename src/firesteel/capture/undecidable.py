"""Decisions that depend on data end the graph: the break, in the user's terms."""

from __future__ import annotations

import torch

from ..shapes import UndecidableError
from .signals import GraphBreak

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def undecidable(error: UndecidableError) -> GraphBreak:
    """The break at a decision that nothing known decides."""
    return GraphBreak(str(error))
