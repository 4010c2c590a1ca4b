"""Listens to compilations and writes down what they say: the observer behind `recording`."""

from __future__ import annotations

import linecache
import platform
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from .. import config
from ..capture.entries import BreakReason
from ..errors import GraphBreakError, UserFrame, is_own_file
from ..events import Observer, Span
from ..functional.graph import describe
from ..runtime.nested_calls import callee, why_plain
from ..runtime.outside import operations_of
from ..version import __version__
from .explain import distinct
from .kernel_records import KernelNotes
from .memory import of_process
from .record import (
    BreakRecord,
    Compilation,
    FailedGuardRecord,
    GraphRecord,
    GuardRecord,
    Place,
    PlainRecord,
    Program,
    Recompilation,
    Record,
    Share,
    Stage,
    StageTotal,
)

if TYPE_CHECKING:
    from ..capture.entries import Entry
    from ..runtime.explain_miss import FailedGuard
    from ..runtime.units import Unit

MOST_STAGES = 50_000
"""Stretches of time that are kept one by one; `Record.totals` has all."""
MOST_SAMPLES = 2_000
"""Of memory; of more, every other one goes."""
LONGEST_TEXT = 400_000
"""Characters of one graph in one stage that are kept."""
LONGEST_WAIT = 120.0
"""Seconds that the end of a recording waits for what is compiled in the background."""
ALTERNATIVE = "alternative"
"""What graphs are called that are compiled to be measured only."""


@dataclass
class _Open:
    """A span that has not ended."""

    span: Span
    compilation: Compilation | None
    graph: GraphRecord | None


