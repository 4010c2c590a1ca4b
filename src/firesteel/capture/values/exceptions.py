"""Tracebacks of exceptions that are raised and handled while capturing."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from ..tracebacks import make_traceback
from .base import Value

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from .objects import ExceptionValue

# Where an exception passed: the code and the line, innermost first.
Places = list[tuple[types.CodeType, int]]


class TracebackValue(Value):
    """``error.__traceback__`` at some moment: may be ignored or passed on; looking into it breaks the graph."""

    __slots__ = ("error", "places")
    fixed_type = types.TracebackType

    def __init__(self, error: ExceptionValue | Value, places: Places) -> None:
        super().__init__(None)
        self.error = error
        self.places = list(places)

    def emit(self, code: EntryCode) -> str:
        if self.error.source is not None:
            return f"{code.value(self.error)}.__traceback__"
        return code.assign(self, f"{code.constant(make_traceback)}({code.constant(tuple(self.places))})")


def traceback_of(error: Value) -> Value:
    """The traceback of an exception that is being handled."""
    places: Any = getattr(error, "places", [])
    return TracebackValue(error, places)
