"""Exceptions and warnings that users of firesteel see.

Every message answers the same four questions in the same order: what happened, where in the user's own code, why, and
what to do about it.

>>> error = GraphBreakError("a branch depends on the value of a tensor", hint="Use fs.cond(pred, a, b).")
>>> print(error)
fullgraph=True, but this program cannot be captured in one graph.
  Why: a branch depends on the value of a tensor
  What to do: Use fs.cond(pred, a, b).
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import ClassVar

NUMBER_TOO_LARGE = "firesteel: a size does not fit in 64 bits"
"""What compiled code says that computes with 64 bits where Python has more; plain Python runs in its place."""


def with_article(noun: str) -> str:
    """A name with its article, for messages.

    >>> with_article("int"), with_article("list")
    ('an int', 'a list')
    """
    return f"{'an' if noun[:1].lower() in 'aeio' else 'a'} {noun}"


@dataclass(frozen=True, slots=True)
class UserFrame:
    """One place in the user's program: a file, a line and the function around it."""

    filename: str
    lineno: int
    function: str

    @classmethod
    def of(cls, frame: FrameType) -> UserFrame:
        """The place where a running Python frame stands now."""
        return cls(frame.f_code.co_filename, frame.f_lineno or frame.f_code.co_firstlineno, frame.f_code.co_name)

    @property
    def source(self) -> str:
        """The source line without its indentation, or "" when the source is not available. Read on demand."""
        return linecache.getline(self.filename, self.lineno).strip()

    @property
    def in_torch(self) -> bool:
        """Whether it is code of torch itself, such as a module of torch.nn."""
        torch = sys.modules.get("torch")
        return torch is not None and self.filename.startswith(os.path.dirname(torch.__file__ or "?") + os.sep)

    def __str__(self) -> str:
        return f"{self.filename}:{self.lineno} in {self.function}"


def format_user_stack(frames: Sequence[UserFrame], indent: str = "  ") -> str:
    """Render frames, outermost call first, in the layout of Python's own tracebacks, which editors turn into links.

    >>> print(format_user_stack([UserFrame("model.py", 3, "forward")]))
      File "model.py", line 3, in forward
    """
    lines = []
    for frame in frames:
        lines.append(f'{indent}File "{frame.filename}", line {frame.lineno}, in {frame.function}')
        if source := frame.source:
            lines.append(f"{indent}  {source}")
    return "\n".join(lines)


def format_report(what: str, frames: Sequence[UserFrame], why: str, what_to_do: str | None) -> str:
    """The text shared by errors and warnings: what happened, where, why, what to do."""
    parts = [what]
    if frames:
        parts.append(format_user_stack(frames))
    if why:
        parts.append("  Why: " + why.replace("\n", "\n    "))
    if what_to_do:
        parts.append("  What to do: " + what_to_do.replace("\n", "\n    "))
    return "\n".join(parts)


class FiresteelError(RuntimeError):
    """Base of all errors that firesteel raises on its own behalf.

    Errors of the user's program are never wrapped: they pass through compiled code with their own type and traceback.

    Attributes:
        reason: why it happened, one sentence without a final full stop.
        hint: what to do about it.
        frames: where it happened in the user's code, outermost call first.
    """

    headline: ClassVar[str] = "firesteel cannot go on."
    default_hint: ClassVar[str | None] = None

    def __init__(self, reason: str, hint: str | None = None, frames: Sequence[UserFrame] = ()) -> None:
        self.reason = reason
        self.hint = hint if hint is not None else self.default_hint
        self.frames = tuple(frames)
        # All arguments go to BaseException so that pickling and copying rebuild the same error.
        super().__init__(reason, hint, self.frames)

    @property
    def what(self) -> str:
        """What happened, the first line of the message."""
        return self.headline

    def __str__(self) -> str:
        return format_report(self.what, self.frames, self.reason, self.hint)


class GraphBreakError(FiresteelError):
    """Under fullgraph=True: something cannot be part of the graph."""

    headline = "fullgraph=True, but this program cannot be captured in one graph."
    default_hint = (
        "Move this step out of the compiled function, or drop fullgraph=True: the step then runs in Python "
        "between two graphs."
    )


class InternalError(FiresteelError):
    """A failure of firesteel itself. Normally it is a warning, and the function runs uncompiled."""

    headline = "firesteel failed while compiling this code. The fault is in firesteel, not in your program."
    default_hint = (
        "Please report this with the traceback. Until it is fixed, fs.disable on the function named above keeps it "
        "uncompiled."
    )


class RecompileLimitError(FiresteelError):
    """A function was compiled as often as config.recompile_limit allows, where running it uncompiled is not allowed."""

    headline = "This function has reached its limit of compiled versions (config.recompile_limit)."
    default_hint = (
        'FIRESTEEL_LOGS="recompiles" lists the reason of every compilation. Make the value that keeps changing '
        "an argument tensor, or raise config.recompile_limit."
    )


class RecompileError(FiresteelError):
    """Under the stance "fail_on_recompile": no compiled version fits this call."""

    headline = 'The stance is "fail_on_recompile", and no compiled version of this function fits the call.'
    default_hint = "Compile for these arguments before setting the stance, or choose another stance."


class ConstraintViolationError(FiresteelError):
    """A size that was declared dynamic is not: the program works for one value, or not for the range declared."""

    headline = "A size that is marked dynamic is not dynamic in this program."
    default_hint = (
        "Take the mark away (fs.mark_static, or fs.maybe_mark_dynamic), or change the line that needs the value."
    )


class DeclaredSizesError(FiresteelError):
    """A call of a function for which sizes were declared, with arguments that are not as declared."""

    headline = "The arguments of this call are not as dynamic_shapes declares them."
    default_hint = "Pass arguments that fit, or declare what these have in common with others."


class BackendError(FiresteelError):
    """A backend is unknown, cannot be loaded, failed to compile a graph, or returned something that cannot be called.

    Attributes:
        backend: the name of the backend.
    """

    def __init__(
        self, backend: str, reason: str, hint: str | None = None, frames: Sequence[UserFrame] = ()
    ) -> None:
        super().__init__(reason, hint, frames)
        self.backend = backend
        self.args = (backend, reason, hint, self.frames)

    @property
    def what(self) -> str:
        return f"The backend {self.backend!r} cannot be used."


class UserCodeError(FiresteelError):
    """The program asks for something that firesteel's own functions do not allow, for example wrong arguments."""

    headline = "One of firesteel's functions is used in a way that it does not allow."


class UnsupportedError(FiresteelError):
    """This Python, torch or platform is not supported, and what was asked for has no uncompiled form."""

    headline = "firesteel does not support this environment."
    default_hint = "Use a supported version, or leave firesteel out here."


class FiresteelWarning(UserWarning):
    """Category of all warnings that firesteel gives, so that one filter catches them."""
