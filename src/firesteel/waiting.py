"""Functions and modules run as plain Python until they have run for so long that compiling them may pay.

    compiled = fs.compile(f)    a function around f; nothing of the compiler is imported
    compiled(x)                 plain: 3 ms
    ...
    compiled(x)                 the loop around has rounds for 5 s left: from here on it is compiled, the same object

Importing the compiler and the first compilation take as long as many calls of a small function. A program that ends
before that, or has just begun, is not to wait for it. Until then a call is timed and nothing else. Sizes that vary
meanwhile are symbols from the first compilation on.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .function_marks import COMPILED, END_WAITING, is_disabled, set_own_attributes, trace_instead
from .own_frames import own_file, passed_over
from .signatures import Signature, define, scope_of

if TYPE_CHECKING:
    from .paying import Prospect
    from .runtime.compiler import Compiler

FIRST_LOOK = 0.05
"""Seconds of calls before anything is imported that decides whether compiling will pay: it takes 2 ms."""
LONG_CALL = 0.1
"""Seconds of a call from which on compiling costs as much as a few of them."""
NOT_WAITING = 0x20 | 0x80 | 0x200
"""Flags of generators and coroutines, which run as they are."""

LOOKS_AT_FRAMES = frozenset({"_getframe", "currentframe", "inspect", "extract_stack", "f_back"})
"""Names in functions that would see the one around them; compiled code hides it."""
SETTINGS = frozenset({"firesteel.config", "firesteel.logs", "firesteel.events", "firesteel.runtime.stance"})
"""Where somebody may say that calls are to be compiled at once, if these have been imported."""

MakeCompiler = Callable[[], "Compiler"]
Again = Callable[[Any], Any]


STILL_PLAIN: weakref.WeakSet[Waiting] = weakref.WeakSet()
"""What runs as plain Python so far."""


class _Thread(threading.local):
    depth = 0
    """How many functions that wait this thread is in."""


_THREAD = _Thread()


def depth() -> int:
    """How many functions that run as plain Python until compiling pays this thread is in."""
    return _THREAD.depth


class Waiting:
    """How long something has run uncompiled, what it was given, and how it is compiled in the end."""

    def __init__(self, plain: Any, compile_it: Callable[[Waiting], Any]) -> None:
        self.plain = plain
        self._compile_it = compile_it
        STILL_PLAIN.add(self)
        self.compiled: Any = None
        self.failed = False
        self.calls = 0
        self.seconds = 0.0
        self.long_calls = 0
        """How many of the last calls took long, one after the other: one alone may have met with something else."""
        self.began: float | None = None
        """When the first call began."""
        self.seen: list[tuple[Any, ...]] = []
        """What some of the calls were given: sizes and strides of tensors, numbers."""
        self._prospect: Prospect | None = None

    def due(self, changed: bool = False) -> bool:
        """Whether to compile now; `changed`: the function has other code or other defaults now."""
        if self.compiled is not None or changed:
            return True
        if self.failed:
            return False
        if self.seconds < FIRST_LOOK and self._prospect is None and sys.modules.keys().isdisjoint(SETTINGS):
            return _under_checkpoint()
        return self._pays() or _under_checkpoint()

    def _pays(self) -> bool:
        prospect = self._prospect
        if prospect is None:
            from .paying import Prospect

            prospect = self._prospect = Prospect()
        plain = self.plain
        trains = isinstance(plain, torch.nn.Module) and plain.training and torch.is_grad_enabled()
        return prospect.pays(self.seconds, self.long_calls, bool(_THREAD.depth), trains, sys._getframe(2))

    def begin(self, given: Any) -> tuple[float, float]:
        """A call begins; `given` are its arguments."""
        _THREAD.depth += 1
        self.calls += 1
        if self.calls & (self.calls - 1) == 0:  # the first, second, fourth, ...
            self.seen.append(tuple(_looks(value) for value in given))
        if self.began is None:
            self.began = time.perf_counter()
        return time.thread_time(), self.seconds

    def stop(self, began: tuple[float, float]) -> None:
        """The call ends. Calls of the same inside of it do not count twice."""
        _THREAD.depth -= 1
        # the thread's own time: where others use the machine, compiling takes longer as well
        elapsed = time.thread_time() - began[0]
        self.long_calls = self.long_calls + 1 if elapsed >= LONG_CALL else 0
        if torch.cuda.is_initialized():  # a GPU works on while Python does something else
            self.seconds = time.perf_counter() - (self.began or 0.0)
        else:
            self.seconds = began[1] + elapsed

    def end(self) -> Any:
        """Compile it from now on; what to call. That is the plain one where the compiler cannot be had."""
        from .paying import LOCK

        with LOCK:
            if self.compiled is None and not self.failed:
                self._start_compiler()
            if self.compiled is not None:
                STILL_PLAIN.discard(self)
                return self.compiled
            return self.plain

    def _start_compiler(self) -> None:
        from . import config
        from .errors import FiresteelError, warn
        from .importing import imports_uncollected

        try:
            with imports_uncollected():
                from .support import compile_nothing, verdict

                supported = verdict().compiles
            if supported:
                self.compiled = self._compile_it(self)
            else:
                self.failed = True
                compile_nothing()
        except FiresteelError:
            raise
        except Exception as error:
            if config.raise_on_internal_error:
                raise
            self.failed = True
            warn(f"firesteel could not be started, and functions run uncompiled: {type(error).__name__}: {error}")


def _under_checkpoint() -> bool:
    """Whether `torch.utils.checkpoint` calls: it may call again in backward, and both must be compiled or neither."""
    module = sys.modules.get("torch.utils.checkpoint")
    frame = sys._getframe(2) if module is not None else None
    while frame is not None:
        if frame.f_code.co_filename == module.__file__:  # type: ignore[union-attr]
            return True
        frame = frame.f_back
    return False


def _leaving(error: BaseException) -> None:
    """An exception leaves for the user's code."""
    from .capture.tracebacks import leaving

    leaving(error)


