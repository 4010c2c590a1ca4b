"""``with np.errstate(...)`` in captured code, where it says that floating-point errors are ignored or warned of.

Compiled code issues no such warnings, so the graph does not depend on it. The entry enters and leaves it behind the
graph, with the other effects of the program and in their order, so that plain Python goes on in it after a break.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from .call_handlers import handles
from .numpy_calls import DEFAULT_ERRORS, guard_errors
from .signals import GraphBreak
from .values.base import Value
from .values.constants import ConstantValue

if TYPE_CHECKING:
    from .entry_code import EntryCode
    from .tracer import Tracer

class ErrorState(Value):
    """An ``np.errstate`` that the program makes."""

    __slots__ = ("settings",)
    native_methods = True

    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__(None)
        self.settings = settings

    def python_type(self) -> type:
        return numpy.errstate

    def truth(self, tx: Tracer) -> bool:
        return True

    def emit(self, code: EntryCode) -> str:
        return code.assign(self, f"{code.constant(numpy.errstate)}(**{self.settings!r})")


@handles(numpy.errstate.__enter__, numpy.errstate.__exit__)
def call_method(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What a with statement calls."""
    manager = args[0].realize()
    if not isinstance(manager, ErrorState):
        raise GraphBreak("np.errstate that was made outside of this graph")
    none = ConstantValue(None)
    if len(args) == 1:
        tx.effects.replay(numpy.errstate.__enter__, [manager], {})
    else:
        tx.effects.replay(numpy.errstate.__exit__, [manager, none, none, none], {})
    return none


@handles(numpy.errstate)
def make_error_state(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``np.errstate(divide="ignore")``."""
    settings = {word: tx.constant_of(value) for word, value in kwargs.items()}
    for word, what in settings.items():
        if word not in ("all", "divide", "over", "under", "invalid") or what not in (*DEFAULT_ERRORS, None):
            raise GraphBreak(f"np.errstate with {word}={what!r}", "compiled code neither raises nor calls something at "
                             "floating-point errors: leave these steps to plain NumPy")
    if args:
        raise GraphBreak("np.errstate with positional arguments")
    guard_errors(tx)
    return ErrorState(settings)
