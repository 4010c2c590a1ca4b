"""One `fs.compile` call: its options, its units, and what happened to them."""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import config, progress, torch_compat
from ..backends.native import native
from ..backends.registry import lookup_backend
from ..backends.under_aot import needs_torchs_symbols, with_torchs_symbols
from ..capture.break_reasons import written_name
from ..capture.bytecode.dispatch_calls import dispatching
from ..capture.entries import Entry
from ..capture.global_state import InterpreterSettings
from ..capture.graph import CapturedGraph
from ..capture.graph_functions import is_graph_function
from ..capture.markers import disabled_frame
from ..capture.skipping import runs_plain
from ..errors import BackendError, UserCodeError, with_article
from ..events import OBSERVERS, note, span
from ..function_marks import is_disabled
from ..interruptions import interruptible
from ..stage_times import GRAPHS
from ..torch_compat.profilers import follow_profilers
from . import stance
from .generators import resumed_generator
from .nested_calls import callee, why_plain
from .nesting import NESTING
from .outside import PlainCall, WatchedGraph, count_outside, operations_of
from .protocols import Protocols
from .settings import dynamic_by_default, setting
from .sharded_modules import sharded_call
from .units import Unit, function_start

if TYPE_CHECKING:
    from ..capture.argument_sizes import ArgumentSizes
    from ..events import Events

COMPILERS: weakref.WeakSet[Compiler] = weakref.WeakSet()


