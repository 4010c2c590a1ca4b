"""Signals and forks while something is compiled: both wait for a point at which nothing is half done.

A signal handler runs when its signal arrives, wherever the compilation is. What it raises is held until the next
`safe_point`, or the end: then it goes to the user, through code that would take any other exception for a failure of
the compiler. A fork in another thread waits for the same points, so that no child has half a compilation in its memory
and locks that nobody releases.

>>> with uninterrupted():
...     safe_point()
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import concurrent.futures.thread  # noqa: F401  (takes a lock at forks, as logging does: they must come before ours)
import ctypes
import functools
import logging  # noqa: F401
import signal
import threading
import time
import types
from collections.abc import Callable
from typing import Any

from . import torch_compat
from .systems import at_fork, process_library

PATIENCE = 2.0
"""Seconds that the exception of a handler waits; the next one does not wait for a safe point that may never come."""
FORK_PATIENCE = 10.0
"""Seconds that a fork waits for a compilation, which may itself wait for the thread that forks."""
ROUNDS = 100
"""How often restoring the handlers goes on after an exception."""

attention = False
"""Whether `safe_point` has something to do."""


class Interrupted(BaseException):
    """On its way out of a compilation: what a signal handler raised."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def safe_point() -> None:
    """Nothing is half done here: raise what a signal handler raised, let another thread fork."""
    if attention:
        _attend()


def _attend() -> None:
    if _SIGNALS.held is not None and _on_main_thread():
        raise Interrupted(_SIGNALS.take())
    if _FORKS.forking:
        _FORKS.let_pass()


def _look_again() -> None:
    global attention
    attention = _SIGNALS.held is not None or bool(_FORKS.forking)


def _on_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


# Signals


class _Handler:
    """Stands for a user's handler while something is compiled."""

    def __init__(self, original: Callable[..., Any]) -> None:
        self.original = original

    def __call__(self, number: int, frame: types.FrameType | None) -> Any:
        try:
            if not _SIGNALS.holding:
                return self.original(number, frame)
            # What is compiled has no values. The handler's own tensors have, and it may be writing them to a file.
            with torch_compat.without_torch_function(), torch_compat.below_python_key():
                return self.original(number, frame)
        except BaseException as error:
            _SIGNALS.raised(error)


class _Signals:
    """The handlers of the process, which Python runs in its main thread, and what they raised."""

    def __init__(self) -> None:
        self.outermost: uninterrupted | None = None
        """The outermost compilation of the main thread."""
        self.handlers: dict[int, _Handler] = {}
        """Those that stand for the user's."""
        self.holding = False
        self.held: BaseException | None = None
        self.since = 0.0
        self.seen: BaseException | None = None
        """The exception that was raised into code of the user inside of a compilation."""

    def raised(self, error: BaseException) -> None:
        """An exception that leaves a handler: held, or raised where it is."""
        if not self.holding:
            self.seen = error if self.outermost is not None else None
            raise error
        waited = self.held is not None and time.monotonic() - self.since > PATIENCE
        if self.held is None:
            self.since = time.monotonic()
        self.held = error
        if waited:
            raise Interrupted(self.take())
        _look_again()

    def take(self) -> BaseException:
        error, self.held = self.held, None
        _look_again()
        assert error is not None
        return error

    def install(self) -> None:
        for number in _signal_numbers():
            original = _handler_of(number)
            if not callable(original):
                continue  # none, or one that is not written in Python
            handler = original if isinstance(original, _Handler) else _Handler(original)
            self.handlers[number] = handler
            _set_handler(number, handler)

    def restore(self) -> None:
        """Put the user's handlers back, all of them, whatever they raise from the moment on that they are back.

        What is raised between any two steps ends a round, and the next one goes on; the user gets the last. Should one
        be left all the same, by a signal that arrives just between two rounds, it does what the user's does, and the
        next compilation puts that back.
        """
        error: BaseException | None = None
        for _ in range(ROUNDS):
            if not self.handlers:
                break
            try:
                self._restore_round()
            except BaseException as raised:
                error = raised
        if error is not None:
            raise error

    def _restore_round(self) -> None:
        for number, handler in tuple(self.handlers.items()):
            if _handler_of(number) is handler:  # or else a handler has installed another, or it is back
                _set_handler(number, handler.original)
            self.handlers.pop(number, None)


_SIGNALS = _Signals()


# `signal.getsignal` without the search for an enum's member, which takes most of its time.
_handler_of: Callable[[int], Any] = _signal.getsignal


@functools.cache
def _signal_numbers() -> tuple[int, ...]:
    return tuple(sorted(map(int, signal.valid_signals())))


def _set_handler(number: int, handler: Callable[..., Any]) -> None:
    """`signal.signal` that leaves the settings which the system keeps for the signal (`siginterrupt`) as they are."""
    settings = ctypes.create_string_buffer(512)  # more than any system needs
    change = getattr(process_library(), "sigaction", None)
    known = change is not None and change(number, None, settings) == 0
    signal.signal(number, handler)
    if known and change is not None:
        change(number, settings, None)