class Recorder(Observer):
    """Collects a `Record`."""

    asks = True

    def __init__(self, measure: bool, passes: bool) -> None:
        self.began = 0.0
        self.record = Record()
        self.passes = passes
        self.kernels = KernelNotes(measure)
        self._lock = threading.RLock()
        self._open: dict[int, list[_Open]] = {}
        self._graphs: weakref.WeakKeyDictionary[Any, GraphRecord] = weakref.WeakKeyDictionary()
        self._parts: weakref.WeakSet[Any] = weakref.WeakSet()
        self._plain: dict[tuple[Any, str], PlainRecord | None] = {}
        self._breaks: list[tuple[BreakReason, int]] = []
        self._background: list[threading.Thread] = []
        self._whole: dict[Any, tuple[str, Place, int]] = {}
        self._broken: set[Any] = set()
        self._handlers: dict[str, Callable[..., None]] = {
            "captured": self._captured, "compiled": self._compiled, "failed guards": self._failed_guards,
            "skipped": self._skipped, "plain": self._ran_plain, "called": self._called,
            "functional graph": self._functional_graph, "joint graph": self._joint_graph,
            "pass": self._pass, "executable": self._executable, "operator by operator": self._operator_by_operator,
            "cache": self._cache, "share": self._share, "background": self._in_background,
        }

    def start(self) -> None:
        """Count seconds from now on."""
        self.began = time.perf_counter()
        self._sample()

    # What is told

    def note(self, kind: str, /, **what: Any) -> None:
        handler = self._handlers.get(kind)
        if handler is not None:
            self._guarded(handler, **what)

    def begin(self, span: Span) -> None:
        self._guarded(self._begin, span)

    def end(self, span: Span) -> None:
        self._guarded(self._end, span)

    def _guarded(self, handler: Callable[..., None], *args: Any, **what: Any) -> None:
        """A recording that fails is no reason for a compilation to fail."""
        with self._lock:
            try:
                handler(*args, **what)
            except Exception as error:
                if config.raise_on_internal_error:
                    raise
                self.record.problems.append(f"{getattr(handler, '__name__', handler)}: {type(error).__name__}: {error}")

    # Time

    def _begin(self, span: Span) -> None:
        stack = self._open.setdefault(span.thread, [])
        compilation = stack[-1].compilation if stack else None
        graph = stack[-1].graph if stack else None
        if span.kind == "compile":
            compilation = self._begin_compilation(span.what)
            graph = None
        if span.graph is not None:
            known = self._graphs.get(span.graph)
            if known is None and graph is not None:
                known = self._graphs[span.graph] = graph  # a part of it, which may have a backward of its own later
                self._parts.add(span.graph)
            graph = known
        stack.append(_Open(span, compilation, graph))

    def _begin_compilation(self, unit: Unit) -> Compilation:
        compilation = Compilation(len(self.record.compilations), unit.name, place_of(unit.user_frame), self._now(),
                                  is_again=bool(unit.entries))
        self.record.compilations.append(compilation)
        return compilation

    def _end(self, span: Span) -> None:
        stack = self._open.get(span.thread, [])
        if not any(entry.span is span for entry in stack):
            return
        while True:
            entry = stack.pop()
            if entry.span is span:
                break
        seconds = span.ended - span.began
        if span.kind == "compile" and entry.compilation is not None:
            entry.compilation.seconds = seconds
            self._refused(entry.compilation, sys.exc_info()[1])
            if entry.graph is None and entry.compilation.graph is not None:
                entry.graph = self.record.graphs[entry.compilation.graph]
        if span.kind in ("compile", "graph"):
            self._sample()
        total = self.record.totals.setdefault(f"{span.kind} {span.name}", StageTotal(span.name, span.kind))
        total.runs += 1
        total.seconds += seconds
        if not stack:
            self.record.compiling += seconds
        if len(self.record.stages) < MOST_STAGES:
            self.record.stages.append(Stage(
                span.name, span.kind, span.began - self.began, seconds, len(stack), span.thread,
                entry.compilation.number if entry.compilation is not None else None,
                entry.graph.number if entry.graph is not None else None))

    def _sample(self) -> None:
        """Note how much memory there is in use now."""
        samples = self.record.memory
        if len(samples) >= MOST_SAMPLES:
            del samples[1::2]
        samples.append((self._now(), *of_process()))

    def _now(self) -> float:
        return time.perf_counter() - self.began

    def _current(self) -> _Open | None:
        stack = self._open.get(threading.get_ident())
        return stack[-1] if stack else None

    # Capture

    def _captured(self, unit: Unit, captured: Any) -> None:
        module = captured.module
        frames = [node.meta.get("user_frames", ()) for node in module.graph.nodes]
        graph = GraphRecord(len(self.record.graphs), type(module).__name__, place_of(unit.user_frame),
                            operations_of(module), {"captured": shortened(captured_text(module))},
                            list(dict.fromkeys(place for some in frames for place in own_places(some))))
        self.record.graphs.append(graph)
        self._graphs[module] = graph
        current = self._current()
        if current is not None and current.compilation is not None:
            current.compilation.graph = graph.number

    def _compiled(self, unit: Unit, what: Entry) -> None:
        current = self._current()
        compilation = current.compilation if current is not None else None
        if compilation is None:
            return
        entry = what
        compilation.guards = [GuardRecord(guard.describe(), innermost(guard.frames)) for guard in entry.guards]
        compilation.guards += [GuardRecord(str(guard.expr), innermost(guard.provenance.frames))
                               for guard in entry.shape_guards]
        if entry.break_reason is not None:
            self._breaks.append((entry.break_reason, compilation.number))
            self._broken.add(unit.origin.code)
        if unit.start.index == 0 and entry.graph is not None:
            self._whole[unit.code] = (unit.name, place_of(unit.user_frame), operations_of(entry.graph.module))

    def _refused(self, compilation: Compilation, error: BaseException | None) -> None:
        """A function whose graph must be whole, and is not."""
        if isinstance(error, GraphBreakError):
            compilation.result = "fullgraph=True, and the graph would break"
            self._breaks.append((BreakReason(error.reason, error.hint or "", error.frames), compilation.number))

    def _failed_guards(self, unit: Unit, failures: Sequence[FailedGuard]) -> None:
        records = tuple([FailedGuardRecord(failure.text, failure.before, failure.now, innermost(failure.frames))
                         for failure in failures])
        places = [record.place for record in records if record.place is not None]
        current = self._current()
        compilation = current.compilation.number if current is not None and current.compilation is not None else None
        self.record.recompilations.append(Recompilation(
            unit.name, self._now(), places[-1] if places else place_of(unit.user_frame), records, compilation))

    # What was not compiled

    def _skipped(self, unit: Unit, what: str) -> None:
        current = self._current()
        if current is not None and current.compilation is not None:
            current.compilation.result = what
        self._plain_record(unit.code, unit.name, place_of(unit.user_frame), what, 0)
        self._broken.add(unit.origin.code)

    def _ran_plain(self, unit: Unit, reason: str) -> None:
        self._plain_record(unit.code, unit.name, place_of(unit.user_frame), reason, 1)

    def _plain_record(self, key: Any, name: str, place: Place | None, reason: str, calls: int) -> None:
        known = self._plain.get((key, reason))
        if known is None:
            known = self._plain[(key, reason)] = PlainRecord(name, place, reason, 0)
            self.record.plain.append(known)
        known.calls += calls

    def _called(self, target: Any, compiler: Any) -> None:
        function = getattr(target, "__func__", target)
        if type(function) is types.FunctionType and is_own_file(function.__code__.co_filename):
            function = getattr(function, "__wrapped__", function)  # what marks put around it
        if type(function) is not types.FunctionType:
            return
        key = (function.__code__, "called")
        if key not in self._plain:
            self._plain[key] = None
            chosen = getattr(callee(compiler, target), "__func__", None) or callee(compiler, target)
            if chosen is getattr(target, "__func__", target) and not is_own_file(function.__code__.co_filename):
                code = function.__code__
                record = PlainRecord(function.__qualname__, Place(code.co_filename, code.co_firstlineno, code.co_name),
                                     why_plain(target), 0)
                self._plain[key] = record
                self.record.plain.append(record)
        known = self._plain[key]
        if known is not None:
            known.calls += 1

    def _operator_by_operator(self, graph: Any, reason: str) -> None:
        known = self._graphs.get(graph)
        if known is not None and graph not in self._parts:
            known.not_compiled = reason
        elif known is not None and reason not in known.parts_not_compiled:
            known.parts_not_compiled.append(reason)

    def _share(self, unit: Unit, inside: int, beside: Sequence[tuple[str, Any]]) -> None:
        names: dict[str, int] = {}
        for name, _ in beside:
            names[name] = names.get(name, 0) + 1
        self.record.shares = [share for share in self.record.shares if share.place != place_of(unit.user_frame)]
        self.record.shares.append(Share(unit.name, place_of(unit.user_frame), inside, len(beside), names, True))

    # Stages

    def _joint_graph(self, joint: Any) -> None:
        current = self._current()
        if current is not None and current.graph is not None:
            texts = current.graph.texts
            number = sum(stage.startswith("differentiated") for stage in texts)
            texts[f"differentiated {number + 1}" if number else "differentiated"] = shortened(str(joint))

    def _functional_graph(self, functional: Any, name: str) -> None:
        current = self._current()
        if current is not None and current.graph is not None and name != ALTERNATIVE:
            program = Program(name, {"functional": shortened(str(functional))})
            current.graph.programs.append(program)

    def _pass(self, name: str, functional: Any) -> None:
        current = self._current()
        if not self.passes or current is None or current.graph is None or not current.graph.programs:
            return
        texts = current.graph.programs[-1].texts
        text = shortened(str(functional))
        if text != next(reversed(texts.values())):
            texts[f"after {name}"] = text

    def _executable(self, executable: Any, kernels: Any, generated: Any, name: str, target: Any) -> None:
        current = self._current()
        if current is None or current.graph is None or name == ALTERNATIVE:
            return
        program = next((one for one in reversed(current.graph.programs) if one.name == name), None)
        if program is None:
            return
        after = shortened(str(executable.functional))
        if after != next(reversed(program.texts.values())):
            program.texts["after passes"] = after
        program.texts["loops"] = shortened(str(executable.lowered))
        program.texts["plan"] = shortened(str(executable.plan))
        program.texts["host program"] = shortened(executable.host.source)
        program.passes = [(run.name, run.seconds, run.nodes) for run in executable.passes]
        self.kernels.of_program(program, executable, kernels, target)

    def _cache(self, name: str, hit: bool) -> None:
        counts = self.record.caches.setdefault(name, [0, 0])
        counts[not hit] += 1

    def _in_background(self, thread: threading.Thread) -> None:
        self._background.append(thread)

    # The end

    def wait(self) -> None:
        """Until nothing is compiled in the background any more, within reason."""
        end = time.perf_counter() + LONGEST_WAIT
        for thread in self._background:
            if thread is not threading.current_thread():
                thread.join(max(0.0, end - time.perf_counter()))

    def finish(self) -> Record:
        """What has been recorded so far."""
        with self._lock:
            record = self.record
            record.seconds = self._now()
            self._sample()
            record.versions = {"firesteel": __version__, "torch": torch.__version__,
                               "Python": platform.python_version(),
                               "platform": f"{platform.system()} {platform.machine()}"}
            kept = distinct([reason for reason, _ in self._breaks])
            record.breaks = [BreakRecord(reason.reason, reason.hint, places_of(reason.frames), number)
                             for reason, number in self._breaks if any(reason is one for one in kept)]
            shares = [share for share in record.shares if share.measured]
            counted = {share.place for share in shares}
            record.shares = shares + [Share(name, place, operators, 0, {}, False)
                                      for code, (name, place, operators) in self._whole.items()
                                      if code not in self._broken and place not in counted]
            self.kernels.finish()
            record.sources = _sources(record)
            return record


