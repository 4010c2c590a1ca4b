"""Which of several ways is fastest: timed side by side, the winner kept on disk."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

import torch

from ... import disk_cache, logs, rank_decisions
from ...records import dataclass

if TYPE_CHECKING:
    from ...functional.graph import FunctionalGraph

KIND = "tuning"
ROUNDS = 7
"""How often each way is timed, in turns; the best time counts."""
ROUND_SECONDS = 5e-4
"""How long one such time takes at least: calls are repeated until then."""
LONG_SECONDS = 0.05
"""Ways of which one call takes as long as this are timed three times only."""
GAIN = 0.97
"""Another way must take at most this part of the usual one's time to be chosen: less is noise."""
GAIN_SECONDS = 5e-8
"""And it must save this much."""

Way = Callable[[], object]


@dataclass
class Tuner:
    """Decides between alternatives, and remembers what it measured."""

    decisions: dict[str, str] = field(default_factory=dict)
    """What was decided in this compilation, by what it was about."""
    measured: int = 0
    """How many alternatives were timed, and not recalled."""
    compile: Callable[[FunctionalGraph], Callable[..., Any]] | None = None
    """Compiles a graph that is one of the alternatives."""

    def choose(self, what: str, identity: str, ways: Mapping[str, Callable[[], Way]],
               one_thread: bool = False) -> str:
        """The name of the fastest way; the first one is what is taken without measuring.

        ``identity`` says all that the times depend on, apart from the machine and its threads. Each way is given as a
        function that prepares it, which is called when there is something to measure. Ways that use ``one_thread`` are
        timed by what that costs the processor, so that other work on the machine does not count.
        """
        names = list(ways)
        key = disk_cache.digest("tuning", identity, names, self.machine())

        def recall(_: str) -> bool:
            known = disk_cache.get(KIND, key)
            recalled = None if known is None else _read(known)
            if recalled is None or recalled not in ways:
                return False
            logs.log("autotune", "%s: %s, as measured before", what, recalled)
            self.decisions[what] = recalled
            return True

        def measure_it(_: object) -> None:
            self.decisions[what] = self.measured_best(what, key, ways, one_thread)

        said = rank_decisions.said(f"tuning/{key}")
        if said is not None and said in ways:
            logs.log("autotune", "%s: %s, as another rank has measured", what, said)
            self.decisions[what] = said
            return said
        if not recall(key):
            # One process measures, and the others, which would disturb it, wait and decide alike.
            disk_cache.made_once(KIND, [key], recall, measure_it)
        agreed = rank_decisions.first(f"tuning/{key}", self.decisions[what])
        if agreed is not None and agreed in ways:
            self.decisions[what] = agreed
        return self.decisions[what]

    def measured_best(self, what: str, key: str, ways: Mapping[str, Callable[[], Way]], one_thread: bool) -> str:
        """Measure all ways; the fastest is kept on disk under the key."""
        names = list(ways)
        times = self.times({name: prepare() for name, prepare in ways.items()}, one_thread)
        self.measured += len(times)
        best = min(names, key=lambda name: times[name])
        usual = times[names[0]]
        chosen = best if times[best] <= min(GAIN * usual, usual - GAIN_SECONDS) else names[0]
        if logs.enabled("autotune"):
            table = ", ".join(f"{name} {1e6 * times[name]:.2f} us" for name in names)
            logs.log("autotune", "%s: %s (%s)", what, chosen, table)
        disk_cache.put(KIND, key, json.dumps({"chosen": chosen, "seconds": times}).encode())
        return chosen

    def machine(self) -> str:
        """What the times depend on beside what is measured."""
        return machine_identity()

    def times(self, ways: Mapping[str, Way], one_thread: bool = False) -> dict[str, float]:
        """Seconds of one call of each way."""
        return measure(ways, one_thread)


def machine_identity() -> str:
    """The CPU, torch, the printer of kernels and the number of threads."""
    from ..cpu.engine import maker
    from ..cpu.target import host

    return f"{host().description} {maker()} {torch.__version__} {torch.get_num_threads()}"


def measure(ways: Mapping[str, Way], one_thread: bool = False) -> dict[str, float]:
    """Seconds of one call of each way, the best of several rounds in turns."""
    clock = time.thread_time if one_thread else time.perf_counter
    repeats: dict[str, int] = {}
    rounds = ROUNDS
    for name, way in ways.items():
        way()  # the first call may prepare something
        once = _time(way, 1, clock)
        repeats[name] = max(1, min(int(ROUND_SECONDS / max(once, 1e-9)), 2000))
        if once > LONG_SECONDS:
            rounds = 3
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            best[name] = min(best[name], _time(way, repeats[name], clock) / repeats[name])
    return best


def _time(way: Way, repeats: int, clock: Callable[[], float]) -> float:
    started = clock()
    for _ in range(repeats):
        way()
    return clock() - started


def _read(data: bytes) -> str | None:
    try:
        chosen = json.loads(data)["chosen"]
    except (ValueError, KeyError, TypeError):
        return None
    return chosen if isinstance(chosen, str) else None