class Compiler:
    """Options of one compile call and the registry of everything compiled under it."""

    #: Whether programs are captured to be exported.
    exports = False
    #: Whether other compile calls may have what is compiled, and the other way round.
    shares = False
    #: Whether the operations of graphs remember the modules whose code they come from.
    keeps_modules = False
    #: Whether numbers that depend on sizes come out as symbols, for those who do not call what was captured again.
    keeps_symbols = False

    def __init__(self, backend: Any, *, fullgraph: bool = False, dynamic: bool | None = None,
                 mode: str | None = None, options: dict[str, Any] | None = None, name: str | None = None,
                 recompile_limit: int | None = None, dynamic_shapes: Any = None, events: Events | None = None) -> None:
        self.backend_name = name_of_backend(backend)
        self.backend = lookup_backend(backend)
        self.backend_is_own = (getattr(self.backend, "__module__", None) or "").startswith("firesteel.")
        self.fullgraph = fullgraph
        self.mode = mode
        self.name = name
        self.given: dict[str, Any] = {"fullgraph": fullgraph, "dynamic": dynamic, "mode": mode, "options": options,
                                      "name": name, "recompile_limit": recompile_limit,
                                      "dynamic_shapes": dynamic_shapes}
        self.declared: dict[types.CodeType, ArgumentSizes] = {}
        """What was declared of the arguments of functions, by their code."""
        self._capture_branches = capture_options(options or {}).get("capture_branches")
        for_backend = {name: value for name, value in (options or {}).items() if name not in CAPTURE_OPTIONS}
        self.backend_arguments = backend_arguments(self.backend, mode, for_backend, name)
        self.events = events
        self.units: dict[types.CodeType, list[Unit]] = {}
        self.is_blank = True
        """Whether no unit has been called, or told anything, since all was forgotten."""
        self.recent: Unit | None = None
        """The unit that was asked for last."""
        #: lines whose assumptions on data do not hold
        self.refused: set[str] = set()
        self.plain_frames: dict[types.CodeType, types.CodeType] = {}
        self.protocols = Protocols(self)
        self.watched = False
        """Whether the share of operators inside of graphs has been asked for."""
        self.watches = events is not None
        """Whether graphs say that they run."""
        self.watched_graphs: weakref.WeakSet[WatchedGraph] = weakref.WeakSet()
        COMPILERS.add(self)
        prepare()

    @property
    def dynamic(self) -> bool | None:
        """Whether sizes are symbols: all, none, or those that change."""
        given: bool | None = self.given["dynamic"]
        return dynamic_by_default() if given is None else given

    def declared_sizes(self, unit: Unit) -> ArgumentSizes | None:
        """What was declared of the arguments of a unit's function; None if nothing was."""
        return self.declared.get(unit.code)

    @property
    def recompile_limit(self) -> int:
        """How many compiled versions a function may have."""
        given: int | None = self.given["recompile_limit"]
        return setting("recompile_limit") if given is None else given

    @property
    def capture_branches(self) -> bool:
        """Whether a Python ``if`` on the value of a tensor may become a ``cond`` of the graph."""
        return config.capture_branches if self._capture_branches is None else self._capture_branches

    # Units

    def unit_of(self, function: types.FunctionType) -> Unit:
        """The unit of a function's code (functions made anew each time share it)."""
        code, globals_ = function.__code__, function.__globals__
        recent = self.recent  # hashing a code takes as long as the rest of this
        if recent is not None and recent.code is code and recent.globals is globals_:
            return recent
        unit = self.recent = self.unit_of_code(code, globals_)
        return unit

    def unit_of_code(self, code: types.CodeType, globals_: dict[str, Any], driven: bool = False) -> Unit:
        """The unit of a function of these; `driven`: of a generator function whose generators are."""
        known = self.units.setdefault(code, [])
        for unit in known:
            if unit.globals is globals_ and unit.driven is driven:
                return unit
        unit = Unit(self, code, globals_, function_start(code), driven=driven)
        known.append(unit)
        return unit

    def reset(self) -> None:
        """Forget everything compiled."""
        if self.is_blank:
            return
        self.is_blank = True
        for unit in [u for units in self.units.values() for u in units]:
            for part in (unit, *unit.continuations.values()):
                part.forget()
            unit.continuations.clear()

    # Calls from compiled code

    def nested(self, target: Any) -> Any:
        """What a step between two graphs calls in place of `target`: the same, compiled for itself if possible."""
        if self.events is None:
            if OBSERVERS:
                note("called", target=target, compiler=self)
            return callee(self, target)
        chosen = callee(self, target)
        return self.noted_plain(target) if chosen is target else chosen

    def noted_plain(self, target: Any) -> Any:
        """A callee that is not compiled, for those who ask which these are."""
        assert self.events is not None
        name = getattr(target, "__qualname__", None) or type(target).__qualname__
        if isinstance(target, types.BuiltinFunctionType):
            name = written_name(target) or name
        name = name.rpartition("<locals>.")[2]
        self.events.plain.setdefault(name, why_plain(target))
        return PlainCall(target, name)

    def sharded_call(self, module: Any) -> Any:
        """What calls a module that `fully_shard` was applied to; None for all others."""
        return sharded_call(self, module)

    resumed_generator = staticmethod(resumed_generator)

    def uncompiled(self, function: Any) -> Any:
        """A function that is not compiled; what it calls still is, if only its own frame is disabled."""
        inner = disabled_frame(function)
        if not isinstance(inner, types.FunctionType) or stance.STATE.eager:
            return function
        return self.plain_frame(inner)

    def plain_frame(self, function: types.FunctionType, with_inner: bool = False,
                    choose: Callable[[Any], Any] | None = None) -> types.FunctionType:
        """A function whose own frame runs as plain Python, while what it calls is compiled for itself, or is what
        `choose` says; `with_inner`: the functions that it defines alike."""
        code = self.plain_frames.get(function.__code__)
        if code is None:
            code = dispatching(function.__code__, choose or self.nested, with_inner)
            self.plain_frames[function.__code__] = code
        same = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__,
                                  function.__closure__)
        same.__kwdefaults__ = function.__kwdefaults__
        return same

    def compiles(self, function: types.FunctionType) -> bool:
        return not (stance.STATE.eager or is_disabled(function) or is_graph_function(function) or runs_plain(function))

    # Graphs and events

    def before_effects(self, tx: Any) -> None:
        """Told of a frame that was captured to its end, before its side effects are written down."""

    def compile_graph(self, captured: CapturedGraph, unit: Unit) -> Callable[..., Any]:
        """Hand a graph to the backend."""
        if unit.start.index or NESTING.depth:
            captured.note_all_kept()
        if self.events is not None:
            self.events.graph(unit, captured)
        GRAPHS[captured.module] = unit.name, str(unit.user_frame)
        note("captured", unit=unit, captured=captured)
        try:
            with span(self.backend_name, "graph", captured.module):
                compiled = self._call_backend(captured)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            hint = None if self.backend_is_own else "config.verbose = True shows the traceback of the backend"
            raise BackendError(self.backend_name, text, hint, (unit.user_frame,)) from error
        if not callable(compiled):
            text = f"it returned {with_article(type(compiled).__name__)} instead of a callable"
            raise BackendError(self.backend_name, text, None, (unit.user_frame,))
        return compiled

    def _call_backend(self, captured: CapturedGraph) -> Any:
        if stance.STATE.backend is not None:
            return self._call_forced_backend(captured, stance.STATE.backend)
        if self.backend_is_own:
            return self.backend(captured.module, captured.example_inputs, **self.backend_arguments)
        with interruptible(), InterpreterSettings.of_the_program():
            backend = functools.partial(self.backend, **self.backend_arguments)
            if needs_torchs_symbols(captured.module, captured.example_inputs):
                return with_torchs_symbols(backend, captured.module, captured.example_inputs)
            return backend(captured.module, captured.example_inputs)

    def _call_forced_backend(self, captured: CapturedGraph, backend: Any) -> Any:
        """Under a stance that names a backend; the options were meant for another one."""
        with interruptible(), InterpreterSettings.of_the_program():
            return lookup_backend(backend)(captured.module, captured.example_inputs)

    def watched_graph(self, run: Callable[..., Any], captured: CapturedGraph, breaks: bool) -> Callable[..., Any]:
        """A graph's callable, which says that it runs as long as somebody counts what runs outside of graphs."""
        if breaks and not self.watched and not self.fullgraph:
            self.watches = True
        if not self.watches:
            return run
        graph = WatchedGraph(run, operations_of(captured.module))
        self.watched_graphs.add(graph)
        return graph

    def compiled(self, unit: Unit, entry: Entry) -> None:
        from ..events import record

        record(self, "compiled", unit, entry)

    def recompiled(self, unit: Unit, reason: str) -> None:
        from ..events import record

        record(self, "recompiled", unit, reason)

    def beyond_limit(self, unit: Unit, reason: str) -> None:
        """A call that would be compiled again, if there were not too many versions already."""
        from ..events import record

        record(self, "beyond limit", unit, reason)

    def skipped(self, unit: Unit, reason: str) -> None:
        from ..events import record

        record(self, "skipped", unit, reason)
        count_outside(unit)


