"""Units: pieces of code with compiled versions. A unit is a function, or a continuation that starts in its middle."""

from __future__ import annotations

import functools
import re
import types
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import config, torch_compat
from ..capture.assertions import ASSUMED, assumptions_of
from ..capture.bytecode.dispatch_calls import dispatching
from ..capture.capture import capture
from ..capture.dynamism import Suspects
from ..capture.entries import Entry, Start, parameters_of
from ..capture.learned import Learned, recall, remember
from ..capture.replaced_builtins import pythons_builtins
from ..capture.signals import SkipFrame
from ..capture.skipping import around_module
from ..errors import (
    NUMBER_TOO_LARGE,
    BackendError,
    FiresteelError,
    GraphBreakError,
    InternalError,
    RecompileError,
    UserFrame,
    format_report,
    format_user_stack,
    traceback_text,
    warn,
)
from ..events import LISTENERS, OBSERVERS, note, span
from ..interruptions import raised_by_handler, uninterrupted
from ..logs import detail, enabled, log
from ..own_frames import own_file, passed_over
from ..pipeline.collecting import collection_paused
from ..pipeline.locking import compiling
from ..progress import other_threads
from ..repro_scripts import function_script, remember_call
from . import rank_agreement, stance
from .debuggers import debugger_traces
from .earlier_ways import keep_earlier_way
from .explain_miss import FailedGuard, changed_inputs, first_failure
from .faults import fault_report
from .first_calls import FirstCall
from .first_steps import steps_without_state
from .outside import noted_unit
from .retiring import CLOCK, broken_call, watch
from .settings import raises_at_limit, setting
from .sharing import holders_of, offer, settings_now, take_over
from .yields import PlainGenerator, Way, Yielded

if TYPE_CHECKING:
    from .compiler import Compiler

VARARGS, VARKEYWORDS = 0x04, 0x08
# How often the data may differ from what a graph assumes before the graph ends there instead.
FAILURES_BEFORE_BREAK = 2
GENERATOR = 0x20
UNCAPTURED_FLAGS = GENERATOR | 0x80 | 0x200  # generators, coroutines, asynchronous generators
MAX_DISTURBED = 3
READYING_CALLS = 4
"""How many calls of a function may run plain with fullgraph=True because they make something for later ones."""
"""How often a function is tried again whose capture other threads disturbed, and goes unmentioned where its guards may
have been."""
_DISTURBED = re.compile(r"(changed size|mutated|keys changed) during iteration|^zip\(\) argument \d+ is ")


class Miss:
    """Returned by an entry whose guards do not hold."""

    def __repr__(self) -> str:
        return "<miss>"


MISS = Miss()


class Resume:
    """Returned by an entry that ends in a break: go on with this continuation. Whoever does takes the list of arguments
    from it, and clears it once they are where they belong."""

    __slots__ = ("unit", "args")

    def __init__(self, unit: Unit | Rerun | Uncompiled, args: list[Any]) -> None:
        self.unit = unit
        self.args = args


@passed_over
def drive(result: Any) -> Any:
    """Run continuations one after the other; a loop, so that the Python stack does not grow with them."""
    if type(result) is Resume and type(result.unit) is Unit:
        broken_call(result.unit.origin)
    while type(result) is Resume:
        unit, held = result.unit, result.args
        del result
        result = unit.resume(held)
    return result


@functools.cache
def _spread(count: int) -> Callable[[Callable[..., Any], list[Any]], Any]:
    """Calls an entry of a continuation with the arguments in a list and the list, which it clears once it runs: then
    nothing but the entry itself holds them, and what the program deletes goes away."""
    arguments = "".join(f"h[{position}], " for position in range(count))
    return _made(f"lambda f, h: f({arguments}h)")


@functools.cache
def _taken(count: int) -> Callable[[Callable[..., Any], list[Any]], Any]:
    """Calls a function with the arguments in a list, which is empty then."""
    return _made(f"lambda f, h: f({', '.join(['h.pop(0)'] * count)})")


