"""Scripts tried out one after the other in child processes, with what is known of how they fail."""

from __future__ import annotations

import ast
import inspect
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch

from .. import config
from ..events import OBSERVERS, Observer
from ..repro_scripts.completions import operators_made
from ..torch_compat.custom_operators import forget_operators
from .children import Ended, Limits, in_child
from .failure import PROGRAM, RUN, Failure
from .probe import execute, failure_of

Progress = Callable[[str], None]
LEAST = 1.0
"""Seconds that a script has even when the time is up: less shows nothing."""
QUICK, PATIENCE = 1.0, 5.0
"""A run hangs that takes as many seconds at least, and as many times what the longest run took that ended."""
ENOUGH = 3
"""Runs that end, after which that is known."""
RESERVE = 15.0
"""Seconds for naming what is at fault in the smallest script, and for running that with plain python."""


@dataclass
class Tried:
    """What came of a script."""

    failure: Failure | None
    seconds: float
    graphs: tuple[str, ...] = ()
    """Scripts of the graphs that it was captured as, first to last."""
    functions: tuple[str, ...] = ()
    """Scripts of functions that failed in it."""
    text: str = ""


class Session:
    """Runs scripts in children. ``limit``: seconds for all of it; ``each``: for one script."""

    def __init__(self, limit: float, each: float, folder: str, progress: Progress = lambda _: None,
                 threads: int | None = None, loaded: ModuleType | None = None) -> None:
        """``threads``: how many the children use; 1 where this process may have started some, which a child lacks.
        ``loaded``: the module of this process's whose definitions scripts repeat."""
        preload()
        self.loaded = loaded
        self._operators = _operators_of(loaded)
        self.threads = threads
        self.end = time.monotonic() + limit
        self.reserve = min(RESERVE, limit / 5)
        self.each = each
        self.folder = folder
        self.progress = progress
        self.tried = 0
        self.impatient = False
        """Whether a run hangs that takes much longer than those that end."""
        self._lengths: list[float] = []
        self._work = tempfile.TemporaryDirectory()
        self._known: dict[str, Failure | None] = {}

    def close(self) -> None:
        """Remove what was written on the way."""
        self._work.cleanup()

    @property
    def is_over(self) -> bool:
        """Whether the time is up, but for what it takes to say what was found."""
        return time.monotonic() >= self.end - self.reserve

    def limits(self, seconds: float | None = None) -> Limits:
        """For a child that has so many seconds; as many as every run has where that is left out."""
        if seconds is None:
            seconds = self.each
            if self.impatient and len(self._lengths) >= ENOUGH:
                seconds = min(seconds, max(QUICK, PATIENCE * max(self._lengths)))
        return Limits(seconds, self._quiet, max(LEAST, self.end - time.monotonic()))

    def _quiet(self, report: Any) -> float:
        """Seconds without a word after this one: a stage has less than a program, which may do anything."""
        is_stage = report is not None and report[0] == "stage" and report[1] not in (PROGRAM, RUN)
        return self.each / 3 if is_stage else self.each

    def run(self, text: str, look: bool = False, limit: float | None = None) -> Tried:
        """Run a script; with ``look`` its graphs and functions become scripts too."""
        path = os.path.join(self._work.name, f"script_{self.tried}.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return self.call(lambda: execute(path, self.folder), look, limit)

    def call(self, work: Callable[[], Any], look: bool = False, limit: float | None = None) -> Tried:
        """Run something in a child and say how it fails."""
        self.tried += 1
        scripts = os.path.join(self._work.name, f"written_{self.tried}")

        def child(report: Callable[[Any], None]) -> Failure | None:
            self.prepare()
            if look:
                config.repro = scripts
                OBSERVERS.append(Graphs(report))
            return failure_of(work, report, differs)

        limits = self.limits(limit)
        ended = in_child(child, limits)
        if ended.done:
            self._lengths.append(ended.seconds)
        functions = []
        if look and os.path.isdir(scripts):
            for name in sorted(os.listdir(scripts)):
                with open(os.path.join(scripts, name), encoding="utf-8") as file:
                    functions.append(file.read())
        graphs = [report[1] for report in ended.reports if report[0] == "graph"]
        failure = failure_behind(ended, limits.seconds)
        raised = [report[1] for report in ended.reports if report[0] == "eager"]
        if failure is not None and raised:
            failure = replace(failure, eager=raised[-1])
        return Tried(failure, ended.seconds, tuple(dict.fromkeys(graphs)), tuple(functions), ended.text)

    def prepare(self) -> None:
        """The first that a child does."""
        config.disk_cache = False
        forget_operators(self._operators, self.loaded)  # a script that lacks them is to fail, as in a new process
        if self.threads is not None:
            torch.set_num_threads(self.threads)

    def failure(self, text: str) -> Failure | None:
        """How a script fails, each only run once."""
        if text not in self._known:
            self._known[text] = self.run(text).failure
        return self._known[text]


def _operators_of(module: ModuleType | None) -> set[str]:
    """The operators that a module's file makes."""
    try:
        tree = ast.parse(inspect.getsource(module)) if module is not None else ast.Module([], [])
    except (OSError, TypeError, SyntaxError):
        return set()
    return operators_made(tree, tree.body)


class Graphs(Observer):
    """Reports a script of each captured graph before anything is made of it."""

    def __init__(self, report: Callable[[Any], None]) -> None:
        self.report = report

    def note(self, kind: str, /, **what: Any) -> None:
        if kind != "captured":
            return
        from ..repro_scripts.scripts import script_of_graph

        captured = what["captured"]
        try:
            self.report(("graph", script_of_graph(captured.module, captured.example_inputs, "a captured graph")))
        except Exception:
            pass  # a graph with something that has no source


def differs(error: BaseException, report: Callable[[Any], None]) -> Failure:
    """The stage at which a wrong result comes about."""
    from ..repro_scripts.scripts import script_of_graph
    from .walk import Found, Walk

    call = getattr(error, "call", None)
    reason = str(getattr(error, "reason", "") or error)
    kind = reason.partition(":")[0].partition("[")[0]
    if call is None:
        return Failure("difference", RUN, kind, reason)
    walk = Walk(report, call.options)
    try:
        walk.function(call.function, call.args, call.kwargs, call.again)
    except Found as found:
        if found.call is not None:
            for exact in (False, True):
                try:
                    report(("graph", script_of_graph(found.call.module, found.call.inputs, "a captured graph",
                                                     exact=exact)))
                except Exception:
                    pass
        return found.failure
    return Failure("difference", RUN, kind, reason)


def failure_behind(ended: Ended, limit: float) -> Failure | None:
    """How a child ended that may have crashed or hung."""
    if ended.done:
        return ended.value if isinstance(ended.value, Failure) else None
    stages = [report for report in ended.reports if report[0] == "stage"]
    stage = stages[-1][1] if stages else PROGRAM
    operators = tuple(stages[-1][2]) if stages and len(stages[-1]) > 2 else ()
    wrong = [report[1:] for report in ended.reports if report[0] == "differs"]
    if ended.hangs:
        failure = Failure("hang", stage, "hang", f"it does not end within {min(limit, ended.seconds):.2g} s",
                          operators=operators)
    elif ended.signal is not None:
        name = signal.Signals(ended.signal).name
        failure = Failure("crash", stage, name, f"the process is ended by {name}", operators=operators)
    else:
        failure = Failure("exception", stage, "exit", ended.text[-300:])
    if wrong:
        return replace(failure, kind="difference", message=wrong[-1][0], seen=wrong[-1][1])
    return failure


@contextmanager
def ended_like_interrupts() -> Iterator[None]:
    """For commands: being told to end (SIGTERM) is like Ctrl-C, which ends children and what they have started."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler) if is_main else None
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


def load_all() -> None:
    """Import what stages import when they first need it, which would be in each child."""
    from .. import compiled_functions, module_wrapper
    from ..backends import profiler_regions, stages
    from ..capture import all_handlers
    from ..fake.rules.registry import RULES
    from ..functional.decompositions.registry import DECOMPOSITIONS
    from ..kernels import plan_cache, plan_text
    from ..kernels.cpu import arguments
    from ..kernels.lowering.registry import LOWERINGS
    from ..kernels.targets import target_for
    from ..pipeline import graph_passes
    from ..runtime import ranges

    for registry in (RULES, DECOMPOSITIONS, LOWERINGS):
        registry.load()
    target_for(torch.device("cpu")).passes()
    del compiled_functions, module_wrapper, profiler_regions, stages, all_handlers, plan_cache, plan_text, arguments
    del graph_passes, ranges


def preload() -> None:
    """Import what children need. Nothing of it is run."""
    from .. import compiling, pipeline
    from ..backends import native
    from ..pipeline import compile, training
    from ..repro_scripts import scripts
    from ..runtime import compiler
    from . import checking, walk

    del compiling, pipeline, native, training, compile, scripts, checking, walk
    try:
        from ..pipeline.compile import load_stages

        load_stages()
        compiler.prepare()
        load_all()
    except Exception:
        pass  # that fails in the children too, where it is seen