# ---------------------------------------------------------------------------------------------------------------------
# places


def place_of(frame: UserFrame) -> Place:
    """A place of the program."""
    return Place(frame.filename, frame.lineno, frame.function)


def places_of(frames: Iterable[UserFrame]) -> tuple[Place, ...]:
    """Places of the program, outermost call first."""
    return tuple([place_of(frame) for frame in frames])


def own_places(frames: Sequence[UserFrame]) -> list[Place]:
    """The lines that are not torch's or firesteel's."""
    return [place_of(frame) for frame in frames if not frame.in_torch and not is_own_file(frame.filename)]


def innermost(frames: Sequence[UserFrame]) -> Place | None:
    """The last line of the program's own, or where there is none the last of all."""
    own = own_places(frames)
    return own[-1] if own else place_of(frames[-1]) if frames else None


def _sources(record: Record) -> dict[str, list[str]]:
    """The text of all files that something is said about."""
    places: list[Place | None] = [place for graph in record.graphs for place in graph.places]
    said: tuple[Any, ...] = (*record.compilations, *record.breaks, *record.recompilations, *record.plain)
    places += [one.place for one in said]
    places += [place for one in record.breaks for place in one.places]
    places += [guard.place for compilation in record.compilations for guard in compilation.guards]
    files = dict.fromkeys(place.file for place in places if place is not None)
    texts = {file: [line.rstrip("\n") for line in linecache.getlines(file)] for file in files}
    return {file: lines for file, lines in texts.items() if lines}


