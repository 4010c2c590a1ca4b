"""One run of one program in this process, for `benchmarks.programs`."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import torch
import torch.utils._pytree as pytree
from tests.whole_programs.program import PROGRAMS

KEPT = 10
"""How many results are compared."""
WARM, REGION = 5, "compiled_region"


class Clock:
    """Seconds of the wall, or those that processors spent on this process, all of its threads."""

    now: Callable[[], float] = staticmethod(time.perf_counter)


CLOCK = Clock()


class Stopwatch:
    """A compiler whose own time, with importing it, is counted."""

    def __init__(self, compile: Callable[[Any], Any]) -> None:
        self.compile = compile
        self.seconds = 0.0

    def __call__(self, function: Any) -> Any:
        start = CLOCK.now()
        try:
            return self.compile(function)
        finally:
            self.seconds += CLOCK.now() - start


def seed() -> None:
    """The same random numbers on all sides."""
    import random

    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)


def kept(result: Any) -> Any:
    """A result as it is now: what a program returns may be changed in its next round."""
    def copied(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().clone().requires_grad_(leaf.requires_grad)
        return leaf.copy() if isinstance(leaf, numpy.ndarray) else leaf

    return pytree.tree_map(copied, result)


def run(name: str, compile: Callable[[Any], Any], calls: list[int]) -> dict[str, Any]:
    """Totals after each of these numbers of calls, the time of a call at the end, and the first results."""
    seed()
    stopwatch = Stopwatch(compile)
    call = PROGRAMS[name].build(stopwatch)
    seed()
    results, seconds, spent, times = [], {}, stopwatch.seconds, []
    for number in range(max(calls)):
        start = CLOCK.now()
        result = call(number)
        times.append(CLOCK.now() - start)
        spent += times[-1]
        if number < KEPT:
            results.append(kept(result))
        if number + 1 in calls:
            seconds[number + 1] = spent
    late = sorted(times[len(times) // 2:])
    return {"results": results, "seconds": seconds, "warm": late[len(late) // 4]}


def when_imported(name: str, act: Callable[[Any], None]) -> None:
    """Have something done with a module once the program imports it, which it does earlier if we do."""
    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
            if fullname != name:
                return None
            sys.meta_path.remove(self)
            spec: Any = importlib.util.find_spec(name)
            run = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (run(module), act(module))
            return spec

    sys.meta_path.insert(0, Finder())


def firesteel_run(name: str, calls: list[int]) -> dict[str, Any]:
    """A run under `fs.compile`, with what the compiler did."""
    compiled: list[Any] = []
    recompiled: list[str] = []
    skipped: list[str] = []

    def listen(kind: str, unit: Any, what: Any) -> None:
        if kind == "compiled":
            compiled.append((unit, what))
        elif kind == "recompiled":
            recompiled.append(f"{unit.name} ({unit.user_frame}): {what}")
        else:
            skipped.append(f"{unit.name} ({unit.user_frame}): {what}")

    def compile(function: Any) -> Any:
        import firesteel as fs

        return fs.compile(function)

    when_imported("firesteel.events", lambda events: events.LISTENERS.append(listen))
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        outcome = run(name, compile, calls)
    from firesteel.debug.explain import distinct

    breaks = distinct([entry.break_reason for _, entry in compiled if entry.break_reason is not None])
    texts = [str(warning.message) for warning in issued]
    return {**outcome, "compilations": len(compiled), "breaks": [str(reason) for reason in breaks],
            "recompiled": recompiled, "skipped": skipped,
            "warnings": [text for text in texts if "firesteel" in text]}


def torch_run(name: str, calls: list[int]) -> dict[str, Any]:
    """A run under `torch.compile`."""
    warnings.simplefilter("ignore")
    return run(name, torch.compile, calls)


def inside_run(name: str, calls: list[int]) -> dict[str, Any]:
    """The share of operators inside graphs, of those that run inside of what is compiled."""
    from tests.models.captured_calls import MARK, SAVING, CountingBackend

    import firesteel as fs

    warnings.simplefilter("ignore")
    fs.config.native_guards = "never"  # native code is tried out with tensors of its own before it is used
    backend = CountingBackend()

    class Region:
        """What is compiled, marked for the profiler."""

        def __init__(self, compiled: Any) -> None:
            self.__dict__["compiled"] = compiled

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            with torch.profiler.record_function(REGION):
                return self.compiled(*args, **kwargs)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.__dict__["compiled"], name)

    def compile(function: Any) -> Any:
        region = Region(fs.compile(function, backend=backend))
        if isinstance(function, torch.nn.Module):
            return region
        return functools.wraps(function)(lambda *args, **kwargs: region(*args, **kwargs))

    seed()
    call = PROGRAMS[name].build(compile)
    seed()
    for number in range(WARM):
        call(number)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for number in range(WARM, max(max(calls), WARM + 1)):
            call(number)
    inside = outside = 0
    for event in profile.events():
        if not event.name.startswith("aten::"):
            continue
        above, ancestors = event.cpu_parent, []
        while above is not None:
            ancestors.append(above.name)
            above = above.cpu_parent
        if REGION not in ancestors or any(name.startswith("aten::") for name in ancestors):
            continue
        if MARK in ancestors:
            inside += 1
        elif event.name not in SAVING:
            outside += 1
    return {"inside": inside / max(inside + outside, 1)}


def run_side(name: str, side: str, calls: list[int], clock: str) -> dict[str, Any]:
    """A run of a program under "eager", "firesteel" or "torch", or of what is "inside" of graphs."""
    if clock == "cpu":
        CLOCK.now = time.process_time  # type: ignore[method-assign]
    sides = {"firesteel": firesteel_run, "torch": torch_run, "inside": inside_run,
             "eager": lambda name, calls: run(name, lambda function: function, calls)}
    return sides[side](name, calls)
