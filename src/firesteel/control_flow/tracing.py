"""For tracers that run Python on fake tensors: they take over the operators here instead of their being run.

    with intercepting(handler):
        model(*fakes)

``handler(operator, args)`` gets one of `operators.OPERATORS` and its arguments, with functions of flat operands in the
place of graphs, and returns the flat results.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..torch_compat import pytrees as pytree

Handler = Callable[[Callable[..., Any], tuple[Any, ...]], tuple[Any, ...]]


class _State(threading.local):
    handler: Handler | None = None


_state = _State()


@contextmanager
def intercepting(handler: Handler | None) -> Iterator[None]:
    """While this is entered, the handler does what operators do in this thread; None lets them run again."""
    before, _state.handler = _state.handler, handler
    try:
        yield
    finally:
        _state.handler = before


def handler_of_thread() -> Handler | None:
    """Who takes over operators now."""
    return _state.handler


class FlatFunction:
    """A function of pytrees as one of their leaves; remembers the structure of its result."""

    def __init__(self, function: Callable[..., Any], spec: Any) -> None:
        self.function = function
        self.spec = spec
        self.result: Any = None
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *leaves: Any) -> tuple[Any, ...]:
        results, self.result = pytree.tree_flatten(self.function(*pytree.tree_unflatten(list(leaves), self.spec)))
        return tuple(results)

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """A result in the structure that the function returned."""
        return pytree.tree_unflatten(list(leaves), self.result)
