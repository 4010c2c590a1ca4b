"""`explain`, `capture_graph`, `compile_times` and `CompileProfiler`: what the compiler did and why."""

from __future__ import annotations

import collections
import html
import linecache
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..capture.assertions import ASSUMED, assumptions_of
from ..capture.entries import BreakReason
from ..errors import GraphBreakError, UserCodeError, format_user_stack
from ..events import Events
from ..runtime.outside import COUNT, outside
from ..stage_times import TIMES, table
from ..torch_compat.operator_records import PLAIN, recorded_operators
from ..waiting import STILL_PLAIN


@dataclass(frozen=True)
class PlainCallee:
    """A function that ran uncompiled between graphs, and how many operators it called."""

    name: str
    reason: str
    operators: int

    def __str__(self) -> str:
        return f"{self.name}, {_count(self.operators, 'operator')}: {self.reason}"


@dataclass
class Explanation:
    """Result of `explain`: the graphs of one call, where they end and why. Print it, or show it in a notebook."""

    graphs: list[torch.fx.GraphModule]
    break_reasons: list[BreakReason]
    guards: list[Any]
    ops_per_graph: list[list[Any]]
    compile_times: list[tuple[str, float]]
    skipped: list[tuple[str, str]] = field(default_factory=list)
    result: Any = None
    operators_inside: int = 0
    """How many operators of the call ran in graphs, each as often as it ran."""
    operators_outside: int = 0
    """How many ran beside them; those by which Python reads a number are not counted."""
    plain: list[PlainCallee] = field(default_factory=list)
    """What ran as plain Python."""
    assumptions: list[str] = field(default_factory=list)
    """What graphs assert of data: branches that are taken to go the way that they went, and the like."""

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        """Places where a graph ends early, each counted once however often it was passed."""
        return len(self.break_reasons)

    @property
    def op_count(self) -> int:
        return sum(len(ops) for ops in self.ops_per_graph)

    @property
    def share_inside(self) -> float:
        """The share of the call's operators that ran in graphs; 1 if there were none."""
        total = self.operators_inside + self.operators_outside
        return self.operators_inside / total if total else 1.0

    @property
    def out_guards(self) -> list[Any]:
        """Another name of `guards`."""
        return self.guards

    def summary(self) -> str:
        """One line, as the tutorials print it."""
        return (f"firesteel produced {_count(self.graph_count, 'graph')} with "
                f"{_count(self.graph_break_count, 'graph break')} and {_count(self.op_count, 'op')}")

    def _share(self) -> str:
        total = self.operators_inside + self.operators_outside
        if not total:
            return "No operator ran"
        return f"{self.share_inside:.0%} of {_count(total, 'operator')} ran inside of graphs"

    def __str__(self) -> str:
        lines = [self.summary()]
        if self.break_reasons:
            lines.append("Break reasons:")
            for number, reason in enumerate(self.break_reasons, 1):
                lines.append(f"{number}. {reason.reason}")
                lines.append(format_user_stack(reason.frames, "     "))
                if reason.hint:
                    lines.append(f"   What to do: {reason.hint}")
        lines.extend(f"Assumed of data: {assumption}" for assumption in self.assumptions)
        if self.assumptions:
            lines.append(f"   {ASSUMED_WHY}")
        lines.append(self._share())
        for name, why in self.skipped:
            lines.append(f"Not compiled: {name}: {why}")
        lines.extend(f"Ran as plain Python: {callee}" for callee in self.plain)
        if self.compile_times:
            width = max(len(name) for name, _ in self.compile_times)
            lines.append("Compile times:")
            lines.extend(f"  {name:<{width}}  {seconds * 1e3:8.2f} ms" for name, seconds in self.compile_times)
        lines.append(f"{_count(len(self.guards), 'guard')}, in .guards")
        return "\n".join(lines)

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        parts: list[Any] = [Text(self.summary(), style="bold")]
        if self.break_reasons:
            table = Table("", "why the graph ends", "where", "what to do", title="graph breaks", title_justify="left",
                          show_lines=True)
            for number, reason in enumerate(self.break_reasons, 1):
                where = Text(_places(reason), overflow="fold")
                table.add_row(str(number), Text(reason.reason, overflow="fold"), where,
                              Text(reason.hint, overflow="fold"))
            parts.append(table)
        if self.assumptions:
            parts.append(Text("\n".join([*(f"assumed of data: {text}" for text in self.assumptions), ASSUMED_WHY])))
        parts.append(Text(self._share()))
        parts.extend(Text(f"not compiled: {name}: {why}") for name, why in self.skipped)
        parts.extend(Text(f"ran as plain Python: {callee}") for callee in self.plain)
        if self.compile_times:
            times = Table("compiled", "ms", title="compile times", title_justify="left")
            for name, seconds in self.compile_times:
                times.add_row(Text(name, overflow="fold"), Text(f"{seconds * 1e3:.2f}", justify="right"))
            parts.append(times)
        parts.append(Text(f"{_count(len(self.guards), 'guard')}, in .guards", style="dim"))
        return Group(*parts)

    def _repr_html_(self) -> str:
        """For notebooks."""
        def table(title: str, heads: list[str], rows: list[list[str]]) -> str:
            if not rows:
                return ""
            head = "".join(f"<th>{html.escape(text)}</th>" for text in heads)
            cell = "<td style='text-align:left'><pre style='white-space:pre-wrap'>{}</pre></td>"
            body = "".join("<tr>" + "".join(cell.format(html.escape(text)) for text in row) + "</tr>" for row in rows)
            return f"<p>{html.escape(title)}</p><table><tr>{head}</tr>{body}</table>"

        guards = table("", ["guard"], [["\n".join(str(guard) for guard in self.guards)]] if self.guards else [])
        breaks = [[str(n), r.reason, _places(r), r.hint] for n, r in enumerate(self.break_reasons, 1)]
        return "".join([
            f"<p><b>{html.escape(self.summary())}</b></p>",
            f"<p>{html.escape(self._share())}</p>",
            table("graph breaks", ["", "why the graph ends", "where", "what to do"], breaks),
            table("assumed of data", [ASSUMED_WHY], [[text] for text in self.assumptions]),
            table("not compiled", ["function", "why"], [[name, why] for name, why in self.skipped]),
            table("ran as plain Python", ["function", "why", "operators"],
                  [[callee.name, callee.reason, str(callee.operators)] for callee in self.plain]),
            table("compile times", ["compiled", "ms"], [[name, f"{s * 1e3:.2f}"] for name, s in self.compile_times]),
            f"<details><summary>{_count(len(self.guards), 'guard')}</summary>{guards}</details>" if guards else "",
        ])