# ---------------------------------------------------------------------------------------------------------------------
# text


def shortened(text: str) -> str:
    """A text, with a note in place of what is too much."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n... {len(text) - LONGEST_TEXT:,} more characters are not kept"


def captured_text(module: torch.fx.GraphModule, indent: str = "") -> str:
    """A captured graph, an operation a line with the user's line behind it. (Its Python code takes longer to write.)"""
    lines = []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            lines.append(f"{indent}input {node.name}: {_value(node.meta.get('example_value'))}")
        elif node.op == "output":
            lines.append(f"{indent}return {node.args[0]}")
        else:
            target = node.target if isinstance(node.target, str) else _name(node.target)
            given = [str(arg) for arg in node.args] + [f"{name}={value}" for name, value in node.kwargs.items()]
            text = f"{given[0]}.{target}({', '.join(given[1:])})" if node.op == "call_method" else \
                str(target) if node.op == "get_attr" else f"{target}({', '.join(given)})"
            place = innermost(node.meta.get("user_frames", ()))
            where = f"    # {place.file.rpartition('/')[2]}:{place.line}" if place is not None else ""
            lines.append(f"{indent}{node.name}: {_value(node.meta.get('example_value'))} = {text}{where}")
    for name, part in module.named_children():
        if isinstance(part, torch.fx.GraphModule):
            lines.append(f"{indent}{name}:")
            lines.append(captured_text(part, indent + "    "))
    return "\n".join(lines)


def _name(target: Any) -> str:
    module = getattr(target, "__module__", None)
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or str(target)
    return f"{module}.{name}" if module and module.startswith("torch") and "firesteel" not in module else name


def _value(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        try:
            return describe(value)
        except RuntimeError:  # sparse and nested ones have no strides
            return str(value.dtype)
    return describe(value) if isinstance(value, (tuple, list, int, float)) else type(value).__name__