def _made(text: str) -> Any:
    return eval(compile(text, own_file("calls"), "eval"), {})


class Uncompiled:
    """Where an entry goes on that leaves all to Python: the same unit from its start."""

    __slots__ = ("unit",)

    def __init__(self, unit: Unit) -> None:
        self.unit = unit

    @passed_over
    def resume(self, held: list[Any]) -> Any:
        return self.unit.plain(held)


class Rerun:
    """Where an entry goes on whose graph raised: the same unit from its start, as plain Python.

    Nothing has happened yet when a graph raises, because an entry's effects come after its graph.
    """

    __slots__ = ("unit", "catches")

    def __init__(self, unit: Unit, catches: bool) -> None:
        self.unit = unit
        self.catches = catches

    @passed_over
    def resume(self, held: list[Any]) -> Any:
        error = held.pop(0)
        if torch_compat.stops_recomputation(error):
            error.__traceback__ = None  # its frames hold the error, so they would keep tensors until they are collected
            raise type(error)()
        if raised_by_handler(error):
            raise error
        self.unit.remember_call(held)
        result = self.unit.plain(held)
        if type(result) is PlainGenerator:
            return result  # it has not run yet, and says later what it has to say
        if ASSUMED in str(error) or NUMBER_TOO_LARGE in str(error):
            self.unit.assumption_failed(str(error))
        elif not self.catches:
            # plain Python has no complaint, so the graph's callable is at fault and not the program
            script = function_script(self.unit.code, error)
            if config.raise_on_internal_error:
                raise error
            warn(fault_report(self.unit, error, script, of_graph=True))
        return result


