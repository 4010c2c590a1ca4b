"""What happened while compiling: collected for explain, profilers and compile_times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

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


@dataclass(frozen=True)
class CompileRecord:
    """One finished compilation, for compile_times."""

    name: str
    where: str
    seconds: float


TIMES: list[CompileRecord] = []
LISTENERS: list[Callable[[str, Unit, Any], None]] = []


def record(compiler: Compiler, kind: str, unit: Unit, what: Any) -> None:
    """Note an event of a compile call."""
    if kind == "compiled":
        TIMES.append(CompileRecord(unit.name, str(unit.user_frame), what.seconds))
    events = compiler.events
    if events is not None:
        if kind == "compiled":
            events.entries.append((unit, what))
        elif kind == "recompiled":
            events.recompiles.append((unit, what))
        else:
            events.skipped.append((unit, what))
    for listener in LISTENERS:
        listener(kind, unit, what)