def raised_by_handler(error: BaseException) -> bool:
    """Whether an exception comes out of a signal handler, as its traceback shows.

    A handler gets the frame that it interrupts, which is the one in front of it in the traceback.
    """
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        interrupted, entry = entry.tb_frame, entry.tb_next
        code = entry.tb_frame.f_code
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
        given = entry.tb_frame.f_locals
        for name in code.co_varnames[:count]:
            value = given.get(name)
            if value is interrupted or (isinstance(value, tuple) and any(item is interrupted for item in value)):
                return True
    return False


# Forks


class _Forks:
    """Who compiles and who forks: never both at once."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.compiling: dict[int, int] = {}
        """The threads that compile, and how many compilations they are in."""
        self.forking: dict[int, bool] = {}
        """The threads that fork or wait for it."""

    def enter(self, times: int = 1) -> None:
        """This thread compiles from now on; first, it lets others fork."""
        this = threading.get_ident()
        with self.changed:
            if this not in self.compiling:
                self.changed.wait_for(lambda: not self.forking, FORK_PATIENCE)
            self.compiling[this] = self.compiling.get(this, 0) + times

    def leave(self) -> None:
        this = threading.get_ident()
        with self.changed:
            times = self.compiling.pop(this, 0) - 1  # a handler's exception may have ended a pause before its end
            if times > 0:
                self.compiling[this] = times
            else:
                self.changed.notify_all()

    def pause(self) -> int:
        """This thread compiles nothing for a while; returns what `enter` takes to go on."""
        with self.changed:
            times = self.compiling.pop(threading.get_ident(), 0)
            self.changed.notify_all()
        return times

    def let_pass(self) -> None:
        times = self.pause()
        if times:
            self.enter(times)

    # What Python calls around a fork

    def before(self) -> None:
        this = threading.get_ident()
        with self.changed:
            self.forking[this] = True
            _look_again()
            # its own compilation goes on on both sides of the fork
            self.changed.wait_for(lambda: not self.compiling.keys() - {this}, FORK_PATIENCE)

    def in_parent(self) -> None:
        with self.changed:
            self.forking.pop(threading.get_ident(), None)
            self.changed.notify_all()
        _look_again()

    def in_child(self) -> None:
        self.changed = threading.Condition()
        self.forking.clear()
        times = self.compiling.get(threading.get_ident(), 0)
        self.compiling = {threading.get_ident(): times} if times else {}
        if not times:
            _SIGNALS.held, _SIGNALS.holding, _SIGNALS.outermost = None, False, None
            _SIGNALS.restore()
        _look_again()


_FORKS = _Forks()
at_fork(before=_FORKS.before, after_in_parent=_FORKS.in_parent, after_in_child=_FORKS.in_child)


# Where they are held off


class uninterrupted:  # noqa: N801  (used like a function)
    """Context manager around a compilation: forks and exceptions of signal handlers wait for safe points or its end.

    What is counted and marked is so while exceptions are held, before the handlers are put back: none comes in between.
    """

    __slots__ = ("first", "holding")

    def __init__(self) -> None:
        self.first = self.holding = False

    def __enter__(self) -> None:
        if _on_main_thread():
            self._enter_signals()
        try:
            _FORKS.enter()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            _FORKS.leave()
        finally:
            if _on_main_thread():
                self._leave_signals(error)

    def _enter_signals(self) -> None:
        first = _SIGNALS.outermost is None
        try:
            if first:
                _SIGNALS.held = None
                _SIGNALS.install()
            self.first, self.holding, _SIGNALS.holding = first, _SIGNALS.holding, True
        except BaseException:
            if first:
                _SIGNALS.restore()
            raise
        if first:
            _SIGNALS.outermost, _SIGNALS.seen = self, None

    def _leave_signals(self, error: BaseException | None) -> None:
        if self.holding:
            return  # inside of another compilation, which goes on or takes the exception to its end
        try:
            _SIGNALS.holding, _SIGNALS.outermost = False, None if self.first else _SIGNALS.outermost
            if self.first:
                _SIGNALS.restore()
        finally:
            held = _SIGNALS.take() if _SIGNALS.held is not None else None
            if isinstance(error, Interrupted):
                held = error.error
            if held is not None:
                _SIGNALS.seen = held
                try:
                    raise held
                finally:
                    if isinstance(error, Interrupted):
                        held.__context__ = error.__context__  # what the program itself was handling, if anything


class interruptible:  # noqa: N801
    """Context manager around code of the user inside of a compilation: there handlers and forks have their way."""

    __slots__ = ("compilations", "holding")

    def __init__(self) -> None:
        self.holding = False
        self.compilations = 0

    def __enter__(self) -> None:
        self.compilations = _FORKS.pause()
        if _on_main_thread():
            self.holding, _SIGNALS.holding = _SIGNALS.holding, False

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        seen = None
        if _on_main_thread():
            _SIGNALS.holding = self.holding
            seen, _SIGNALS.seen = _SIGNALS.seen, None
        if self.compilations:
            _FORKS.enter(self.compilations)
        if self.holding and seen is not None and seen is error:
            raise Interrupted(seen)
