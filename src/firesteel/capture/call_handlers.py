"""Tables of the functions that carry out calls of particular callables on Values."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .values.base import Value

if TYPE_CHECKING:
    from .tracer import Tracer

Handler = Callable[["Tracer", list[Value], dict[str, Value]], Value]
HANDLERS: dict[Any, Handler] = {}
PYTHON_HANDLERS: dict[Any, Handler] = {}


def handles(*functions: Any) -> Callable[[Handler], Handler]:
    """Register how C callables (or Python functions) are called on Values."""
    def register(handler: Handler) -> Handler:
        for function in functions:
            (PYTHON_HANDLERS if isinstance(function, types.FunctionType) else HANDLERS)[function] = handler
        return handler

    return register
