"""``firesteel run --auto``: modules that nobody asked to compile are compiled where that measures faster.

    model(x)     the outermost call of a module: plain, until compiling may pay (see `firesteel.waiting`)
    ...
    model(x)     compiled and plain in turn, eight times each, timed from one call to the next
    ...
    model(x)     in the faster way from then on

From one call of a model to the next is a step of the program, with the backward pass, the optimizer and whatever a GPU
does meanwhile. Modules inside of others are compiled with them.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
import weakref
from typing import Any

import torch

from firesteel import compiling, waiting
from firesteel.function_marks import END_WAITING
from firesteel.logs import log
from firesteel.module_twins import ORIGINAL
from firesteel.torch_compat import patches

from .installing import AUTOMATIC

CALLS_BEFORE = 2
"""Calls of a module before it is looked at: programs also make modules that they call once."""
WARM_UP = 5
"""Compiled calls before anything is measured."""
SAMPLES = 8
MARGIN = 0.97
"""The compiled way stays if it takes less than this share of the plain one's time."""
LEFT_ALONE = ("torch.nn.parallel", "torch.distributed", "torch.jit")
"""Modules of these packages hand their calls to a module inside, which is then the outermost."""

_ATTRIBUTE = "_compiled_call_impl"
_HELD = "_firesteel_automatic"


class _Thread(threading.local):
    depth = 0


_THREAD = _Thread()


class Chosen:
    """One module: how often it was called, its compiled twin, and what was measured."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.name = type(module).__qualname__
        self.whose = id(module)
        self.calls = 0
        self.warm_up = WARM_UP
        self.twin: Any = None
        self.plain: list[float] = []
        self.compiled: list[float] = []
        self.verdict: bool | None = None
        """Whether it runs compiled for good; None while that is open."""
        self._open: tuple[list[float], float] | None = None
        """The list that the step which is running now belongs to, and when it began."""

    def __reduce__(self) -> Any:
        """Copies and pickles of a module begin anew: they have None here, which needs no firesteel to be read."""
        return type(None), ()

    def __str__(self) -> str:
        if not (self.plain and self.compiled):
            return f"{self.name}: {self.calls} calls, plain: too short to pay" if self.twin is None or not \
                self.is_compiled else f"{self.name}: {self.calls} calls, compiled, too few to measure"
        times = f"a step takes {typical(self.plain) * 1e3:.3g} ms plain, {typical(self.compiled) * 1e3:.3g} ms compiled"
        return f"{self.name}: {self.calls} calls, {'compiled' if self.verdict else 'plain'}: {times}"

    @property
    def is_compiled(self) -> bool:
        """Whether waiting is over and calls of the twin are compiled."""
        return self.twin is not None and type(self.twin)._firesteel_waiting.compiled is not None

    def target(self, module: Any) -> Any:
        """What to call in place of the module; None for the module as it is."""
        self.calls += 1
        if self.verdict is not None:
            return self.twin if self.verdict else None
        if self.calls <= CALLS_BEFORE:
            return None
        if self.twin is None:
            self.twin = _twin(module)
            if self.twin is None:
                self.verdict = False
                return None
        if not self.is_compiled:
            return self.twin
        if self.warm_up:
            self.warm_up -= 1
            return self.twin
        return self._measured()

    def _measured(self) -> Any:
        now = time.perf_counter()
        if self._open is not None:
            samples, began = self._open
            samples.append(now - began)
        if min(len(self.plain), len(self.compiled)) >= SAMPLES:
            self._open = None
            self.verdict = typical(self.compiled) < MARGIN * typical(self.plain)
            log("fallbacks", "--auto: %s", self)
            return self.twin if self.verdict else None
        plain = len(self.plain) < len(self.compiled)
        self._open = (self.plain if plain else self.compiled, now)
        return None if plain else self.twin


def typical(seconds: list[float]) -> float:
    """The time of a step that nothing else on the machine got in the way of."""
    best = sorted(seconds)[:3]
    return sum(best) / len(best)


_chosen: weakref.WeakSet[Chosen] = weakref.WeakSet()


def _twin(module: torch.nn.Module) -> Any:
    """The compiled twin of a module, which runs as plain Python until compiling pays; None if there is no such twin."""
    try:
        twin = compiling.compile(module, tier="auto")
    except Exception as error:  # a class that allows no subclasses, for example
        log("fallbacks", "--auto leaves %s alone: %s", type(module).__name__, error)
        return None
    return twin if hasattr(type(twin), ORIGINAL) and hasattr(type(twin), END_WAITING) else None


def _chosen_for(module: torch.nn.Module) -> Chosen:
    # The module holds it, and not a table: its twin holds the module, which is to go away with the program's own
    # references.
    known: Chosen | None = module.__dict__.get(_HELD)
    if known is None or known.whose != id(module):  # one that was copied with the module's attributes
        known = module.__dict__[_HELD] = Chosen(module)
        _chosen.add(known)
    return known


def _call(module: Any, *args: Any, **kwargs: Any) -> Any:
    """``module(*args, **kwargs)``, where no other module is being called."""
    target = None if _is_compiled_already(module) else _chosen_for(module).target(module)
    _THREAD.depth += 1
    try:
        return (module if target is None else target)(*args, **kwargs)
    finally:
        _THREAD.depth -= 1


def _is_compiled_already(module: Any) -> bool:
    return "_firesteel_twin" in vars(module) or hasattr(type(module), ORIGINAL)


class _WhereCallsAreAnswered:
    """A class attribute of nn.Module, in place of None: what ``Module.__call__`` calls instead of ``forward``. That a
    module was compiled by its own ``compile()`` is an attribute of the object, which goes before this one."""

    def __get__(self, module: Any, owner: type) -> Any:
        if module is None or _THREAD.depth or waiting.depth() or _traced() \
                or type(module).__module__.startswith(LEFT_ALONE):
            return None
        return functools.partial(_call, module)


def _traced() -> bool:
    """Whether another compiler is looking."""
    is_tracing: Any = getattr(sys.modules.get("torch.jit._trace"), "is_tracing", None)
    return is_tracing is not None and bool(is_tracing())


def compile_modules_that_pay() -> None:
    """From now on outermost calls of modules are compiled where that measures faster."""
    if AUTOMATIC not in patches.applied():
        patches.set_attribute(AUTOMATIC, torch.nn.Module, _ATTRIBUTE, _WhereCallsAreAnswered())


def outcome() -> list[str]:
    """A line for each module that was looked at and is still there."""
    return sorted(str(chosen) for chosen in _chosen if chosen.calls > CALLS_BEFORE)