def _looks(value: Any) -> Any:
    """What may vary of an argument: sizes and strides of a tensor as a tuple, numbers as they are."""
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return (tuple(value.shape), value.stride()) if value.layout is torch.strided else None
    return value if type(value) in (int, float) else None


def compile_now(target: Any, make: MakeCompiler, again: Again) -> Any:
    """Something that is compiled in its first call; `again` compiles copies of a module."""
    from .importing import imports_uncollected

    with imports_uncollected():  # much is imported when first needed
        from .support import compile_nothing, verdict

        if not verdict().compiles:
            return compile_nothing(target)
        from .interruptions import uninterrupted

    with uninterrupted(), imports_uncollected():
        from .compiled_functions import compile_with

        return compile_with(make(), target, again)


def plain_until_it_pays(target: Any, make: MakeCompiler, again: Again) -> Any:
    """Something that runs as plain Python for a while, and is compiled then."""
    if isinstance(target, (staticmethod, classmethod)):
        return type(target)(plain_until_it_pays(target.__func__, make, again))
    if isinstance(target, types.MethodType) and isinstance(target.__func__, types.FunctionType):
        return types.MethodType(plain_until_it_pays(target.__func__, make, again), target.__self__)
    if type(target) is functools.partial:
        return functools.partial(plain_until_it_pays(target.func, make, again), *target.args, **target.keywords)
    if isinstance(target, torch.nn.Module):
        if not is_disabled(target) and not _has_torchs_marks(target):
            return _waiting_module(target, make, again)
    elif isinstance(target, types.FunctionType):
        function = target.__dict__.get(COMPILED, target)
        signature = Signature.of(function)
        if signature is not None and not function.__code__.co_flags & NOT_WAITING and not is_disabled(function) \
                and not _has_torchs_marks(function) and LOOKS_AT_FRAMES.isdisjoint(function.__code__.co_names):
            return _waiting_function(function, signature, make)
    return compile_now(target, make, again)


def _has_torchs_marks(target: Any) -> bool:
    """Whether something is TorchScript's, or torch says more of its arguments: it is looked at more closely then."""
    if not isinstance(target, torch.nn.Module):
        return hasattr(target, "_dynamic_spec")
    scripted = any(base.__module__.startswith("torch.jit") for base in type(target).__mro__)
    return scripted or hasattr(getattr(target, "forward", None), "_dynamic_spec")


# Functions

