"""`explain`, `capture_graph`, `compile_times` and `CompileProfiler`: what the compiler did and why."""

from __future__ import annotations

import collections
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..capture.capture import BreakReason
from ..capture.guards import Guard
from ..errors import GraphBreakError, UserCodeError
from .events import TIMES, Events


@dataclass
class Explanation:
    """Result of `explain`: the graphs of one call, where they end and why."""

    graphs: list[torch.fx.GraphModule]
    break_reasons: list[BreakReason]
    guards: list[Guard]
    ops_per_graph: list[list[Any]]
    compile_times: list[tuple[str, float]]
    skipped: list[tuple[str, str]] = field(default_factory=list)
    result: Any = None

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.break_reasons)

    @property
    def op_count(self) -> int:
        return sum(len(ops) for ops in self.ops_per_graph)

    @property
    def out_guards(self) -> list[Guard]:
        return self.guards

    def summary(self) -> str:
        """One line, as the tutorials print it."""
        def count(n: int, what: str) -> str:
            return f"{n} {what}" + ("" if n == 1 else "s")

        return (f"firesteel produced {count(self.graph_count, 'graph')} with "
                f"{count(self.graph_break_count, 'graph break')} and {count(self.op_count, 'op')}")

    def __str__(self) -> str:
        lines = [self.summary()]
        if self.break_reasons:
            lines.append("Break reasons:")
            for number, reason in enumerate(self.break_reasons, 1):
                lines.append(f"{number}. {reason.reason}")
                for frame in reason.frames:
                    lines.append(f'     File "{frame.filename}", line {frame.lineno}, in {frame.function}')
                    if frame.source:
                        lines.append(f"       {frame.source}")
                if reason.hint:
                    lines.append(f"   What to do: {reason.hint}")
        for name, why in self.skipped:
            lines.append(f"Not compiled: {name}: {why}")
        lines.append("Compile times:")
        lines.extend(f"  {name:<40} {seconds * 1e3:8.2f} ms" for name, seconds in self.compile_times)
        return "\n".join(lines)

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        parts: list[Any] = [Text(self.summary(), style="bold")]
        if self.break_reasons:
            table = Table("", "why the graph ends", "where", "what to do", title="graph breaks", title_justify="left")
            for number, reason in enumerate(self.break_reasons, 1):
                frame = reason.frames[-1] if reason.frames else None
                where = f"{frame.filename}:{frame.lineno}\n{frame.source}" if frame else ""
                table.add_row(str(number), reason.reason, where, reason.hint)
            parts.append(table)
        times = Table("compiled", "ms", title="compile times", title_justify="left")
        for name, seconds in self.compile_times:
            times.add_row(name, f"{seconds * 1e3:.2f}")
        parts.append(times)
        return Group(*parts)

    def _repr_html_(self) -> str:
        """For notebooks."""
        import html

        rows = "".join(
            f"<tr><td>{n}</td><td>{html.escape(r.reason)}</td><td>{html.escape(str(r.frames[-1]) if r.frames else '')}</td>"
            f"<td>{html.escape(r.hint)}</td></tr>" for n, r in enumerate(self.break_reasons, 1))
        table = f"<table><tr><th></th><th>why</th><th>where</th><th>what to do</th></tr>{rows}</table>" if rows else ""
        return f"<p><b>{html.escape(self.summary())}</b></p>{table}"


