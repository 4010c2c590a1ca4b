"""What users say about single functions and about all of them: disable, allow_in_graph, graph_break, reset, run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .capture import markers
from .capture.builtin_calls import PYTHON_HANDLERS
from .capture.signals import GraphBreak
from .capture.values.constants import ConstantValue


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Run a function uncompiled, with everything it calls (or, with ``recursive=False``, only its own frame).

    >>> @disable
    ... def untouched(x):
    ...     return x + 1
    >>> untouched(1)
    2
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if recursive:
        return markers.disable(fn, reason)
    return _only_this_frame(fn)


def _only_this_frame(fn: Callable[..., Any]) -> Callable[..., Any]:
    made = markers.disable(fn)
    made._firesteel_recursive = False  # type: ignore[attr-defined]
    return made


def allow_in_graph(fn: Any) -> Any:
    """Record calls of `fn` (or of each function in a list) as one operation of the graph without looking inside."""
    for one in fn if isinstance(fn, (list, tuple)) else (fn,):
        markers.mark(one, markers.ALLOWED)
    return fn


def disallow_in_graph(fn: Any) -> Any:
    """Break the graph at calls of `fn` (or of each function in a list)."""
    for one in fn if isinstance(fn, (list, tuple)) else (fn,):
        markers.mark(one, markers.DISALLOWED)
    return fn


def assume_constant_result(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Promise that `fn` returns the same for the same arguments: it is called once, while capturing."""
    markers.mark(fn, markers.CONSTANT_RESULT)
    return fn


def graph_break() -> None:
    """Break the graph here. Does nothing in uncompiled code."""


def is_compiling() -> bool:
    """True in code that is being captured, False in plain Python."""
    return False


def _break_here(tx: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    raise GraphBreak("graph_break() was called", "remove the call")


PYTHON_HANDLERS[graph_break] = _break_here
PYTHON_HANDLERS[is_compiling] = lambda tx, args, kwargs: ConstantValue(True)


def reset() -> None:
    """Forget everything compiled in this process; the next call of each compiled function captures again."""
    from .debug.events import TIMES
    from .runtime.compiler import COMPILERS

    for compiler in list(COMPILERS):
        compiler.reset()
    TIMES.clear()


def run(fn: Any) -> Any:
    """A version of a compiled function that uses what is compiled and never compiles."""
    unit = getattr(fn, "_firesteel_unit", None)
    compiler = unit.options if unit is not None else getattr(type(fn), "_firesteel_compiler", None)
    if compiler is None:
        return fn

    @functools.wraps(fn)
    def frozen(*args: Any, **kwargs: Any) -> Any:
        before = compiler.frozen
        compiler.frozen = True
        try:
            return fn(*args, **kwargs)
        finally:
            compiler.frozen = before

    return frozen