ASSUMED_WHY = ("checked in every call; one in which it is not so runs as plain Python, and after the second of these "
               "the graph ends there (config.assume_branches)")


def _count(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")


def _places(reason: BreakReason) -> str:
    """Where a graph ends, innermost first, with the source line."""
    lines = []
    for frame in reversed(reason.frames):
        lines.append(f"{frame.filename}:{frame.lineno} in {frame.function}")
        if not lines[1:] and frame.source:
            lines.append(f"  {frame.source}")
    return "\n".join(lines)


def distinct(reasons: list[BreakReason]) -> list[BreakReason]:
    """Each place once: a break inside a callee ends the caller's graph too, and a loop can pass it many times. A loop
    that has ended a graph goes on from round to round, which is no other place."""
    kept: list[BreakReason] = []
    for reason in reasons:
        count = len(reason.frames)
        text = _without_numbers(reason)
        if not any(_without_numbers(other) == text and other.frames[len(other.frames) - count:] == reason.frames
                   for other in kept if len(other.frames) >= count) and not _is_own(reason):
            kept.append(reason)
    causes = [reason for reason in kept if not reason.reason.startswith(NEXT_ROUND)]
    return [reason for reason in kept if not (reason.reason.startswith(NEXT_ROUND) and any(
        _is_next_round_after(cause, reason) for cause in causes))]


def _is_next_round_after(cause: BreakReason, following: BreakReason) -> bool:
    """Whether a loop goes on from round to round because a graph has ended in it."""
    head = following.frames[-1]
    return cause.frames[-1:] == following.frames[-1:] or OVER_KNOWN.match(following.reason) is not None and any(
        frame.filename == head.filename and frame.function == head.function and frame.lineno >= head.lineno
        for frame in cause.frames)


NEXT_ROUND = "next() on "
OVER_KNOWN = re.compile(r"next\(\) on (range|list|tuple|str|set|dict_key|dict_item|dict_value)_\w*iterator ")
"""Loops over these are captured, unless they have begun before the graph does."""
OWN_CODE = os.path.join("firesteel", "capture", "equivalents")


def _without_numbers(reason: BreakReason) -> str:
    return re.sub(r"\d+", "", reason.reason)


def _is_own(reason: BreakReason) -> bool:
    """Whether it is about functions of ours that stand for ones written in C: where the program calls them, the graph
    ends as well."""
    return bool(reason.frames) and OWN_CODE in reason.frames[0].filename


def explain(fn: Any, *extra: Any, backend: Any = "eager", dynamic: bool | None = None, mode: str | None = None,
            options: dict[str, Any] | None = None, dynamic_shapes: Any = None) -> Callable[..., Explanation]:
    """``explain(f)(*args)`` runs `f` once under a fresh compiler and tells what was captured, broken and guarded.

    The other arguments are those of `compile`.

    >>> import torch
    >>> def f(x):
    ...     return torch.sin(x) + 1
    >>> explain(f)(torch.ones(2)).graph_count
    1
    """
    if extra:
        raise UserCodeError("explain takes the function only", "write explain(f)(*args)")

    from ..compiled_functions import why_uncompiled
    from ..compiling import check_arguments

    check_arguments(False, dynamic, mode, options)

    def run(*args: Any, **kwargs: Any) -> Explanation:
        events = Events()
        compiled = _compile_for(events, fn, backend, dynamic=dynamic, mode=mode, options=options,
                                dynamic_shapes=dynamic_shapes)
        before = COUNT.inside
        with recorded_operators() as record:
            result = compiled(*args, **kwargs)
        beside = outside(record)
        skipped = [(unit.name, why) for unit, why in events.skipped]
        reason = why_uncompiled(fn)
        if reason is not None:
            skipped.append((getattr(fn, "__name__", type(fn).__name__), reason))
        return Explanation(
            [captured.module for captured in events.graphs],
            distinct(events.break_reasons),
            [guard for _, entry in events.entries for guard in (*entry.guards, *entry.shape_guards)],
            [_operations(captured.module) for captured in events.graphs],
            [(unit.name, entry.seconds) for unit, entry in events.entries],
            skipped, result, COUNT.inside - before, len(beside), _plain_callees(events, beside),
            list(dict.fromkeys(_assumption(text, place) for captured in events.graphs
                               for text, place in assumptions_of(captured).items())))

    return run


def _assumption(text: str, place: str) -> str:
    """What a graph asserts, by the line of the program that asks."""
    words = text.removeprefix(ASSUMED).removesuffix(f" ({place})")
    match = re.match(r"(.*):(\d+) in ", place)
    line = linecache.getline(match[1], int(match[2])).strip() if match else ""
    flag = re.fullmatch(r"(not )?[\w.]+\.item\(\)", words)  # what is before the item has a name in the graph only
    answer = words if flag is None else "it is false" if flag[1] else "it is true"
    return f"{answer}: {line} ({place})" if line else f"{words} ({place})"


def _plain_callees(events: Events, beside: list[tuple[str, tuple[str, ...]]]) -> list[PlainCallee]:
    """What ran as plain Python, with the operators that it called: functions of libraries that called none are not
    worth a line."""
    counts = collections.Counter(next((above for above in ranges if above.startswith(PLAIN)), "")
                                 for _, ranges in beside)
    skipped = {unit.name for unit, _ in events.skipped}
    return [PlainCallee(name, why, counts[PLAIN + name]) for name, why in events.plain.items()
            if counts[PLAIN + name] or name in skipped]


def _compile_for(events: Events, fn: Any, backend: Any, **given: Any) -> Any:
    """`fn` under a compiler of its own that reports to `events`."""
    from ..compiled_functions import compile_with
    from ..runtime.compiler import Compiler

    return compile_with(Compiler(backend, events=events, **given), fn)


def _operations(module: torch.fx.GraphModule) -> list[Any]:
    import operator

    return [node.target for node in module.graph.nodes
            if node.op in ("call_function", "call_method", "call_module") and node.target is not operator.getitem]


@dataclass(frozen=True)
class GraphAndGuards:
    """Result of `capture_graph`: one torch-level graph and what it relies on."""

    graph_module: torch.fx.GraphModule
    guards: list[Any]

    def __iter__(self) -> Any:
        return iter((self.graph_module, self.guards))

    def __getitem__(self, position: int) -> Any:
        return (self.graph_module, self.guards)[position]


class NotOneGraphError(GraphBreakError):
    """Raised by `capture_graph`: something cannot be part of the graph."""

    headline = "This program cannot be captured in one graph."
    default_hint = "Take this step out of the function; fs.explain shows the graphs around it."


def capture_graph(fn: Any) -> Callable[..., GraphAndGuards]:
    """``capture_graph(f)(*args)``: the whole of `f` as one torch-level graph with its guards, or a `GraphBreakError`.

    >>> import torch
    >>> graph, guards = capture_graph(lambda x: torch.sin(x) + 1)(torch.ones(2))
    >>> [node.name for node in graph.graph.nodes]
    ['x', 'sin', 'add', 'output']
    """
    def run(*args: Any, **kwargs: Any) -> GraphAndGuards:
        events = Events()
        try:
            _compile_for(events, fn, "eager", fullgraph=True)(*args, **kwargs)
        except GraphBreakError as error:
            hint = None if error.hint == GraphBreakError.default_hint else error.hint
            raise NotOneGraphError(error.reason, hint, error.frames) from error.__cause__
        if len(events.graphs) != 1:
            raise NotOneGraphError(f"the program has {_count(len(events.graphs), 'graph')}",
                                  "capture_graph is for functions with tensor operations that return a result")
        guards = [guard for _, entry in events.entries for guard in (*entry.guards, *entry.shape_guards)]
        return GraphAndGuards(events.graphs[0].module, guards)

    return run


def compile_times() -> str:
    """All compilations of this process and how long each took, backward passes too, and the time of each stage.

    >>> import torch, firesteel as fs
    >>> fs.reset()
    >>> _ = fs.compile(lambda x: x + 1, tier="wait")(torch.ones(2))
    >>> print(fs.compile_times().splitlines()[0])
    compiled                                     runs (s)
    """
    if not TIMES:
        waiting = sum(1 for state in STILL_PLAIN if state.calls)
        return "nothing was compiled yet" + (
            f": {waiting} of what was called run{'s' * (waiting == 1)} as plain Python until compiling pays, or is "
            'compiled in its first call with tier="wait" (docs/first_calls.md)' if waiting else "")
    return table()


class CompileProfiler:
    """A backend that counts graphs, operations and the reasons of recompilations.

    >>> import torch, firesteel as fs
    >>> with CompileProfiler() as prof:
    ...     f = fs.compile(lambda x: x + 1, backend=prof)
    ...     _ = f(torch.ones(2))
    >>> prof.frame_count
    1
    """

    def __init__(self) -> None:
        self.frame_count = 0
        self.op_count = 0
        self.recompilations: list[tuple[str, str]] = []
        self.uncompiled: list[tuple[str, str]] = []
        """Calls of functions at their limit, each of which would have been one more recompilation."""
        self.breaks: list[BreakReason] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += len(_operations(gm))
        return gm.forward

    def _listen(self, kind: str, unit: Any, what: Any) -> None:
        if unit.compiler.backend is not self:
            return
        if kind == "recompiled":
            self.recompilations.append((str(unit.user_frame), what))
        elif kind == "beyond limit":
            self.uncompiled.append((str(unit.user_frame), what))
        elif kind == "compiled" and what.break_reason is not None:
            self.breaks.append(what.break_reason)

    def __enter__(self) -> CompileProfiler:
        from ..events import LISTENERS

        LISTENERS.append(self._listen)
        return self

    def __exit__(self, *exc: object) -> None:
        from ..events import LISTENERS

        LISTENERS.remove(self._listen)

    def report(self) -> str:
        """What was compiled and what was compiled again, with reasons."""
        lines = [f"{self.frame_count} graphs, {self.op_count} operations"]
        lines.append("no recompilation" if not self.recompilations else "recompilations:")
        lines.extend(f"  {where}: {why}" for where, why in self.recompilations)
        if self.uncompiled:
            lines.append(f"{_count(len(self.uncompiled), 'call')} ran uncompiled, beyond the limit of recompilations:")
            lines.extend(f"  {where}: {why}" for where, why in self.uncompiled)
        if self.breaks:
            lines.append("graph breaks:")
            lines.extend(f"  {reason}" for reason in self.breaks)
        return "\n".join(lines)
