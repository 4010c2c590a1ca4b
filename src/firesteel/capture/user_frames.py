"""What a program sees of the stack it runs on: frames of firesteel are passed over.

Functions of ours that can stand between two frames of the user's have names that Python skips, see `own_frames`. Code
between graphs that asks for frames itself gets functions that skip ours.
"""

from __future__ import annotations

import inspect
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

from ..own_frames import passed_over
from .tracebacks import is_internal


def frame_at(depth: int = 0, /) -> types.FrameType:
    """``sys._getframe(depth)`` of a function between two graphs."""
    frame: types.FrameType | None = sys._getframe(1)
    if type(depth) is not int:
        depth = sys._getframe(depth).f_lineno * 0  # raises, or converts
    while frame is not None:
        if not is_internal(frame):
            if depth <= 0:
                return frame
            depth -= 1
        frame = frame.f_back
    raise ValueError("call stack is not deep enough")


def outer_frame(obj: Any) -> Any:
    """``obj.f_back``."""
    frame = obj.f_back
    while isinstance(frame, types.FrameType) and is_internal(frame):
        frame = frame.f_back
    return frame


def stack(context: int = 1) -> list[inspect.FrameInfo]:
    """``inspect.stack()``."""
    return [info for info in inspect.stack(context)[1:] if not is_internal(info.frame)]


def extract_stack(f: types.FrameType | None = None, limit: int | None = None) -> traceback.StackSummary:
    """``traceback.extract_stack()``."""
    frame = f if f is not None else sys._getframe(1)
    frames = []
    while frame is not None:
        if not is_internal(frame):
            frames.append((frame, frame.f_lineno))
        frame = frame.f_back  # type: ignore[assignment]
    summary = traceback.StackSummary.extract(iter(frames), limit=limit)
    summary.reverse()
    return summary


INSTEAD: dict[Any, Callable[..., Any]] = {
    sys._getframe: frame_at, inspect.stack: stack, traceback.extract_stack: extract_stack,
}


_CALLERS: dict[tuple[str, types.CodeType, int], Callable[..., Any]] = {}


def called_from(places: tuple[tuple[types.CodeType, int], ...], function: Any, *args: Any) -> Any:
    """Call `function` from frames that look like these lines, outermost first: capture has executed them already."""
    if not places:
        return function(*args)
    code, line = places[0]
    first = _CALLERS.get((code.co_filename, code, line))
    if first is None:
        first = _CALLERS[code.co_filename, code, line] = _caller(code, line)
    return first(called_from, places[1:], function, args) if len(places) > 1 else first(_call, (), function, args)


def _call(places: Any, function: Any, *args: Any) -> Any:
    return function(*args)


def called_at(frame: types.FrameType, function: Any, *args: Any) -> Any:
    """Call a builtin as the line does at which a frame is: what it warns of is said of that line."""
    code, line = frame.f_code, frame.f_lineno
    caller = _DIRECT_CALLERS.get((code.co_filename, code, line))
    if caller is None:
        caller = _DIRECT_CALLERS[code.co_filename, code, line] = _moved_to(
            code, line, lambda function, args: function(*args))
    return caller(function, args)


_DIRECT_CALLERS: dict[tuple[str, types.CodeType, int], Callable[..., Any]] = {}


def _caller(code: types.CodeType, line: int) -> Callable[..., Any]:
    def call(following: Any, places: Any, function: Any, args: Any) -> Any:
        return following(places, function, *args)

    return _moved_to(code, line, call)


def _moved_to(code: types.CodeType, line: int, call: Any) -> Callable[..., Any]:
    """A function whose frames look like a line of some code."""
    from .bytecode.line_table import with_lines

    relocated = with_lines(call.__code__, [line] * (call.__code__.co_firstlineno + 5), code.co_filename)
    call.__code__ = relocated.replace(co_name=code.co_name, co_qualname=code.co_qualname)
    return call  # type: ignore[no-any-return]


for _function in (called_from, _call):
    passed_over(_function)
