"""When compiling something is likely to pay that runs as plain Python so far.

    for x, y in batches:     500 rounds
        step(x, y)           after 25 rounds of 3 ms the loop has 475 left, 1.4 s: not worth it
                             with 5000 rounds, 15 s: compiled now

Compiling costs as much as many calls and saves a share of each call that is still to come. How many these are the
loops around often know; otherwise a program that has run for some time is taken to run for as long again.
"""

from __future__ import annotations

import sys
import threading
import types

from . import config
from .loops_around import rounds_left
from .systems import at_fork

ONCE_LOADED = 0.5
"""The share of ``config.compile_after`` that counts when the compiler has been imported."""
INSIDE_ANOTHER = 3.0
"""How many times longer a function waits that is called by another that waits: it will be compiled with that one."""
ENDS_SOON = 2.0
"""How many times longer a function waits when the loops around it say that they end soon."""
FIRST_LOOK = 0.05
"""Seconds of calls before the loops around are looked at."""
BETWEEN_LOOKS = 1.5
"""How many times longer calls have run each time when the loops around are looked at."""
WITH_BACKWARD = 3.0
"""A forward and a backward pass take as long as this many forward passes."""

LOCK = threading.RLock()
"""Of those who begin to compile what waited."""
at_fork(after_in_child=LOCK._at_fork_reinit)  # type: ignore[attr-defined]  # its holder is not there


class Prospect:
    """What one function or module is likely to run for."""

    def __init__(self) -> None:
        self._next_look = FIRST_LOOK
        self._first: dict[tuple[int, int], tuple[int, float]] = {}
        """Loops as they were seen first: the rounds that they had left, the seconds that calls had taken."""
        self._left: float | None = None
        """Seconds that calls will take before the loops around them end; None where no loop says so."""

    def pays(self, seconds: float, long_calls: int, inside: bool, trains: bool, caller: types.FrameType) -> bool:
        """Whether to compile now.

        Args:
            seconds: how long calls have taken so far.
            long_calls: how many of the last ones took so long that compiling costs as much as a few of them: it is done
                in the third.
            inside: whether something else that waits calls.
            trains: whether a backward pass outside of the calls follows each of them.
            caller: the frame that calls.
        """
        stance = sys.modules.get("firesteel.runtime.stance")
        if stance is not None and stance.STATE.eager:
            return False
        limit = config.compile_after * (ONCE_LOADED if "firesteel.compiled_functions" in sys.modules else 1.0)
        if trains:
            seconds *= WITH_BACKWARD
        if inside:
            return seconds > INSIDE_ANOTHER * limit
        if _somebody_asks() or seconds >= ENDS_SOON * limit:
            return True
        if seconds >= self._next_look:
            self._next_look = seconds * BETWEEN_LOOKS
            self._look(seconds, caller)
        if self._left is None:
            return seconds >= limit or long_calls > 1
        return self._left >= limit

    def _look(self, seconds: float, caller: types.FrameType) -> None:
        """See how far the loops around have gone since they were seen first."""
        first, self._left = self._first, None
        for loop, left in rounds_left(caller).items():
            before, then = first.get(loop, (left, seconds))
            if left < before:
                will_take = (seconds - then) / (before - left) * left
                self._left = will_take if self._left is None else max(self._left, will_take)
            elif left > before or loop not in first:  # it is new, or has begun anew
                first[loop] = left, seconds


def _somebody_asks() -> bool:
    """Whether somebody wants to see what is compiled, or said what calls may do."""
    logs, events = sys.modules.get("firesteel.logs"), sys.modules.get("firesteel.events")
    stance = sys.modules.get("firesteel.runtime.stance")
    return bool(config.debug_dir) or logs is not None and logs.any_enabled() \
        or events is not None and events.somebody_asks() \
        or stance is not None and (stance.STATE.stance != "default" or stance.STATE.backend is not None)

