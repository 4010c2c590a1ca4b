"""The table of functions that carry out calls of particular callables on Values.

A callable has either a handler here or a Python equivalent (`equivalents`), never both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..registry import Registry
from .equivalents import REGISTRY

if TYPE_CHECKING:
    from .tracer import Tracer
    from .values.base import Value

Handler = Callable[["Tracer", list["Value"], dict[str, "Value"]], "Value"]

HANDLERS: Registry[Any, Handler] = Registry("handler", others=(REGISTRY,))
"""Functions, written in C or in Python, and classes, with what calls them."""
handles = HANDLERS.register
"""Registers how callables are called on Values."""