def explain(fn: Any, *extra: Any, **options: Any) -> Any:
    """``explain(f)(*args)`` runs `f` once under a fresh compiler and tells what was captured, broken and guarded.

    >>> import torch
    >>> def f(x):
    ...     return torch.sin(x) + 1
    >>> explain(f)(torch.ones(2)).graph_count
    1
    """
    if extra:
        raise UserCodeError("explain takes the function only", "write explain(f)(*args)")

    def run(*args: Any, **kwargs: Any) -> Explanation:
        from ..capture.markers import COMPILED
        from ..compile import compile_with
        from ..runtime.compiler import Compiler

        events = Events()
        compiler = Compiler(options.get("backend", "eager"), events=events)
        target = getattr(fn, COMPILED, fn)
        result = compile_with(compiler, target)(*args, **kwargs)
        return Explanation(
            [captured.module for captured in events.graphs],
            events.break_reasons,
            [guard for _, entry in events.entries for guard in (*entry.guards, *entry.shape_guards)],
            [_operations(captured.module) for captured in events.graphs],
            [(unit.name, entry.seconds) for unit, entry in events.entries],
            [(unit.name, why) for unit, why in events.skipped], result)

    return run


def _operations(module: torch.fx.GraphModule) -> list[Any]:
    import operator

    return [node.target for node in module.graph.nodes
            if node.op in ("call_function", "call_method", "call_module") and node.target is not operator.getitem]


@dataclass(frozen=True)
class GraphAndGuards:
    """Result of `capture_graph`: one torch-level graph and what it relies on."""

    graph_module: torch.fx.GraphModule
    guards: list[Guard]

    def __iter__(self) -> Any:
        return iter((self.graph_module, self.guards))

    def __getitem__(self, position: int) -> Any:
        return (self.graph_module, self.guards)[position]


def capture_graph(fn: Any, **options: Any) -> Callable[..., GraphAndGuards]:
    """``capture_graph(f)(*args)``: the whole of `f` as one torch-level graph with its guards, or a `GraphBreakError`.

    >>> import torch
    >>> graph, guards = capture_graph(lambda x: torch.sin(x) + 1)(torch.ones(2))
    >>> [node.name for node in graph.graph.nodes]
    ['x', 'sin', 'add', 'output']
    """
    def run(*args: Any, **kwargs: Any) -> GraphAndGuards:
        from ..capture.markers import COMPILED
        from ..compile import compile_with
        from ..runtime.compiler import Compiler

        events = Events()
        compiler = Compiler("eager", fullgraph=True, events=events)
        compile_with(compiler, getattr(fn, COMPILED, fn))(*args, **kwargs)
        if len(events.graphs) != 1:
            raise GraphBreakError(f"the program has {len(events.graphs)} graphs", "it does no tensor work, or raises")
        return GraphAndGuards(events.graphs[0].module, [g for _, e in events.entries for g in (*e.guards, *e.shape_guards)])

    return run


def compile_times() -> str:
    """A table of all compilations of this process and how long each took."""
    if not TIMES:
        return "nothing was compiled yet"
    totals: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    for entry in TIMES:
        totals[(entry.name, entry.where)].append(entry.seconds)
    lines = [f"{'compiled':<44} {'runs (s)'}"]
    lines.extend(f"{name:<44} {', '.join(f'{t:.4f}' for t in times)}    {where}" for (name, where), times in totals.items())
    return "\n".join(lines)


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
        self.breaks: list[BreakReason] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += len(_operations(gm))
        return gm.forward

    def _listen(self, kind: str, unit: Any, what: Any) -> None:
        if unit.options.backend is not self:
            return
        if kind == "recompiled":
            self.recompilations.append((str(unit.user_frame), what))
        elif kind == "compiled" and what.break_reason is not None:
            self.breaks.append(what.break_reason)

    def __enter__(self) -> CompileProfiler:
        from .events import LISTENERS

        LISTENERS.append(self._listen)
        return self

    def __exit__(self, *exc: object) -> None:
        from .events import LISTENERS

        LISTENERS.remove(self._listen)

    def report(self) -> str:
        """What was compiled and what was compiled again, with reasons."""
        lines = [f"{self.frame_count} graphs, {self.op_count} operations"]
        lines.append("no recompilation" if not self.recompilations else "recompilations:")
        lines.extend(f"  {where}: {why}" for where, why in self.recompilations)
        if self.breaks:
            lines.append("graph breaks:")
            lines.extend(f"  {reason}" for reason in self.breaks)
        return "\n".join(lines)
