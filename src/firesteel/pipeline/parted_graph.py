"""Functions of which parts are recorded, and the others run by themselves at every replay.

While it is recorded the function runs: a part is recorded and replayed at once, so that the next one, which may be left
out, finds its results. What a part that is left out gives to one that is recorded is copied to where that reads it. A
part that cannot be recorded after all is parted again, and in the end the operator that refuses is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..kernels.ir import Buffer
from ..kernels.plan import KernelPlan
from ..logs import log
from ..records import dataclass
from ..shapes import Const, Expr
from .recordable_parts import Name, PlanPart, halves, launch_cost, named, recordable_parts, results_part
from .recording import Stack, follow_stream, record, room_for

REPLAY = 14.0
"""What a replay costs, in microseconds."""
FAILURES = 32
"""How often recording may fail before what fails is left out as it is."""

Run = Callable[..., Sequence[Any]]
_Step = tuple[Any, Any, Sequence[Name], Sequence[Name]]
"""A graph; or a function, with what it takes and gives; or where something is copied to, in its place."""


class LeftOutFailed(Exception):
    """A call has raised that may have changed something already: what is not recorded, or for lack of memory."""


class PartedGraph:
    """One recording of such a function."""

    def __init__(self) -> None:
        self.taken: Sequence[tuple[Name, int]] = ()
        """Inputs, with their numbers, that parts which are not recorded or the results are made of."""
        self.steps: list[_Step] = []
        self.static: dict[Name, Any] = {}
        """What stays the same from replay to replay, as far as somebody asks for it."""
        self.results: Run | None = None
        """Makes the results that are others in every call, and all others too; None where there are none."""
        self.result_names: Sequence[Name] = ()
        self.live: Sequence[int] = ()
        """The results that are others in every call."""
        self.first: dict[int, Any] | None = None
        """Those of the call in which it was recorded."""

    def replay(self, inputs: Sequence[Any]) -> dict[int, Any]:
        """Run for these inputs; gives the results that are others in every call. The first time it has run already."""
        if self.first is not None:
            first, self.first = self.first, None
            return first
        values = self.static.copy()
        for name, at in self.taken:
            values[name] = inputs[at]
        for graph, function, takes, gives in self.steps:
            if graph is not None:
                graph.replay()
            elif isinstance(function, torch.Tensor):
                function.copy_(values[takes[0]])
            else:
                values.update(zip(gives, function(*[values[name] for name in takes]), strict=True))
        if self.results is None:
            return {}
        results = self.results(*[values[name] for name in self.result_names])
        return {at: results[at] for at in self.live}


@dataclass
class _Part:
    """A part, and the function that runs it, once there is one."""

    of_plan: PlanPart
    function: Run | None = None


@dataclass
class _Values:
    """The buffers and numbers of a call that is recorded."""

    here: dict[Name, Any]
    """As this call has them."""
    placed: dict[Name, Any]
    """As recorded parts read them: at places that stay."""
    others: set[Name]
    """Those that are others in every call."""


class PartedFunction:
    """The parts of a function, each a function of its own."""

    def __init__(self, plan: KernelPlan, device: torch.device, part_of: Callable[[KernelPlan], Run], name: str) -> None:
        """``part_of`` makes the function that runs a plan with the kernels of ``plan``."""
        self.plan, self.device, self.part_of, self.name = plan, device, part_of, name
        parts, self.held = recordable_parts(plan, device, REPLAY)
        self.parts = [_Part(part) for part in parts]
        self.ending = _Part(results_part(plan))
        self.inputs: list[Name] = [entry.name if isinstance(entry, Buffer) else entry for entry in plan.inputs]
        self.failures = 0

    def saved(self) -> float:
        """How many microseconds recording saves."""
        return sum(launch_cost(part.of_plan.plan.steps) - REPLAY for part in self.parts if part.of_plan.reason is None)

    def say(self) -> None:
        """Tell what is left out."""
        for part in self.parts:
            if part.of_plan.reason is not None:
                self._say(part.of_plan)

    def _say(self, part: PlanPart) -> None:
        count = len(part.plan.steps)
        log("fallbacks", "%s: %d steps are left out of its CUDA graphs: %s", self.name, count, part.reason)

    def function(self, part: _Part) -> Run:
        """What runs a part."""
        if part.function is None:
            part.function = self.part_of(part.of_plan.plan)
        return part.function

    def record(self, given: Sequence[Any], inputs: Sequence[Any], stack: Stack, products: bool,
               ) -> tuple[PartedGraph, list[Any]]:
        """Run and record. ``given`` are the inputs where the recording reads them, with the contents of ``inputs``.

        Gives the recording and the results that stay the same from call to call, None in the place of others.
        """
        follow_stream(self.device)
        graph = PartedGraph()
        always = self._numbers(inputs) | {buffer.name: _memory(buffer) for buffer in self.held}
        values = _Values(always | dict(zip(self.inputs, inputs, strict=True)), always | {
            entry.name if isinstance(entry, Buffer) else entry: part
            for entry, part in zip(self.plan.inputs, given, strict=True)
            if not isinstance(entry, Buffer) or entry.device == self.device}, set(self.inputs))
        try:
            at = 0
            while at < len(self.parts):
                part = self.parts[at]
                if part.of_plan.reason is not None:
                    self._run(part, graph, values)
                elif not self._record(at, graph, values, stack, products):
                    continue
                at += 1
            return graph, self._results(graph, values)
        except LeftOutFailed:
            raise
        except Exception as error:
            if graph.steps:
                raise LeftOutFailed from error
            raise
        finally:
            stack.open = False

    def _numbers(self, inputs: Sequence[Any]) -> dict[Name, Any]:
        """The numbers that the layouts of inputs tell."""
        known = dict(zip(self.inputs, inputs, strict=True))
        return {symbol: known[buffer].shape[dim] if kind == "size" else known[buffer].stride(dim)
                for symbol, (buffer, kind, dim) in self.plan.symbols.items() if buffer in known and symbol not in known}

    def _run(self, part: _Part, graph: PartedGraph, values: _Values) -> None:
        """A part that is left out."""
        function, takes, gives = self.function(part), part.of_plan.inputs, part.of_plan.results
        try:
            results = function(*[values.here[name] for name in takes])
        except Exception as error:
            raise LeftOutFailed from error
        graph.steps.append((None, function, takes, gives))
        values.here.update(zip(gives, results, strict=True))
        values.others.update(gives)

    def _record(self, at: int, graph: PartedGraph, values: _Values, stack: Stack, products: bool) -> bool:
        """Record a part and run it; False if others have come in its place."""
        part = self.parts[at]
        for name in part.of_plan.inputs:
            if name not in values.placed:
                target = values.placed[name] = room_for(values.here[name]).copy_(values.here[name])
                graph.steps.append((None, target, [name], ()))
        try:
            recorded, results = record(self.function(part), [values.placed[name] for name in part.of_plan.inputs],
                                       self.device, stack, products)
        except Exception as error:
            self.failures += 1
            smaller = halves(self.plan, part.of_plan) if self.failures < FAILURES else []
            if not smaller:
                smaller = [replace(part.of_plan, reason=f"{type(error).__name__}: {error}")]
                self._say(smaller[0])
            self.parts[at: at + 1] = [_Part(each) for each in smaller]
            return False
        stack.open = True
        recorded.replay()
        graph.steps.append((recorded, None, (), ()))
        for name, result in zip(part.of_plan.results, results, strict=True):
            values.here[name] = values.placed[name] = result
        return True

    def _results(self, graph: PartedGraph, values: _Values) -> list[Any]:
        """The results, and for later replays what they and the parts that are left out need."""
        ending = self.ending.of_plan
        needed = {name for part in self.parts if part.of_plan.reason is not None for name in part.of_plan.inputs}
        needed.update(ending.inputs)
        graph.taken = [(name, at) for at, name in enumerate(self.inputs) if name in needed]
        graph.static = {name: value for name, value in values.here.items()
                        if name in needed and name not in values.others}
        function = self.function(self.ending)
        results = list(function(*[values.here[name] for name in ending.inputs]))
        others = values.others | self.plan.constants.keys()
        graph.live = [at for at, output in enumerate(ending.plan.outputs) if not others.isdisjoint(named(output))]
        graph.first = {at: results[at] for at in graph.live}
        if graph.live:
            graph.results, graph.result_names = function, ending.inputs
        return [None if at in graph.first else result for at, result in enumerate(results)]


def _memory(buffer: Buffer) -> torch.Tensor:
    """Memory for a buffer whose layout is known."""
    return torch.empty_strided([int(size) for size in map(_number, buffer.shape)],
                               [int(step) for step in map(_number, buffer.strides)],
                               dtype=buffer.dtype, device=buffer.device)


def _number(expr: Expr) -> int:
    assert isinstance(expr, Const)
    return int(expr.value)
