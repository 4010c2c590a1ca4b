"""What a recording holds: plain data about what was compiled, in which stages, and what became of each line.

Everything here is text and numbers, so that a record can be kept, turned into JSON and shown after the program is over.
Times are seconds since the recording began.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Place:
    """A line of somebody's program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


@dataclass(frozen=True)
class Stage:
    """A stretch of time of a compilation. Those of one thread lie inside each other."""

    name: str
    kind: str
    """One of "compile" (a function for its arguments), "graph", "stage" and "pass"."""
    began: float
    seconds: float
    depth: int
    thread: int
    compilation: int | None = None
    graph: int | None = None


@dataclass
class StageTotal:
    """All runs of a stage together."""

    name: str
    kind: str
    runs: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class GuardRecord:
    """Something that a compiled version relies on, and the line that made it rely on it."""

    text: str
    place: Place | None = None


@dataclass(frozen=True)
class BreakRecord:
    """Where a graph ended early, why, and what to do about it."""

    reason: str
    advice: str
    places: tuple[Place, ...]
    """Outermost call first; the last one is the line of the break."""
    compilation: int

    @property
    def place(self) -> Place | None:
        return self.places[-1] if self.places else None


@dataclass(frozen=True)
class FailedGuardRecord:
    """A guard that did not hold, with what it was made for and what it met."""

    text: str
    before: str
    now: str
    place: Place | None


@dataclass(frozen=True)
class Recompilation:
    """A function that was compiled again, because no version fitted."""

    function: str
    began: float
    place: Place | None
    """The line that made the program rely on what has changed; that of the function where no guard says so."""
    failures: tuple[FailedGuardRecord, ...]
    """One for each version that there was, oldest first."""
    compilation: int | None = None
    """What came of it; None where the limit was reached."""


@dataclass
class PlainRecord:
    """Something that ran as plain Python."""

    name: str
    place: Place | None
    reason: str
    calls: int = 1


@dataclass
class KernelRecord:
    """A kernel, or a call of an ATen operator between kernels."""

    name: str
    operators: list[str]
    places: list[Place]
    """The lines whose operators are in it."""
    read: int | None
    """Bytes; None where sizes are not known before a call."""
    written: int | None
    is_call: bool = False
    loops: str = ""
    """As a loop nest."""
    source: str = ""
    """As it was given to LLVM or Triton."""
    seconds: float | None = None
    """Of one run on memory of the same size, where that was measured."""
    copy_seconds: float | None = None
    """What copying as many bytes takes, which is about the least that this machine can do."""
    not_measured: str = ""


@dataclass
class Program:
    """A functional graph that was compiled in one piece: the whole of a captured graph, its forward, its backward."""

    name: str
    texts: dict[str, str] = field(default_factory=dict)
    """What each stage made of it, in order."""
    kernels: list[KernelRecord] = field(default_factory=list)
    drawing: str = ""
    """The kernels and what goes between them as an SVG, where they are few."""
    passes: list[tuple[str, float, int]] = field(default_factory=list)
    """For each pass its name, its seconds and how many nodes the graph had afterwards."""
    arguments: int | None = None
    """The bytes of its arguments; None where sizes are not known before a call."""
    memory: list[tuple[str, int]] = field(default_factory=list)
    """For each kernel and call its name, and the bytes that the program holds meanwhile beside its arguments."""

    @property
    def peak(self) -> int:
        """The most bytes that it holds at a time, beside its arguments."""
        return max((held for _, held in self.memory), default=0)


@dataclass
class GraphRecord:
    """A captured graph and what was made of it."""

    number: int
    name: str
    place: Place | None
    operators: int
    texts: dict[str, str] = field(default_factory=dict)
    places: list[Place] = field(default_factory=list)
    """The lines whose operators are in it, calls included."""
    programs: list[Program] = field(default_factory=list)
    not_compiled: str = ""
    """Why it runs operator by operator, if so."""
    parts_not_compiled: list[str] = field(default_factory=list)
    """The same of parts of it, where it was taken apart."""


@dataclass
class Compilation:
    """A function that was compiled for its arguments."""

    number: int
    function: str
    place: Place | None
    began: float
    seconds: float = 0.0
    graph: int | None = None
    guards: list[GuardRecord] = field(default_factory=list)
    is_again: bool = False
    result: str = ""
    """Why nothing came of it, if so."""


@dataclass(frozen=True)
class Share:
    """How many operators of one call of a function ran in graphs, and which ones did not."""

    function: str
    place: Place | None
    inside: int
    outside: int
    names: dict[str, int]
    measured: bool
    """Counted in a call; otherwise known, because the function is one graph."""


@dataclass
class Record:
    """Everything that a recording has seen."""

    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    compilations: list[Compilation] = field(default_factory=list)
    graphs: list[GraphRecord] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    totals: dict[str, StageTotal] = field(default_factory=dict)
    """For each stage and pass how often it ran, and how long."""
    compiling: float = 0.0
    """Seconds of all compilations."""
    breaks: list[BreakRecord] = field(default_factory=list)
    recompilations: list[Recompilation] = field(default_factory=list)
    plain: list[PlainRecord] = field(default_factory=list)
    shares: list[Share] = field(default_factory=list)
    caches: dict[str, list[int]] = field(default_factory=dict)
    """For each cache how often it had what was asked for, and how often not."""
    memory: list[tuple[float, int, int]] = field(default_factory=list)
    """Whenever something has been compiled: seconds, bytes of the process, bytes of tensors on the GPU."""
    sources: dict[str, list[str]] = field(default_factory=dict)
    """The lines of all files that are named, as they were then."""
    problems: list[str] = field(default_factory=list)
    """What could not be recorded, because of a fault in firesteel."""

    @property
    def inside(self) -> int:
        return sum(share.inside for share in self.shares)

    @property
    def outside(self) -> int:
        return sum(share.outside for share in self.shares)

    def kernels(self) -> Iterator[tuple[GraphRecord, Program, KernelRecord]]:
        """All kernels and calls, with where they belong."""
        for graph in self.graphs:
            for program in graph.programs:
                for kernel in program.kernels:
                    yield graph, program, kernel

    def as_dict(self) -> dict[str, Any]:
        """The same as dictionaries, lists, text and numbers."""
        return dataclasses.asdict(self)

    def as_json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.as_dict(), indent=1)

    def chrome_trace(self) -> dict[str, Any]:
        """The stages of all compilations in the form that chrome://tracing and Perfetto show."""
        events: list[dict[str, Any]] = []
        threads = {thread: number for number, thread in enumerate(dict.fromkeys(s.thread for s in self.stages))}
        for stage in self.stages:
            events.append({
                "name": stage.name, "cat": stage.kind, "ph": "X", "pid": 1, "tid": threads[stage.thread],
                "ts": 1e6 * stage.began, "dur": 1e6 * stage.seconds,
                "args": {"compilation": stage.compilation, "graph": stage.graph}})
        for again in self.recompilations:
            why = "; ".join(f"{failure.text}: {failure.before} -> {failure.now}" for failure in again.failures)
            events.append({"name": f"recompile {again.function}", "cat": "recompile", "ph": "i", "s": "g", "pid": 1,
                           "tid": 0, "ts": 1e6 * again.began, "args": {"why": why}})
        return {"traceEvents": events, "displayTimeUnit": "ms"}
