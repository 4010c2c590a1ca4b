"""Functions run as plain Python where that is faster.

    step(x)   broken into five graphs: 2.4 ms a call          call 17, 19, ... 31 compiled, 18, 20, ... 32 plain
              plain Python:            1.1 ms a call    ->    plain from then on

Each graph costs its guards and its launch, and small graphs between breaks may cost more than they save. After
`CALLS_BEFORE` calls of a function that ran uncompiled before, or that broke, calls run compiled and plain in turn,
`SAMPLES` times each: results are the same either way, so nothing is computed twice. The faster way stays. Of a module
in training, whose results go on to a backward pass outside, a call lasts until the next one, if its parameters moved or
got gradients in between. Not measured: functions in one graph that were compiled in their first call; other calls whose
results go on to a backward pass; whatever runs on a GPU beside Python; calls in which something is compiled or measured
inside.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch

from .. import config, rank_decisions, torch_compat
from ..logs import log
from ..own_frames import passed_over
from ..records import dataclass
from ..torch_compat.pytrees import tree_leaves
from .earlier_ways import keep_earlier_way

if TYPE_CHECKING:
    from .units import Unit

CALLS_BEFORE = 16
SAMPLES = 8
MOST_DISTURBED = 100
"""Calls of a race that say nothing, after which it ends without a winner."""
MARGIN = 0.95
"""Plain Python wins if it takes less than this share of the time."""

_PLAIN_TYPES = (int, float, complex, bool, str, bytes, type(None))


@dataclass
class _Clock:
    """What makes a measured call say nothing: counts of compilations and of measured calls, in all threads."""

    disturbances: int = 0


CLOCK = _Clock()


@dataclass(frozen=True)
class Step:
    """A call of a module in training and all that follows, up to the next call."""

    plain: bool
    began: float
    trained: tuple[Any, ...]
    disturbances: int
    thread: int


@dataclass
class Race:
    """Calls of one function, compiled and plain in turn."""

    warm_up: int = 0
    """Calls that run compiled before anything is measured."""
    compiled: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    disturbed: int = 0
    step: Step | None = None
    """What was begun with the last call."""

    @property
    def over(self) -> bool:
        return self.disturbed >= MOST_DISTURBED or min(len(self.compiled), len(self.plain)) >= SAMPLES

    @property
    def plain_wins(self) -> bool:
        return self.over and self.disturbed < MOST_DISTURBED and typical(self.plain) < MARGIN * typical(self.compiled)


def typical(seconds: list[float]) -> float:
    """The time of a call that nothing else on the machine got in the way of."""
    return fmean(sorted(seconds)[:3])


def broken_call(unit: Unit) -> None:
    """Count a call of a function whose graph broke; after some of them, the next ones are measured."""
    unit.broken_calls += 1
    if unit.broken_calls == 1:
        from .outside import count_outside

        count_outside(unit)
    if unit.broken_calls == CALLS_BEFORE and _may_retire(unit):
        _begin(unit, Race())


def watch(unit: Unit) -> None:
    """A function was compiled that has run uncompiled so far: measure it once it is warm."""
    if _may_retire(unit):
        _begin(unit, Race(CALLS_BEFORE))


def _may_retire(unit: Unit) -> bool:
    return not unit.measured and config.retire_slow and unit.compiler.backend_name == "native" \
        and unit.compiler.events is None and unit.start.index == 0 and not unit.driven \
        and not torch.cuda.is_initialized() and not rank_decisions.are_made()


def _begin(unit: Unit, race: Race) -> None:
    """Put a function before the entries of a unit that measures them."""
    unit.measured = True
    # where one thread does all the work, what other processes do need not count
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter

    @passed_over
    def measured(*args: Any) -> Any:
        others = tuple(function for function in unit.functions if function is not measured)
        if race.over or not others:
            _end(unit, measured, race)
            return unit.call(args)
        if race.step is not None:
            _end_step(race, race.step, clock(), args)
        race.warm_up -= race.warm_up > 0
        if race.warm_up or torch_compat.current_checkpoint() is not None:  # runs again in backward, the same way
            return _run_compiled(unit, others, measured, args)
        plain = len(race.plain) < len(race.compiled)
        CLOCK.disturbances += 1
        before = CLOCK.disturbances
        start = clock()
        result = unit.plain(args) if plain else _run_compiled(unit, others, measured, args)
        seconds = clock() - start
        if not _says_all(result):
            trained = _trained(args)
            if trained:
                race.step = Step(plain, start, trained, before, threading.get_ident())
            else:
                race.disturbed = MOST_DISTURBED
        elif CLOCK.disturbances != before:
            race.disturbed += 1
        else:
            (race.plain if plain else race.compiled).append(seconds)
        return result

    unit.functions = (measured, *unit.functions)


def _end_step(race: Race, step: Step, now: float, args: tuple[Any, ...]) -> None:
    """The next call begins: count the time since the last one, if that was one step of training."""
    race.step = None
    if CLOCK.disturbances != step.disturbances or threading.get_ident() != step.thread or not torch.is_grad_enabled():
        race.disturbed += 1
    elif _trained(args) == step.trained:
        race.disturbed = MOST_DISTURBED  # called more than once a step: whose part of backward is whose, nobody knows
    else:
        (race.plain if step.plain else race.compiled).append(now - step.began)


def _trained(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What changes with each step of a module's training; empty where none is among the first arguments."""
    for module in args[:2]:  # behind the variables around a function
        if isinstance(module, torch.nn.Module):
            parameters = [parameter for parameter in torch.nn.Module.parameters(module) if parameter.requires_grad]
            return tuple((torch_compat.version_of(parameter), id(parameter.grad),
                          None if parameter.grad is None else torch_compat.version_of(parameter.grad))
                         for parameter in (parameters[:2] + parameters[-2:]))
    return ()


def _end(unit: Unit, measured: Callable[..., Any], race: Race) -> None:
    unit.functions = tuple(function for function in unit.functions if function is not measured)
    if not race.plain_wins:
        return
    text = f"plain Python takes {typical(race.plain) * 1e3:.3g} ms, its graphs {typical(race.compiled) * 1e3:.3g} ms"
    keep_earlier_way(unit)
    unit.functions = unit.functions[:1] if unit.earlier_way is not None else ()
    unit.given_up = f"it is faster uncompiled: {text}"
    unit.compiler.skipped(unit, unit.given_up)
    log("fallbacks", "%s (%s) runs uncompiled from now on: %s", unit.name, unit.user_frame, text)


@passed_over
def _run_compiled(unit: Unit, entries: Sequence[Callable[..., Any]], measured: Callable[..., Any],
                  args: tuple[Any, ...]) -> Any:
    """A call as it would be if nobody measured it."""
    from .units import MISS, drive

    for function in entries:
        result = function(*args)
        if result is not MISS:
            return drive(result)
    unit.functions = tuple(entries)
    try:
        result = unit.missed(args)
    finally:
        if unit.functions:
            unit.functions = (measured, *unit.functions)
    return drive(result)


def _says_all(result: Any) -> bool:
    """Whether nothing of the work is left to a backward pass outside."""
    if not torch.is_grad_enabled():
        return True
    return all(isinstance(leaf, _PLAIN_TYPES) or isinstance(leaf, torch.Tensor) and not leaf.requires_grad
               for leaf in tree_leaves(result))