WRAPPER = """
def wrapper({parameters}):
    if _fs_due({changed}):
        return _fs_end()({passing})
    _fs_held = [{values}]
    {dropped}_fs_began = _fs_begin(_fs_held)
    try:
        return _fs_function({taking})
    except _fs_any_error as _fs_error:
        _fs_leaving(_fs_error)
        raise
    finally:
        _fs_stop(_fs_began)
"""


def _waiting_function(function: types.FunctionType, signature: Signature, make: MakeCompiler) -> types.FunctionType:
    """A function of the same signature that is given other code once it is to be compiled."""
    def compile_it(waiting: Waiting) -> Any:
        from .importing import imports_uncollected
        from .interruptions import uninterrupted

        with uninterrupted(), imports_uncollected():
            from .compiled_functions import dispatch_from_now_on

            before = types.FunctionType(code, function.__globals__, closure=function.__closure__)
            unit = make().unit_of(before)  # it may have other code now, which is noticed in each call
            unit.saw(signature.passed_names, waiting.seen)
            dispatch_from_now_on(wrapped, unit, function, signature)
        return wrapped

    code = function.__code__
    waiting = Waiting(function, compile_it)
    scope = scope_of(function)
    scope |= {"_fs_due": waiting.due, "_fs_end": waiting.end, "_fs_begin": waiting.begin, "_fs_stop": waiting.stop,
              "_fs_leaving": _leaving, "_fs_any_error": BaseException}
    # what the program deletes is to go away: nothing but the call holds its arguments
    dropped = " = ".join(signature.names)
    text = WRAPPER.format(
        parameters=signature.parameters, changed=signature.changed, passing=signature.passing,
        values=", ".join(signature.passed_names), dropped=f"{dropped} = None\n    " if dropped else "",
        taking=signature.taken_from("_fs_held"))
    wrapper = define(text, own_file(f"call of {function.__qualname__}"), scope, function)
    wrapped: Any = functools.wraps(function)(wrapper)
    set_own_attributes(wrapped, **{COMPILED: function, END_WAITING: waiting.end})
    trace_instead(wrapped, function)
    return wrapped


# Modules

_WAITING = "_firesteel_waiting"


def _waiting_module(module: torch.nn.Module, make: MakeCompiler, again: Again) -> torch.nn.Module:
    """A twin of a module whose class gets other methods once it is to be compiled."""
    def compile_it(waiting: Waiting) -> Any:
        from .importing import imports_uncollected
        from .interruptions import uninterrupted

        with uninterrupted(), imports_uncollected():
            from .compiled_functions import expect
            from .module_wrapper import members_of

            compiler = make()
            expect(compiler, module)
            forward = getattr(module.forward, "__func__", None)
            if isinstance(forward, types.FunctionType) and (signature := Signature.of(forward)) is not None:
                compiler.unit_of(forward).saw(signature.passed_names[1:], waiting.seen)
            for name, member in members_of(compiler, module).items():
                setattr(twin_class, name, member)
        return twin

    from .module_twins import make_twin, methods, original_of

    module = original_of(module)
    waiting = Waiting(module, compile_it)
    twin = make_twin(module, again, {
        **methods(module, _call, _forward), _WAITING: waiting, END_WAITING: staticmethod(waiting.end)})
    twin_class = type(twin)
    if any(base.__module__.startswith("torch.distributed") for base in type(module).__mro__):  # of `fully_shard`
        from .torch_compat import share_state

        share_state(module, twin)
    return twin


@passed_over
def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """``module(*args, **kwargs)``."""
    waiting = type(self)._firesteel_waiting
    if waiting.due():
        return waiting.end()(*args, **kwargs)
    return _run_plain(waiting, waiting.plain, args, kwargs)


@passed_over
def _forward(self: Any, *args: Any, **kwargs: Any) -> Any:
    """``module.forward(*args, **kwargs)``."""
    waiting = type(self)._firesteel_waiting
    if waiting.due():
        return waiting.end().forward(*args, **kwargs)
    return _run_plain(waiting, waiting.plain.forward, args, kwargs)


@passed_over
def _run_plain(waiting: Waiting, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    began = waiting.begin(args)
    try:
        return function(*args, **kwargs)
    except BaseException as error:
        _leaving(error)
        raise
    finally:
        waiting.stop(began)
