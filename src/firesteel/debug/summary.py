"""A record in a few lines of text, for terminals."""

from __future__ import annotations

from .record import FailedGuardRecord, Place, Record
from .report import percent, short_path, time_text

MOST = 10
"""Lines about each subject."""


def summary(record: Record) -> str:
    """What was recorded, the most telling first."""
    kernels = [kernel for _, _, kernel in record.kernels()]
    calls = sum(kernel.is_call for kernel in kernels)
    total = record.inside + record.outside
    lines = [
        f"{_count(len(record.graphs), 'graph')}, {_count(len(record.breaks), 'break')}, "
        f"{_count(len(record.recompilations), 'recompilation')}, {_count(len(kernels) - calls, 'kernel')}, "
        f"{_count(calls, 'call')} of ATen; compiling took {time_text(record.compiling)}"]
    if total:
        lines.append(f"{percent(record.inside / total)} of {_count(total, 'operator')} inside of graphs")
    lines += _listed("Breaks", [
        f"{_where(one.place)}: {one.reason}" + (f"\n    What to do: {one.advice}" if one.advice else "")
        for one in record.breaks])
    lines += _listed("Recompilations", [
        f"{_where(one.place)}: {one.function}" + (
            f": {one.failures[-1].text}{_values(one.failures[-1])}" if one.failures else "")
        for one in record.recompilations])
    lines += _listed("Ran as plain Python", [f"{one.name} ({_where(one.place)}): {one.reason}" for one in record.plain])
    lines += _listed("Not compiled to machine code", [
        f"graph {graph.number} ({_where(graph.place)}): {graph.not_compiled}"
        for graph in record.graphs if graph.not_compiled] + [
        f"a part of graph {graph.number} ({_where(graph.place)}): {reason}"
        for graph in record.graphs for reason in graph.parts_not_compiled])
    lines += _stages(record)
    if record.caches:
        lines.append("Caches: " + ", ".join(f"{name} {hits} of {hits + misses}"
                                            for name, (hits, misses) in record.caches.items()))
    return "\n".join(lines)


def _values(failure: FailedGuardRecord) -> str:
    known = [f"{word} {value}" for word, value in (("was", failure.before), ("is", failure.now)) if value]
    return f" ({', '.join(known)})" if known else ""


def _stages(record: Record) -> list[str]:
    totals = [total for total in record.totals.values() if total.kind == "stage"]
    if not totals:
        return []
    ordered = sorted(totals, key=lambda total: -total.seconds)[:MOST]
    return ["Stages: " + ", ".join(f"{total.name} {time_text(total.seconds)}" for total in ordered)]


def _listed(title: str, items: list[str]) -> list[str]:
    if not items:
        return []
    more = [f"  and {len(items) - MOST} more"] if len(items) > MOST else []
    return [f"{title}:", *(f"  {item}" for item in items[:MOST]), *more]


def _where(place: Place | None) -> str:
    return "?" if place is None else f"{short_path(place.file)}:{place.line}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
