"""Exceptions with which symbolic execution leaves its normal course."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .raising_steps import RaisedUnder
    from .source import Source
    from .values.base import Value


class GraphBreak(Exception):
    """The current instruction cannot be captured: run it in Python between two graphs."""

    raises = False
    """Whether the instruction is known to raise: no break of the user's making."""
    relies_on: tuple[Source, str, str, tuple[Any, ...]] | None = None
    """A guard without which there is no need to break."""
    refused = False
    """Whether autograd refuses the instruction because of how tensors came about. Tensors that a graph returns may have
    come about otherwise, so Python is to run the whole unit to say so."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class UserRaise(Exception):
    """The user's program raised: ``value`` is the exception object as a Value."""

    def __init__(self, value: Value) -> None:
        super().__init__(repr(value))
        self.value = value


class Restart(Exception):
    """Begin the capture again; ``step`` of the root frame is now known to break.

    ``raised`` is what it depends on that the step raises, where that is why the program ends there.
    """

    def __init__(self, step: int, cause: GraphBreak, raised: RaisedUnder | None = None) -> None:
        super().__init__(cause.reason)
        self.step = step
        self.cause = cause
        self.raised = raised


class StaticNeeded(Exception):
    """Begin the capture again with these sizes of inputs as constants: an operation cannot work on symbols.

    ``sizes`` are pairs of a tensor's name and a dimension.
    """

    def __init__(self, sizes: frozenset[tuple[str, int]], operation: str) -> None:
        super().__init__(operation)
        self.sizes = sizes
        self.operation = operation


class NumbersNeeded(Exception):
    """Begin the capture again with these numbers, which are in tensors among the arguments, as inputs of the graph."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = names


class NotConstant(Exception):
    """A value that is not known at capture time was asked for its Python value."""


class SkipFrame(Exception):
    """This frame is not worth capturing or cannot be captured at all: run it as plain Python.

    With ``this_call``, that is so because of what this call is given or where it is made: others may be captured. With
    ``makes_ready``, it is this call that makes the others ready for that, whatever is asked of them.
    """

    def __init__(self, reason: str, this_call: bool = False, makes_ready: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.this_call = this_call or makes_ready
        self.makes_ready = makes_ready


def is_about_views(error: Exception) -> bool:
    """Whether autograd refuses to change a view in place, or a tensor that has views."""
    message = str(error)
    return isinstance(error, RuntimeError) and "view" in message and ("inplace" in message or "in-place" in message)
