"""The tables of our own decompositions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...registry import Registry

Decomposition = Callable[..., Any]

DECOMPOSITIONS: Registry[str, Decomposition] = Registry("decomposition", __package__)
decomposition = DECOMPOSITIONS.register
"""Registers how operators are made of others. The function takes the operator's arguments; where it returns
`NotImplemented` the operator stays."""

WRITES: Registry[str, Decomposition] = Registry("functional form", __package__)
write = WRITES.register
"""Registers the new contents of the first argument of an in-place operator; the recorder comes first."""
