"""The table from C functions to the Python functions that capture inlines in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...registry import Registry

REGISTRY: Registry[Callable[..., Any], Callable[..., Any]] = Registry("equivalent")
"""Original callable -> equivalent. Methods of C types are keyed by their descriptor (`collections.OrderedDict.popitem`)
and their equivalents take `self` first; class methods are keyed as bound (`dict.fromkeys`) and take no class."""

MISSING: Any = object()
"""Default of parameters whose absence the original can tell from every value."""

equivalent_of = REGISTRY.register
"""Registers the decorated function as the Python equivalent of one or more callables, and returns it unchanged."""
