"""Tracebacks as the user's program would have them: without our frames, with those that only capture executed."""

from __future__ import annotations

import os
import sys
import types
from typing import Any

from .. import config
from ..errors import is_own_file

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# codes that are equal may come from different files
_FRAMES: dict[tuple[str, types.CodeType], types.GeneratorType[Any, Any, Any]] = {}


def is_internal(frame: types.FrameType) -> bool:
    """Whether a frame belongs to firesteel or to code that it generated without a user's line."""
    return is_own_file(frame.f_code.co_filename)


def without_internal_frames(error: BaseException, after: types.TracebackType | None = None) -> BaseException:
    """Take our frames out of an exception's traceback, behind the entry `after` if it is given."""
    kept = [after] if after is not None else []
    traceback = after.tb_next if after is not None else error.__traceback__
    while traceback is not None:
        if not is_internal(traceback.tb_frame):
            kept.append(traceback)
        traceback = traceback.tb_next
    for entry, following in zip(kept, [*kept[1:], None][:len(kept)], strict=True):
        if entry.tb_next is not following:
            entry.tb_next = following
    if after is None:
        error.__traceback__ = kept[0] if kept else None
    return error


def leaving(error: BaseException) -> None:
    """An exception leaves compiled code for the user's: only the frame that catches it here stays of ours.

    What failed while compiling keeps all frames when internal failures are to be shown.
    """
    first = error.__traceback__
    if first is None or (config.raise_on_internal_error and _from_compiling(first)):
        return
    without_internal_frames(error, first)


def _from_compiling(traceback: types.TracebackType | None) -> bool:
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_qualname == "Unit.compile" and code.co_filename.startswith(_PACKAGE):
            return True
        traceback = traceback.tb_next
    return False


def as_raised(error: BaseException, places: tuple[tuple[types.CodeType, int], ...]) -> None:
    """Give an exception that capture raised and caught the traceback that it would have; innermost place first."""
    if error.__context__ is None:
        handled = sys.exc_info()[1]
        if handled is not error:
            error.__context__ = handled
    error.__traceback__ = make_traceback(places)


def make_traceback(places: tuple[tuple[types.CodeType, int], ...]) -> types.TracebackType | None:
    """A traceback through these lines; innermost first."""
    traceback = None
    for code, line in places:
        traceback = types.TracebackType(traceback, _frame_of(code), -1, line)
    return traceback


def _frame_of(code: types.CodeType) -> types.FrameType:
    """A frame that prints as one of `code`. It is a generator's, which waits for ever: other frames would keep those
    that were running when they were made."""
    generator = _FRAMES.get((code.co_filename, code))
    if generator is None or generator.gi_frame is None:  # traceback.clear_frames ends it
        names: dict[str, Any] = {}
        exec("def make(): yield", names)
        make = names["make"]
        make.__code__ = make.__code__.replace(
            co_filename=code.co_filename, co_name=code.co_name, co_qualname=code.co_qualname,
            co_firstlineno=code.co_firstlineno)
        generator = _FRAMES[code.co_filename, code] = make()
        next(generator)
    frame = generator.gi_frame
    assert frame is not None
    return frame


def handle(error: BaseException) -> None:
    """Raise an exception that keeps its context, so that an except clause around the call handles it from then on."""
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context


class Raiser:
    """Stands for a continuation that raises an exception again: unlike ``raise`` it adds no line to the traceback."""

    def resume(self, held: list[Any]) -> Any:
        handle(held.pop())


RAISER = Raiser()
