"""The tables of how capture carries out calls of particular callables: by a handler, or by calling a Python equivalent.

A handler works on Values. An equivalent is a Python function that capture executes in place of one written in C. A
callable has one or the other, never both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..registry import Registry

if TYPE_CHECKING:
    from .tracer import Tracer
    from .values.base import Value

Handler = Callable[["Tracer", list["Value"], dict[str, "Value"]], "Value"]

HANDLERS: Registry[Any, Handler] = Registry("handler")
"""Functions, written in C or in Python, and classes, with what calls them."""
handles = HANDLERS.register
"""Registers how callables are called on Values."""

REGISTRY: Registry[Callable[..., Any], Callable[..., Any]] = Registry(
    "equivalent", f"{__package__}.equivalents", others=(HANDLERS,))
"""Original callable -> equivalent. Methods of C types are keyed by their descriptor (`collections.OrderedDict.popitem`)
and their equivalents take `self` first; class methods are keyed as bound (`dict.fromkeys`) and take no class."""
equivalent_of = REGISTRY.register
"""Registers the decorated function as the Python equivalent of one or more callables, and returns it unchanged."""

HANDLERS.others = (REGISTRY,)

MISSING: Any = object()
"""Default of parameters of equivalents whose absence the original can tell from every value."""