class Unit:
    """Code with a starting point and its compiled entries."""

    miss = MISS
    resume_type = Resume
    way_type, yield_type, start_type = Way, Yielded, Start

    def __init__(self, compiler: Compiler, code: types.CodeType, globals_: dict[str, Any], start: Start,
                 origin: Unit | None = None, driven: bool = False) -> None:
        self.compiler = compiler
        self.driven = driven
        """Whether it belongs to a generator that is driven from yield to yield."""
        self.code = code
        self.globals = globals_
        globals_.setdefault("__warningregistry__", {})  # entries share it: a warning is shown once per line
        self.start = start
        self.origin = origin if origin is not None else self
        self.entries: list[Entry] = []
        self.functions: tuple[Callable[..., Any], ...] = ()
        self.earlier_way: Callable[..., Any] | None = None
        """The first of the functions, where calls of earlier checkpoints go another way than new ones."""
        self.continuations: dict[Start, Unit] = {}
        self.total = 0
        self.around_module = None if compiler.fullgraph else around_module(code, globals_)
        self.given_up: str | None = self.around_module
        self.at_limit = False
        """Whether it is given up because there are too many compiled versions."""
        self.skipped_calls = 0
        """How often a call had to run as plain Python. Each has been captured for nothing, so there is a limit."""
        self.disturbed = 0
        self.misfits = 0
        """How often a new entry has refused the arguments that it was made for, beside other threads."""
        # places with assumptions on data that did not hold, how often, and those where none is made any more: they are
        # lines, which a function that is called for itself after the break has too
        self.failures: dict[str, int] = {}
        self.refused: set[str] = compiler.refused
        self.unsettled: dict[tuple[str, str], int] = {}
        """How often the function was compiled again for another length of a list or another text, by what leads to it
        and which of these it is."""
        self._learned: Learned | None = None
        self.suspects: Suspects | None = None
        self.number: int | None = None
        """Which of those of the same code it is, where ranks have to know."""
        self.first_calls: list[FirstCall] = []
        self.waited = False
        """Whether it has run uncompiled for a while, until compiling might pay."""
        self.measured = False
        """Whether it is, or has been, timed against plain Python."""
        self.broken_calls = 0
        self.range_names: dict[tuple[str, types.CodeType], str] = {}
        """What its calls are called in profilers, by the class that they are of and the code without decorators."""
        self._plain: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        base = self.code.co_name
        if base.startswith("<"):
            base = base.strip("<>")
        if self.compiler.name:
            base = f"{self.compiler.name}:{base}"
        if self.start.index == 0:
            return base
        line = _line_at(self.code, self.start.index)
        return f"{base}_resumed_at_line_{line}" if line else f"{base}_resumed"

    @property
    def user_frame(self) -> UserFrame:
        line = _line_at(self.code, self.start.index) if self.start.index else None
        return UserFrame(self.code.co_filename, line or self.code.co_firstlineno, self.code.co_name)

    @property
    def learned(self) -> Learned:
        """Which sizes and numbers vary, as far as this process or an earlier one has seen."""
        if self._learned is None:
            self.compiler.is_blank = False
            self._learned = recall(self.code, self.start.index)
        return self._learned

    def continuation(self, start: Start) -> Unit:
        """The unit that starts in the middle of the same code."""
        unit = self.origin.continuations.get(start)
        if unit is None:
            unit = Unit(self.compiler, self.code, self.globals, start, self.origin, self.driven)
            self.origin.continuations[start] = unit
        return unit

    # Calls

    @passed_over
    def call(self, args: tuple[Any, ...]) -> Any:
        """Run the first entry whose guards hold; the result may be a Resume."""
        functions = self.functions
        for position, function in enumerate(functions):
            result = function(*args)
            if result is not MISS:
                if position:
                    self.promote(function)
                return result
        return self.missed(args)

    @passed_over
    def resume(self, held: list[Any]) -> Any:
        """Run the first entry of a continuation whose guards hold; `held` are its arguments, in a list."""
        functions = self.functions
        spread = _spread(len(held))
        for position, function in enumerate(functions):
            result = spread(function, held)
            if result is not MISS:
                if position:
                    self.promote(function)
                return result
        return self.missed(held)

    def promote(self, function: Callable[..., Any]) -> None:
        """Most recently used first."""
        functions = self.functions
        if function in functions and (functions[0] is not self.earlier_way or functions[1] is not function):
            self.put_first(function)

    def put_first(self, function: Callable[..., Any]) -> None:
        """Have calls try a function before all others, apart from one for earlier checkpoints."""
        leading = () if self.earlier_way is None else (self.earlier_way,)
        others = tuple(other for other in self.functions if other is not function and other is not self.earlier_way)
        self.functions = (*leading, function, *others)

    @passed_over
    def missed(self, args: Sequence[Any]) -> Any:
        """No entry fits: compile another one, or run plain Python. A continuation gets a list, which is cleared."""
        self.compiler.is_blank = False
        reason = self.why_not_compile() or self.why_not_yet(args)
        if reason is not None:
            if OBSERVERS:
                note("plain", unit=self, reason=reason)
            if LISTENERS and self.at_limit:
                self.compiler.beyond_limit(self, self.failing_guards(args)[1])
            return self.plain(args)
        tried: tuple[Callable[..., Any], ...] = ()
        while True:
            # Another thread may have compiled meanwhile. Its entry runs without the lock: the program may wait in it
            # for a third thread, which has to compile to come there.
            functions = self.functions
            for function in functions:
                if function not in tried:
                    result = _spread(len(args))(function, args) if type(args) is list else function(*args)
                    if result is not MISS:
                        return result
            tried = functions
            with compiling():
                if all(function in tried for function in self.functions):
                    if take_over(self, args):
                        continue
                    with uninterrupted(), pythons_builtins(), span(self.name, "compile", what=self):
                        entry = self.compile(tuple(args))
                    break
        if entry is None:
            return self.plain(args)
        result = _spread(len(args))(entry.function, args) if type(args) is list else entry.function(*args)
        if result is MISS:
            return self.refused_by_its_own_entry(entry, args)
        return result

    def refused_by_its_own_entry(self, entry: Entry, args: Sequence[Any]) -> Any:
        """A guard fails on the very arguments it was made from: never loop on it."""
        misfit = first_failure(entry, self, tuple(args))
        if other_threads():  # another may have changed what the guard reads, now and then
            self.misfits += misfit is not None
            if misfit is not None and self.misfits == MAX_DISTURBED:
                warn(format_report(
                    f"guards of {self.name} refuse what they are made from: {misfit}", [self.user_frame],
                    "another thread keeps changing what they read, or firesteel is at fault; such calls run uncompiled",
                    "let compiled code read only what other threads leave alone",
                ))
            return self.plain(args)
        return self.internal_failure(
            RuntimeError(f"the new entry does not accept its own arguments: {misfit}"), args)

    def why_not_compile(self) -> str | None:
        if self.given_up is not None:
            return self.given_up
        if self.code.co_flags & UNCAPTURED_FLAGS and not self.driven:
            return "generator and coroutine functions run as plain Python"
        if debugger_traces() and not self.compiler.fullgraph and self.compiler.events is None:
            return "called under a debugger, which is to see its lines"
        if torch_compat.is_tracing():
            return "called while TorchScript traces"
        if torch_compat.functorch_active():
            return "called inside of a torch.func transform"
        if torch_compat.forward_ad_active():
            return "called where tensors may carry tangents of forward-mode differentiation"
        if torch_compat.torch_function_stack_length() and torch_compat.function_mode_devices() is None:
            return "called inside of a TorchFunctionMode"
        if torch_compat.torch_dispatch_stack_length() and not self.compiler.exports:
            return "called inside of a TorchDispatchMode, which is to see every operator"
        for stamp in (torch_compat.TENSOR_METHODS, torch_compat.PARAMETER_METHODS):
            if not stamp.quick():
                return f"{stamp.cls.__name__}.{stamp.replaced()} is not torch's own"
        mode = stance.current()
        if stance.FROZEN.active:
            return "called inside of fs.run, which compiles nothing"
        return mode if mode in ("force_eager", "eager_on_recompile") else None

    def why_not_yet(self, args: Sequence[Any]) -> str | None:
        """Why to compile at the second call and not now, if so: what the first one was given is kept."""
        if stance.current() == "fail_on_recompile":
            misfits = [str(guard) for entry in self.entries
                       if (guard := first_failure(entry, self, tuple(args))) is not None]
            why = f"the last failing guard is {misfits[-1]}" if misfits else "there is no compiled version of it"
            raise RecompileError(f"{self.name} would have to be compiled: {why}", None, (self.user_frame,))
        if self.entries or torch_compat.current_checkpoint() is not None:  # a second run would be another way
            return None
        if self.first_calls:
            return None
        reason = None
        if stance.current() in ("eager_then_compile", "aot_eager_then_compile"):
            reason = stance.current()
        elif self.may_wait and steps_without_state(self.code, self.globals, args):
            reason = "the first step of an optimizer"
        if reason is not None:
            self.first_calls.append(FirstCall.of(parameters_of(self.code, self.start), args))
        return reason

    def saw(self, names: Sequence[str], calls: Sequence[Sequence[Any]]) -> None:
        """What calls that ran uncompiled were given, see `FirstCall.seen`."""
        self.compiler.is_blank = False
        self.first_calls.extend(FirstCall.seen(names, looks) for looks in calls)
        self.waited = bool(calls)

    @property
    def may_wait(self) -> bool:
        """Whether a first call may run uncompiled: not where somebody insists on a graph or asks what it is."""
        return self.start.index == 0 and not self.compiler.fullgraph and self.compiler.events is None

    # Compiling

    def compile(self, args: tuple[Any, ...]) -> Entry | None:
        """Capture for these arguments and add the entry."""
        self.compiler.is_blank = False
        CLOCK.disturbances += 1
        declared = self.compiler.declared_sizes(self)
        if declared is not None and self.start.index == 0:
            declared.check(dict(zip(parameters_of(self.code, self.start), args, strict=True)), self.user_frame)
        if self.entries:
            self.explain_recompilation(args)
            if rank_agreement.gives_up(self):
                return None
        if len(self.entries) >= self.compiler.recompile_limit or \
                self.origin.total >= setting("accumulated_recompile_limit"):
            self.give_up(args)
            return None
        self.learn(args)
        self.remember_call(args)
        try:
            with collection_paused():
                entry = capture(self, args)
        except SkipFrame as skip:
            if self.compiler.fullgraph and not (skip.makes_ready and self.skipped_calls < READYING_CALLS):
                raise GraphBreakError(skip.reason, "call it without fullgraph=True", (self.user_frame,)) from skip
            self.skipped_calls += 1
            if not skip.this_call or self.skipped_calls >= self.compiler.recompile_limit:
                self.given_up = skip.reason
            self.compiler.skipped(self, skip.reason)
            return None
        except BackendError as error:
            script = function_script(self.code, error.__cause__ or error)
            if config.raise_on_internal_error or self.compiler.fullgraph:
                raise
            shown = f"\n  {script} fails in the same way; firesteel minify makes it smaller" if script else ""
            warn(f"{error}\n  This function runs uncompiled.{shown}"
                 + (traceback_text(error) if config.verbose else ""))
            self.given_up = f"the backend failed: {error.reason}"
            return None
        except FiresteelError:
            raise
        except RecursionError:
            # calls that Python itself may still find room for, and if not, it says so in the user's own frames
            self.given_up = "calls nest deeper than this thread's stack has room for"
            self.compiler.skipped(self, self.given_up)
            return None
        except Exception as error:
            if other_threads() and self.disturbed < MAX_DISTURBED and _DISTURBED.search(str(error)):
                self.disturbed += 1  # by another thread, which changed a container that was being looked at
                return None
            script = function_script(self.code, error)
            if config.raise_on_internal_error or self.compiler.fullgraph:
                raise
            warn(fault_report(self, error, script, of_graph=False))
            self.given_up = f"internal failure: {error}"
            return None
        entry.settings = settings_now()
        self.origin.total += 1
        self.add(entry)
        offer(self)
        if self.waited:
            watch(self)
        self.compiler.compiled(self, entry)
        return entry

    def add(self, entry: Entry) -> None:
        """Have a compiled version among those that calls try, before the others."""
        self.compiler.is_blank = False
        self.entries.append(entry)
        self.drop_with_classes(entry)
        self.put_first(entry.function)

    def drop_with_classes(self, entry: Entry) -> None:
        """Forget an entry when a class that it is for goes away."""
        this, dying = weakref.ref(self), weakref.ref(entry)

        def forget(_: object) -> None:
            unit, gone = this(), dying()
            if unit is not None and gone is not None:
                unit.drop(gone)

        classes = {id(cls): cls for ref in entry.classes if (cls := ref()) is not None}
        entry.classes = [*entry.classes, *(weakref.ref(cls, forget) for cls in classes.values())]

    def assumption_failed(self, message: str) -> None:
        """The data was not as the graph assumes, and plain Python ran instead. After a few times, break there."""
        if enabled("recompiles"):
            log("recompiles", "%s (%s) ran uncompiled: %s", self.name, self.user_frame, message)
        checkpoint = torch_compat.current_checkpoint()
        if self.compiler.fullgraph or checkpoint is not None and checkpoint.runs_again:
            return
        outdated = []
        for entry in self.entries:
            for assumption, place in assumptions_of(entry.graph).items():
                if assumption in message:
                    self.failures[place] = self.failures.get(place, 0) + 1
                    if self.failures[place] >= FAILURES_BEFORE_BREAK:
                        self.refused.add(place)
                        outdated.append(entry)
        if outdated:
            keep_earlier_way(self)
        for entry in outdated:
            for unit in (self, *holders_of(entry, self.code)):
                unit.refused |= self.refused
                unit.drop(entry)

    def drop(self, entry: Entry) -> None:
        """Forget a compiled version."""
        self.entries = [other for other in self.entries if other is not entry]
        self.functions = tuple(function for function in self.functions if function is not entry.function)

    def learn(self, args: tuple[Any, ...]) -> None:
        """What differs from what earlier captures saw becomes symbolic in the next one."""
        if self.compiler.dynamic is False:
            return
        if not self.entries:
            self.learn_from_first_call(args)
            return
        new = self.learned | rank_agreement.told(self)
        outdated = set() if self.suspects is None else set(self.suspects.sizes)
        for entry in self.entries:
            changed = changed_inputs(entry, self, args)
            new = new | changed.learned
            outdated |= changed.outdated
        known = frozenset(name for entry in self.entries for name in entry.tensors)
        self.suspects = Suspects(frozenset(outdated), known) if outdated else None
        if new is not self.learned:
            rank_agreement.tell(self, new)
        self.knows(new)

    def learn_from_first_call(self, args: tuple[Any, ...]) -> None:
        """What differs from the first calls, which ran uncompiled, becomes symbolic in the next capture."""
        learned, parameters = self.learned, parameters_of(self.code, self.start)
        for call in self.first_calls:
            learned = learned | call.changed(parameters, args)
        self.knows(learned)  # which other ranks are told
        self.knows(self.learned | rank_agreement.differing(self, parameters, args))

    def knows(self, learned: Learned) -> None:
        """Keep what varies, for the next process too."""
        if learned is not self.learned:
            self._learned = learned
            remember(self.code, self.start.index, learned)

    def forget(self) -> None:
        """Start anew: drop everything compiled and learned in this process."""
        self.entries.clear()
        self.functions = ()
        self.earlier_way = None
        self.given_up = self.around_module
        self.at_limit = False
        self.skipped_calls = 0
        self.failures.clear()
        self.refused.clear()
        self.unsettled.clear()
        self.total = 0
        self._learned = None
        self.number = None
        self.suspects = None
        self.first_calls.clear()
        self.waited = self.measured = False
        self.broken_calls = 0

    def explain_recompilation(self, args: tuple[Any, ...]) -> None:
        reasons, text = self.failing_guards(args)
        contents = {(reason.source, reason.content) for reason in reasons}
        if len(contents) == 1 and reasons[0].content:
            unsettled, content = self.origin.unsettled, contents.pop()
            unsettled[content] = unsettled.get(content, 0) + 1
        self.compiler.recompiled(self, text)
        note("failed guards", unit=self, failures=reasons)
        if enabled("recompiles"):
            log("recompiles", "recompiling %s (%s): %s", self.name, self.user_frame,
                "; ".join(str(reason) for reason in reasons))
            for reason in reasons:
                detail("recompiles", "%s was made by\n%s", reason, format_user_stack(reason.frames))

    def failing_guards(self, args: Sequence[Any]) -> tuple[list[FailedGuard], str]:
        """The guard of each entry that fails for these arguments, and the last of them as text."""
        reasons = [failing for entry in self.entries
                   if (failing := first_failure(entry, self, tuple(args))) is not None]
        return reasons, str(reasons[-1]) if reasons else "unknown"

    def give_up(self, args: tuple[Any, ...]) -> None:
        last = self.failing_guards(args)[1]
        limit, place = self.compiler.recompile_limit, "config.recompile_limit"
        if len(self.entries) < limit:
            limit, place = setting("accumulated_recompile_limit"), "config.accumulated_recompile_limit"
        elif self.compiler.given["recompile_limit"] is not None:
            place = "the argument recompile_limit of fs.compile"
        self.given_up, self.at_limit = f"recompile limit of {limit} reached", True
        rank_agreement.reached_limit(self)
        note("skipped", unit=self, what=self.given_up)
        if self.compiler.fullgraph or raises_at_limit():
            from ..errors import RecompileLimitError

            raise RecompileLimitError(f"recompile limit of {limit} reached; last failing guard: {last}",
                                      f"raise {place}, or make the changing value part of the data",
                                      (self.user_frame,))
        warn(format_report(
            f"firesteel: {self.name} was compiled {limit} times and runs uncompiled from now on.", [self.user_frame],
            f"the last failing guard is {last}",
            f"FIRESTEEL_LOGS=recompiles shows all reasons; {place} sets the limit",
        ))

    def remember_call(self, args: Sequence[Any]) -> None:
        """For a script that fails as this call may, where those are asked for."""
        if config.repro and self.start.index == 0:
            backend = self.compiler.backend_name if self.compiler.backend_is_own else self.compiler.backend
            remember_call(self.code, self.globals, args, self.compiler.given, backend)

    @passed_over
    def internal_failure(self, error: Exception, args: Sequence[Any]) -> Any:
        script = function_script(self.code, error)
        if config.raise_on_internal_error:
            raise InternalError(str(error), None, (self.user_frame,))
        warn(fault_report(self, error, script, of_graph=False))
        self.given_up = str(error)
        self.functions = ()
        return self.plain(args)

    # Plain Python

    @passed_over
    def plain(self, args: Sequence[Any]) -> Any:
        """Run the rest of the function uncompiled; a list is cleared."""
        function = self._plain
        if function is None:
            function = self._plain = self.make_plain()
        if self.compiler.events is not None:
            function = noted_unit(self, function)
        result = function(args if type(args) is list else list(args))
        return PlainGenerator(result) if self.driven else result

    def uncompiled(self) -> Uncompiled:
        """The way on for an entry that captured what Python is to run."""
        return Uncompiled(self)

    def rerun(self, catches: bool) -> Rerun:
        """The way out of an entry whose graph raised; `catches`: the program has exception handlers."""
        return Rerun(self, catches)

    @passed_over
    def make_plain(self) -> Callable[..., Any]:
        code, globals_, start = self.code, self.globals, self.start
        has_closure = bool(code.co_freevars)
        if start.index == 0:
            if self.around_module is not None:
                code = dispatching(code, self.compiler.nested, with_inner=True)
            count, keyword_only = code.co_argcount, code.co_kwonlyargcount
            varargs, varkeywords = bool(code.co_flags & VARARGS), bool(code.co_flags & VARKEYWORDS)
            names = code.co_varnames[count: count + keyword_only]

            def run(held: list[Any]) -> Any:
                closure = held.pop(0) if has_closure else None
                function = types.FunctionType(code, globals_, code.co_name, None, closure)
                if not keyword_only and not varargs and not varkeywords:
                    return _taken(count)(function, held)
                positional = list(held[:count])
                keywords = dict(zip(names, held[count: count + keyword_only], strict=True))
                position = count + keyword_only
                if varargs:
                    positional.extend(held[position])
                    position += 1
                if varkeywords:
                    keywords.update(held[position])
                held.clear()
                return function(*positional, **keywords)

            return run
        from ..capture.bytecode.continuation import make_continuation

        nulls = frozenset(i for i, kind in enumerate(start.stack) if kind == "null")
        continuation = make_continuation(code, start.index, list(start.variables), len(start.stack), null_slots=nulls)

        def resume(held: list[Any]) -> Any:
            closure = held.pop(0) if has_closure else None
            return _taken(len(held))(types.FunctionType(continuation, globals_, code.co_name, None, closure), held)

        return resume


def function_start(code: types.CodeType) -> Start:
    """The start of a whole function: its parameters, in the order of its variables."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & VARARGS) + bool(code.co_flags & VARKEYWORDS)
    return Start(0, (), code.co_varnames[:count])


def _line_at(code: types.CodeType, index: int) -> int | None:
    from ..capture.bytecode.instructions import decode

    return decode(code).instructions[index].lineno


