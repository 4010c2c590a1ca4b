"""Whether replays are faster than calls without a recording, measured in the calls of the program."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

ROUNDS = 3
"""Calls of each kind that are measured, behind one that is not."""
NOISE = 1.02
"""Times that are nearer than this count as equal."""

Run = Callable[..., Any]


class Trial:
    """Calls run with and without a recording in turn."""

    def __init__(self) -> None:
        self.calls = 0
        self.replays: list[float] = []
        self.others: list[float] = []

    def __str__(self) -> str:
        return f"{1e6 * min(self.replays):.0f} us a call, {1e6 * min(self.others):.0f} us without"

    def run(self, replay: Run, plain: Run, inputs: Sequence[Any], wait: Callable[[], None]) -> Any:
        """One call, measured. ``wait`` waits for the device."""
        self.calls += 1
        wait()
        started = time.perf_counter()
        results = replay(inputs) if self.calls % 2 else plain(*inputs)
        wait()
        if self.calls > 2:  # what a first call of either kind meets, later ones do not
            (self.replays if self.calls % 2 else self.others).append(time.perf_counter() - started)
        return results

    def is_over(self) -> bool:
        """Whether enough has been measured."""
        return len(self.others) >= ROUNDS

    def is_slower(self) -> bool:
        """Whether replays are slower."""
        return min(self.replays) > NOISE * min(self.others)
