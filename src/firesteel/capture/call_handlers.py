"""Tables of the functions that carry out calls of particular callables on Values."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..registry import Registry
from .values.base import Value

if TYPE_CHECKING:
    from .tracer import Tracer

Handler = Callable[["Tracer", list[Value], dict[str, Value]], Value]
HANDLERS: Registry[Any, Handler] = Registry("handler")
PYTHON_HANDLERS: Registry[Any, Handler] = Registry("handler")


def handles(*functions: Any) -> Callable[[Handler], Handler]:
    """Register how C callables (or Python functions) are called on Values."""
    def register(handler: Handler) -> Handler:
        for function in functions:
            (PYTHON_HANDLERS if isinstance(function, types.FunctionType) else HANDLERS).register(function)(handler)
        return handler

    return register