CAPTURE_OPTIONS = ("capture_branches",)
"""Options of `compile` that are not the backend's."""


def capture_options(options: dict[str, Any]) -> dict[str, bool]:
    """The checked options of the capture."""
    chosen = {name: options[name] for name in CAPTURE_OPTIONS if name in options}
    for name, value in chosen.items():
        if not isinstance(value, bool):
            raise UserCodeError(f"option {name!r} is {value!r}", "it takes True or False")
    return chosen


def name_of_backend(backend: Any) -> str:
    """The name of a backend that is given by name or as a function."""
    return backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)


def backend_arguments(backend: Any, mode: str | None, options: dict[str, Any] | None,
                      name: str | None = None) -> dict[str, Any]:
    """What a backend is told besides the graph: `mode`, `options` and `name`, if they are given and it takes them."""
    if (getattr(backend, "__module__", None) or "").startswith("firesteel.backends."):
        from ..kernels.options import make_options

        # a wrong option is an error where it is written, whatever the backend does with it
        make_options(options, mode, CAPTURE_OPTIONS)
    if backend is native:
        from ..pipeline.compile import load_stages

        load_stages()
    given = {name: value for name, value in (("mode", mode), ("options", options), ("name", name)) if value}
    if not given:
        return {}
    try:
        parameters = inspect.signature(backend).parameters
    except (TypeError, ValueError):
        return {}
    return {name: value for name, value in given.items() if name in parameters}


def prepare() -> None:
    """What every capture needs, done when something is compiled and not in its first call."""
    torch_compat.neutralise_dynamo_imports()
    torch_compat.follow_stance(stance.torch_stance_changed)
    follow_profilers(stance.profiler_changed)
    progress.install()
    _load_tables()


@functools.cache
def _load_tables() -> None:
    from ..capture import capture, classes, torch_state
    from ..capture.equivalents import torch_functions
    from ..capture.graph_functions import operations
    from ..fake.rules import find_rule

    operations()
    find_rule("aten.add.Tensor")
    del capture, classes, torch_state, torch_functions
