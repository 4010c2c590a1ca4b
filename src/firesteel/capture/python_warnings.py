"""Warnings of torch's functions, which capture calls for fake tensors: they belong to the program's line.

Those of functions that are written in Python name sizes, and come in each call. A captured graph would issue them once
too often, for fake tensors, or never again. The call is left to Python, and so is one whose warning C++ issues in each
call. What it issues once in a process is issued at the line of the program.
"""

from __future__ import annotations

import builtins
import functools
import re
import sys
import threading
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from .signals import GraphBreak

if TYPE_CHECKING:
    from .tracer import Tracer

_FILES = frozenset({torch.nn.functional.__file__, torch.functional.__file__})
_CALLS = f"{__name__}.calls"
#: Filters of `warnings` for what C++ issues in `_call`, which is code of a module that does not exist.
RAISING: Any = ("error", None, Warning, re.compile(re.escape(_CALLS) + r"\Z"), 0)
_SILENT: Any = ("ignore", *RAISING[1:])


class Warns(BaseException):
    """A function of torch is about to warn. No ``except`` of torch's own is to catch it."""


def run_or_warn(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function of torch; raises `Warns` in the place of a warning that it issues itself."""
    thread = threading.get_ident()
    issue: Any = warnings.warn

    def warn(message: Any, category: Any = None, stacklevel: int = 1, *more: Any, **named: Any) -> None:
        if threading.get_ident() == thread and sys._getframe(1).f_code.co_filename in _FILES:
            raise Warns(str(message))
        issue(message, category, stacklevel + 1, *more, **named)

    warnings.warn = warn  # type: ignore[assignment]
    try:
        return function(*args, **kwargs)
    finally:
        warnings.warn = issue


def run_in_c(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any],
             issue: Callable[[Warning], None], may_leave: bool) -> Any:
    """Call a function that C++ implements and that changes none of its arguments.

    A warning that comes once in a process is given to ``issue``. In the place of one that comes in each call, `Warns`
    is raised if the call may be left to Python.
    """
    try:
        return _filtered(RAISING, function, args, kwargs)
    except Warning as error:
        warning = error
    try:
        result = _filtered(RAISING if may_leave else _SILENT, function, args, kwargs)
    except Warning:
        raise Warns(str(warning)) from None
    issue(warning)
    return result


def _filtered(entry: Any, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    filters: Any = warnings.filters
    filters.insert(0, entry)  # without a word to `warnings`, which would forget what it has shown
    try:
        return _call(function, args, kwargs)
    finally:
        filters.remove(entry)


def _called(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return function(*args, **kwargs)


_call = types.FunctionType(_called.__code__, {"__name__": _CALLS, "__builtins__": builtins})


# At lines of the program


def warn_in(table: dict[str, Any], message: str, category: type[Warning], filename: str, lineno: int) -> None:
    """Issue a warning that stands in a line of a module with these globals."""
    module = table.get("__name__") or "<unknown>"
    warnings.warn_explicit(message, category, filename, lineno, module, table.setdefault("__warningregistry__", {}))


def warn_at_line(tx: Tracer, warning: Warning) -> None:
    """Issue a warning now, at the line that is captured."""
    frame = [frame for frame in tx.frames if not frame.hidden][-1]
    warn_in(frame.globals, str(warning), type(warning), frame.code.co_filename, frame.user_frame().lineno)


def warn_of_copy(tx: Tracer) -> None:
    """What ``torch.tensor(tensor)`` says, in each call."""
    tx.call(tx.python_object(warnings.warn), [tx.constant(_copy_warning()), tx.class_value(UserWarning)], {})


@functools.cache
def _copy_warning() -> str:
    issued: list[Warning] = []
    with torch_compat.without_modes():
        run_in_c(torch.tensor, [torch.ones(())], {}, issued.append, may_leave=False)
    return str(issued[0])


def warn_of_float(tx: Tracer) -> None:
    """What ``float(tensor)`` of one that requires grad says, once in a process."""
    try:
        with torch_compat.without_modes():
            sample = torch.ones((), requires_grad=True)
            run_in_c(float, [sample], {}, functools.partial(warn_at_line, tx), not tx.compiler.fullgraph)
    except Warns as warning:
        raise GraphBreak(f"float() warns: {warning}", "use tensor.item()") from None
