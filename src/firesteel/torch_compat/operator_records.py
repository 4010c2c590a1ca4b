"""Which operators Python calls, and inside of which ranges: what torch's profilers observe, without what they cost.

Observing changes nothing about operators, as a dispatch mode would: views, autograd and guards are what they are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.autograd import profiler as profilers
from torch.profiler import record_function

from ..records import dataclass

RANGE = "firesteel: "
GRAPH, COMPILING, PLAIN = f"{RANGE}graph", f"{RANGE}compiling", f"{RANGE}plain: "
"""Ranges of graphs that run, of what the compiler does itself, and of functions that are not compiled."""

STARTERS = ("_prepare_profiler", "_enable_profiler")
"""What torch's profilers are started by, in the module that has them."""


@dataclass
class OperatorRecord:
    """The operators of one stretch of time, in one thread, each with the ranges of ours that it was called in. Those
    that operators call themselves are not among them. None where another profiler is active, or torch has no such."""

    calls: list[tuple[str, tuple[str, ...]]] | None = None


class _State:
    recording = False
    thread = 0
    """The one that records: torch observes each thread for itself, and no other can end it."""


def is_recording() -> bool:
    """Whether operators are being recorded in this thread."""
    return _State.recording and _State.thread == threading.get_ident()


def of_the_compiler() -> AbstractContextManager[Any]:
    """For a block of the compiler's own: its operators are not the program's."""
    return record_function(COMPILING) if is_recording() else nullcontext()


@contextmanager
def recorded_operators() -> Iterator[OperatorRecord]:
    """Record the operators of a block.

    >>> from torch.profiler import record_function
    >>> with recorded_operators() as record, record_function("firesteel: mine"):
    ...     _ = torch.ones(2).sum()
    >>> record.calls
    [('aten::ones', ('firesteel: mine',)), ('aten::sum', ('firesteel: mine',))]
    """
    record = OperatorRecord()
    if not _ONE_AT_A_TIME.acquire(blocking=False):
        yield record
        return
    try:
        with _recording_into(record):
            yield record
    finally:
        _ONE_AT_A_TIME.release()


_ONE_AT_A_TIME = threading.Lock()


@contextmanager
def _recording_into(record: OperatorRecord) -> Iterator[None]:
    if not _start():
        yield
        return
    _State.recording, _State.thread = True, threading.get_ident()
    starters = {name: getattr(profilers, name) for name in STARTERS if hasattr(profilers, name)}
    for name, start in starters.items():
        setattr(profilers, name, _giving_way(start))
    try:
        yield
    finally:
        for name, start in starters.items():
            setattr(profilers, name, start)
        stop_recording(record)


def _giving_way(start: Callable[..., Any]) -> Callable[..., Any]:
    """What starts a profiler of the program's: there can be one at a time."""
    def started(*args: Any, **kwargs: Any) -> Any:
        _stop()
        return start(*args, **kwargs)

    return started


def stop_recording(record: OperatorRecord) -> None:
    """End a recording early: what has been recorded so far is the record."""
    if record.calls is None:
        record.calls = _stop()


def _stop() -> list[tuple[str, tuple[str, ...]]] | None:
    """End the recording; None if it has ended before."""
    if not is_recording():
        return None
    _State.recording = False
    try:
        return _read(torch._C._autograd._disable_profiler_legacy())
    except RuntimeError:  # the program has ended it, with a profiler of its own
        return None


def _start() -> bool:
    autograd: Any = torch._C._autograd
    profiler: Any = torch._C._profiler
    if not hasattr(autograd, "_enable_profiler_legacy") or autograd._profiler_enabled():
        return False
    try:
        state = profiler.ProfilerState.CPU
        without = [False] * 5  # shapes, memory, stacks, flops, modules
        autograd._enable_profiler_legacy(profiler.ProfilerConfig(state, *without, profiler._ExperimentalConfig()))
    except (AttributeError, TypeError, RuntimeError):
        return False
    return True


def _read(threads: Any) -> list[tuple[str, tuple[str, ...]]]:
    calls = []
    for events in threads:
        names: list[str] = []
        inside = 0  # of operators
        for event in events:
            kind = event.kind()
            if kind == "push":
                name = event.name()
                if name.startswith("aten::"):
                    if not inside:
                        calls.append((name, tuple(above for above in names if above.startswith(RANGE))))
                    inside += 1
                names.append(name)
            elif kind == "pop" and names:
                inside -= names.pop().startswith("aten::")
    return calls
