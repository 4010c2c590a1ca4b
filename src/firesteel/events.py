"""What happened while compiling: collected for explain, recordings, progress lines, profilers and compile_times.

Whoever compiles says what it does with `span`, which is timed, and `note`, which asks whether anybody listens.
Neither stands where a call of compiled code comes by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from . import stage_times
from .records import dataclass

if TYPE_CHECKING:
    from .capture.entries import BreakReason, Entry
    from .capture.graph import CapturedGraph
    from .runtime.compiler import Compiler
    from .runtime.units import Unit


@dataclass
class Events:
    """A collector that a compile call reports to."""

    graphs: list[CapturedGraph] = field(default_factory=list)
    entries: list[tuple[Unit, Entry]] = field(default_factory=list)
    recompiles: list[tuple[Unit, str]] = field(default_factory=list)
    skipped: list[tuple[Unit, str]] = field(default_factory=list)
    plain: dict[str, str] = field(default_factory=dict)
    """What ran uncompiled, and why."""

    def graph(self, unit: Unit, captured: CapturedGraph) -> None:
        self.graphs.append(captured)

    @property
    def break_reasons(self) -> list[BreakReason]:
        return [entry.break_reason for _, entry in self.entries if entry.break_reason is not None]


LISTENERS: list[Callable[[str, Unit, Any], None]] = []


class Span(stage_times.Span):
    """A stretch of time, of which observers are told."""

    __slots__ = ()

    def __enter__(self) -> Span:
        for observer in tuple(OBSERVERS):
            observer.begin(self)
        super().__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__()
        for observer in tuple(OBSERVERS):
            observer.end(self)


class Observer:
    """Somebody who is told what compilations do, in whichever thread they run."""

    asks = False
    """Whether somebody wants to see all there is: functions are compiled in their first call then."""

    def begin(self, span: Span) -> None:
        """A span begins; those of one thread lie inside each other."""

    def end(self, span: Span) -> None:
        """A span ends. It may have begun before anybody listened."""

    def note(self, kind: str, /, **what: Any) -> None:
        """Something happened."""


OBSERVERS: list[Observer] = []


def span(name: str, kind: str = "stage", graph: Any = None, what: Any = None) -> Span:
    """Something that takes time."""
    return Span(name, kind, graph, what)


def note(kind: str, /, **what: Any) -> None:
    """Something that happened, for those who listen."""
    for observer in tuple(OBSERVERS):
        observer.note(kind, **what)


def somebody_asks() -> bool:
    """Whether a recording runs."""
    return bool(OBSERVERS) and any(observer.asks for observer in OBSERVERS)


def record(compiler: Compiler, kind: str, unit: Unit, what: Any) -> None:
    """Note an event of a compile call."""
    if kind == "compiled":
        stage_times.compiled(unit.name, str(unit.user_frame), what.seconds)
    events = compiler.events
    if events is not None:
        if kind == "compiled":
            events.entries.append((unit, what))
        elif kind == "recompiled":
            events.recompiles.append((unit, what))
        elif kind == "skipped":
            events.skipped.append((unit, what))
    for listener in LISTENERS:
        listener(kind, unit, what)
    note(kind, unit=unit, what=what)
