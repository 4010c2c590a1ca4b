"""What operators are made of: the table by which tracing takes them apart, down to those that stay.

An operator stays when kernels have a lowering for it, or when ATen does it better than its parts would (matrix
products, convolutions, attention, sorting: `LIBRARY`). Compositions of eager itself (``linear``, ``layer_norm``,
``dropout``) never get here, the dispatcher takes them apart. For the rest a decomposition is looked for: one of ours in
this folder, which register themselves by name, or torch's. An operator without any stays as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import torch_compat
from ..handed import Handed
from .library_operators import LIBRARY
from .registry import DECOMPOSITIONS, WRITES, Decomposition
from .torch_decompositions import BORROWED, guarded


def is_core(name: str) -> bool:
    """Whether an operator stays as it is.

    >>> is_core("aten.mm.default"), is_core("aten.addmm.default")
    (True, True)
    """
    return name in LIBRARY or is_lowered(name)


def is_lowered(name: str) -> bool:
    """Whether kernels have a lowering for an operator."""
    return Handed.is_lowered(name)


def find(func: Any, name: str, stays: Callable[[str], bool]) -> Decomposition | None:
    """How to take an operator apart; None when it stays."""
    if stays(name):
        return None
    own = DECOMPOSITIONS.find(name)
    if own is not None:
        return own
    if name not in BORROWED:
        return None
    borrowed = torch_compat.decomposition_of(func)
    return None if borrowed is None else guarded(name, borrowed)


writes = WRITES.find

__all__ = ["Decomposition", "find", "is_core", "is_lowered", "writes"]
