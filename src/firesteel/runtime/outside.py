"""Which operators run outside of graphs: counted for `explain`, and once for each compile call whose graphs break.

A function that breaks, or that is not compiled at all, is watched in one of its first calls: its graphs say that they
run, torch says which operators were called beside them. Where these are more than half of all, there is a warning. Then
the watch is taken away, so that calls cost what they cost before; functions in one graph are never watched.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.profiler import record_function

from .. import torch_compat
from ..errors import format_report, warn
from ..events import note
from ..own_frames import passed_over
from ..torch_compat.operator_records import (
    COMPILING,
    GRAPH,
    PLAIN,
    OperatorRecord,
    is_recording,
    recorded_operators,
    stop_recording,
)
from .nesting import NESTING
from .retiring import CLOCK, broken_call

if TYPE_CHECKING:
    from .units import Unit

NOT_COUNTED = frozenset({
    "aten::_local_scalar_dense", "aten::item", "aten::is_nonzero", "aten::detach", "aten::clone", "aten::resolve_conj",
    "aten::resolve_neg", "aten::lift_fresh",
})
"""How Python reads numbers, and how changed tensors are kept until a graph has come to its end."""
FEW = 12
"""So many operators outside of graphs are no reason to warn."""
MOST_RUNS = 500
"""After so many graphs enough is known of a call: counting costs about as much as operators do."""
MOST_TRIES = 4
"""Calls in which something is compiled say nothing."""


class WatchedGraph:
    """A graph that says how many operators of it run, as long as somebody asks."""

    __slots__ = ("run", "operations", "place", "__weakref__")

    def __init__(self, run: Callable[..., Any], operations: int) -> None:
        self.run = run
        self.operations = operations
        self.place: tuple[dict[str, Any], str] | None = None
        """Where an entry has it."""

    @passed_over
    def __call__(self, *args: Any) -> Any:
        if not is_recording():
            return self.run(*args)
        if COUNT.record is not None:
            COUNT.runs += 1
            if COUNT.runs > MOST_RUNS:
                stop_recording(COUNT.record)
                return self.run(*args)
        COUNT.inside += self.operations
        with record_function(GRAPH):
            return self.run(*args)

    def let_go(self) -> None:
        """Take the watch away."""
        if self.place is not None:
            table, name = self.place
            table[name] = self.run


class _Count:
    inside = 0
    runs = 0
    record: OperatorRecord | None = None
    """A recording that is not to go on for long."""


COUNT = _Count()


def operations_of(module: torch.fx.GraphModule) -> int:
    """How many operators a graph has."""
    import operator

    return sum(node.op in ("call_function", "call_method", "call_module") and node.target is not operator.getitem
               for node in module.graph.nodes)


def outside(record: OperatorRecord) -> list[tuple[str, tuple[str, ...]]]:
    """The operators that ran in no graph and not for the compiler."""
    return [(name, ranges) for name, ranges in record.calls or ()
            if name not in NOT_COUNTED and GRAPH not in ranges and COMPILING not in ranges]


def count_outside(unit: Unit) -> None:
    """Count the operators of one of the next calls of a function that the user has compiled."""
    compiler = unit.compiler
    if compiler.watched or compiler.events is not None or compiler.fullgraph or unit.start.index or NESTING.depth:
        return
    compiler.watched = True
    call: Any = _WatchedCall(unit)

    @passed_over
    def watched(*args: Any) -> Any:
        unit.functions = tuple(function for function in unit.functions if function is not watched)
        return unit.resume_type(call, list(args))  # so that nobody holds the arguments meanwhile

    call.again = watched
    unit.functions = (watched, *unit.functions)


class _WatchedCall:
    """A call of a function whose operators are counted."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.tries = 0
        self.again: Callable[..., Any] | None = None

    @passed_over
    def resume(self, held: list[Any]) -> Any:
        unit = self.unit
        before, inside = CLOCK.disturbances, COUNT.inside
        args = tuple(held)
        held.clear()
        with recorded_operators() as record:
            COUNT.record, COUNT.runs = record, 0
            result = unit.call(args)
            del args
            if type(result) is unit.resume_type:
                broken_call(unit)
            while type(result) is unit.resume_type:
                following, held = result.unit, result.args
                del result
                result = following.resume(held)
        COUNT.record = None
        self.tries += 1
        says_all = CLOCK.disturbances == before and record.calls is not None
        if not says_all and self.tries < MOST_TRIES and self.again is not None:
            unit.functions = (self.again, *unit.functions)
            return result
        for graph in list(unit.compiler.watched_graphs):
            graph.let_go()
        unit.compiler.watched_graphs, unit.compiler.watches = weakref.WeakSet(), False
        if says_all:
            note("share", unit=unit, inside=COUNT.inside - inside, beside=outside(record))
            report(unit, COUNT.inside - inside, len(outside(record)), COUNT.runs > MOST_RUNS)
        return result


def report(unit: Unit, inside: int, beside: int, only_first: bool) -> None:
    """Warn where most of the work is not compiled; ``only_first``: in the part of the call that was looked at."""
    if beside <= FEW or beside <= inside:
        return
    why = unit.given_up or "the rest is called between graphs that break, or by functions that are not compiled"
    warn(format_report(
        f"firesteel: {beside} of {'the first ' * only_first}{inside + beside} operators of {unit.name} run outside of "
        "graphs.", [unit.user_frame],
        why, "firesteel.explain(function)(*arguments) lists the breaks, and what ran as plain Python and why",
    ))


class PlainCall:
    """A function that is called between two graphs and is not compiled, while somebody asks which these are."""

    def __init__(self, function: Any, name: str) -> None:
        self.function = function
        self.name = name

    def __str__(self) -> str:
        return str(self.function)

    @passed_over
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with record_function(PLAIN + self.name):
            return self.function(*args, **kwargs)


def noted_unit(unit: Unit, run: Callable[..., Any]) -> Callable[..., Any]:
    """What runs a unit uncompiled, while somebody asks which these are."""
    events = unit.compiler.events
    assert events is not None
    reason = unit.given_up or unit.why_not_compile()
    if reason is None:
        reason = "its graph raised" if torch_compat.current_checkpoint() is None \
            else "a checkpoint may run it again, and what it changes shows, or its graph raised"
    events.plain.setdefault(unit.name, reason)

    @passed_over
    def noted(args: list[Any]) -> Any:
        with record_function(PLAIN + unit.name):
            return run(args)

    return noted
