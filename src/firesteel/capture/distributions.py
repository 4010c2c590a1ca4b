"""`torch.distributions` in captured code: properties that are computed once, asked of their class.

    isinstance(getattr(type(self), "probs"), lazy_property)     # whether a parameter is there or would be computed

Read from a class, such a property is a new object of a class built on Python's `property`, which capture cannot make
piece by piece. Nothing but the function behind it is in it, so it is made for real.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.distributions.utils import lazy_property

from .call_handlers import handles
from .signals import GraphBreak
from .values.base import Value
from .values.functions import FunctionValue

if TYPE_CHECKING:
    from .tracer import Tracer


def _unused(self: Any) -> None:
    """Something to make a property of."""


PROPERTY_OF_CLASS: Any = type(lazy_property(_unused).__get__(None))


@handles(PROPERTY_OF_CLASS)
def make_property(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The property as a class shows it."""
    function = args[0].realize() if len(args) == 1 and not kwargs else None
    if not isinstance(function, FunctionValue) or function.real is None:
        raise GraphBreak("a lazy property of a function that was made inside")
    return tx.python_object(PROPERTY_OF_CLASS(function.real))
