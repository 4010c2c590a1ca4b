"""How long compilations took, stage by stage: behind `compile_times`, the log "times" and the line of progress.

Spans lie inside of each other. Each stage gets its own time only, so that the stages of a compilation add up to it;
passes belong to the stage "passes", and what is between stages is "other".
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import field
from typing import Any

from .logs import detail, enabled, log
from .records import dataclass


@dataclass(frozen=True)
class CompileRecord:
    """One finished compilation, for compile_times."""

    name: str
    where: str
    seconds: float
    stages: dict[str, float] = field(default_factory=dict)


TIMES: list[CompileRecord] = []
GRAPHS: weakref.WeakKeyDictionary[Any, tuple[str, str]] = weakref.WeakKeyDictionary()
"""The function that a captured graph is of, and where that is."""


class Span:
    """A stretch of time in which something was compiled, or a stage of that ran."""

    __slots__ = ("name", "kind", "graph", "what", "thread", "began", "ended", "inner")

    def __init__(self, name: str, kind: str, graph: Any, what: Any) -> None:
        self.name = name
        self.kind = kind
        """One of "compile" (a function for its arguments), "graph", "stage" and "pass"."""
        self.graph = graph
        """The captured graph that it is about, where that is not the one of the span around it."""
        self.what = what
        self.thread = threading.get_ident()
        self.began = self.ended = 0.0
        self.inner = 0.0
        """The time of the spans in it."""

    def __enter__(self) -> Span:
        self.began = time.perf_counter()
        _began(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self.ended = time.perf_counter()
        _ended(self)


class Going:
    """A compilation that is going on in a thread: of a function, or of a graph whose function is compiled already."""

    __slots__ = ("name", "where", "is_function", "began", "open", "stages", "records", "stop")

    def __init__(self, name: str, where: str, is_function: bool, began: float) -> None:
        self.name = name
        self.where = where
        self.is_function = is_function
        self.began = began
        self.open: list[Span] = []
        """The spans in it that have not ended, the innermost last."""
        self.stages: dict[str, float] = {}
        self.records: list[CompileRecord] = []
        """What is said of it in `TIMES`, when it has come to an end."""
        self.stop: Callable[[], None] | None = None


class _Threads(threading.local):
    def __init__(self) -> None:
        self.going: list[Going] = []


_THREADS = _Threads()
WATCHERS: list[Callable[[Going], Callable[[], None] | None]] = []
"""Called when a compilation begins that is inside of no other; what they return is called when it ends."""


def _began(span: Span) -> None:
    """A span has begun."""
    going = _THREADS.going
    if span.kind == "compile" or not going and span.kind == "graph":
        if span.kind == "compile":
            new = Going(span.name, str(span.what.user_frame), True, span.began)
        else:
            name, where = GRAPHS.get(span.graph, (type(span.graph).__name__, ""))
            new = Going(f"{name} ({span.name})", where, False, span.began)
        going.append(new)
        if len(going) == 1 and WATCHERS:
            new.stop = WATCHERS[-1](new)
    if going:
        going[-1].open.append(span)


def _ended(span: Span) -> None:
    """A span has ended."""
    threads = _THREADS.going
    if not threads or span not in threads[-1].open:
        return
    going = threads[-1]
    while going.open.pop() is not span:
        pass  # an exception has passed by their ends
    seconds = span.ended - span.began
    own = seconds - span.inner
    if going.open:
        going.open[-1].inner += seconds
    stage = {"stage": span.name, "pass": "passes"}.get(span.kind, "other")
    going.stages[stage] = going.stages.get(stage, 0.0) + own
    detail("times", "%s: %s %s: %.2f ms", going.name, span.kind, span.name, 1e3 * seconds)
    if not going.open:
        threads.pop()
        if threads and threads[-1].open:
            threads[-1].open[-1].inner += seconds
        _finish(going, seconds)


def compiled(name: str, where: str, seconds: float) -> None:
    """A function has been compiled, in the compilation that is going on."""
    record = CompileRecord(name, where, seconds)
    TIMES.append(record)
    if _THREADS.going:
        _THREADS.going[-1].records.append(record)


def _finish(going: Going, seconds: float) -> None:
    if going.stop is not None:
        going.stop()
    if not going.is_function:
        going.records.append(CompileRecord(going.name, going.where, seconds))
        TIMES.extend(going.records)
    for record in going.records[-1:]:
        record.stages.update(going.stages)
    if enabled("times"):
        log("times", "%s: %.1f ms: %s", f"{going.name} ({going.where})" if going.is_function else going.name,
            1e3 * seconds, ", ".join(f"{name} {1e3 * spent:.1f}" for name, spent in going.stages.items()))


def table() -> str:
    """All compilations of this process, and how much of them each stage took."""
    totals: dict[tuple[str, str], list[float]] = {}
    stages: dict[str, float] = {}
    for record in TIMES:
        totals.setdefault((record.name, record.where), []).append(record.seconds)
        for name, seconds in record.stages.items():
            stages[name] = stages.get(name, 0.0) + seconds
    lines = [f"{'compiled':<44} {'runs (s)'}"]
    for (name, where), times in totals.items():
        lines.append(f"{name:<44} {', '.join(f'{seconds:.4f}' for seconds in times)}    {where}")
    total = sum(stages.values())
    if total:
        lines.append(f"\n{'stage':<44} all (s)   share")
        lines.extend(f"{name:<44} {seconds:.4f}  {seconds / total:6.1%}"
                     for name, seconds in sorted(stages.items(), key=lambda item: -item[1]))
    return "\n".join(lines)
