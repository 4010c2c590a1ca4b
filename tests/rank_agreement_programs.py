"""What ranks decide together: programs for `process_group`, each of which says what one process has compiled."""

from __future__ import annotations

import time
import warnings
from typing import Any

import torch
import torch.distributed as dist

import firesteel as fs
from firesteel import config, events, rank_decisions


def _scaled(x: torch.Tensor, batch: dict[str, Any]) -> torch.Tensor:
    return x * 2 + batch["mask"].sum() * batch["factor"]


def _entries(calls: Any, **settings: Any) -> list[tuple[str, str]]:
    """What is compiled where some calls are made: the kind of event and what it says."""
    seen: list[tuple[str, str]] = []

    def listen(kind: str, unit: Any, what: Any) -> None:
        seen.append((kind, str(unit.learned) if kind == "compiled" else str(what)))

    fs.reset()
    events.LISTENERS.append(listen)
    try:
        with config.patch(agree_across_ranks=True, disk_cache=False, **settings), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calls()
    finally:
        events.LISTENERS.remove(listen)
    return seen


def sizes(rank: int) -> Any:
    """Each rank has sequences of its own length, and a number of its own, from the first call on."""
    def calls() -> None:
        step = fs.compile(_scaled)
        for length in (5 + rank, 9 - rank):
            x = torch.ones(2, length)
            result = step(x, {"mask": torch.ones(3), "factor": rank + 3})
            torch.testing.assert_close(result, x * 2 + 3 * (rank + 3))

    return _entries(calls)


def alone(rank: int) -> Any:
    """Only the last rank compiles; it waits for the others no longer than it has to. Nor do they wait for it."""
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    def other(x: torch.Tensor) -> torch.Tensor:
        return x.cos() + 1

    began = time.monotonic()

    def calls() -> None:
        step = fs.compile(function)
        if rank == dist.get_world_size() - 1:
            step(torch.ones(3))
        dist.all_reduce(torch.ones(1))
        step(torch.ones(3 + rank))
        fs.compile(other)(torch.ones(4 + rank))

    compiled = _entries(calls, agree_wait=0.3)
    return compiled, time.monotonic() - began


def late(rank: int) -> Any:
    """What one rank has learned when it compiled again, the others know when they do."""
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum() * y

    def calls() -> None:
        step = fs.compile(function)
        step(torch.ones(4), torch.ones(5))
        dist.barrier()  # else the first rank may have learned something before another one compiles at all
        if rank == 0:
            step(torch.ones(6), torch.ones(5))
        dist.barrier()
        if rank:
            step(torch.ones(4), torch.ones(7))
            step(torch.ones(8), torch.ones(7))

    return _entries(calls)


def limit(rank: int) -> Any:
    """The first rank reaches the limit; the others compile no more, either."""
    def function(x: torch.Tensor, how: str) -> torch.Tensor:
        return x + len(how)

    def calls() -> None:
        step = fs.compile(function, recompile_limit=3)
        step(torch.ones(3), "")
        dist.barrier()
        if rank == 0:
            for how in "abcd":
                step(torch.ones(3), how)
        dist.barrier()
        assert step(torch.ones(3), "later")[0] == 6
        dist.barrier()

    return [kind for kind, _ in _entries(calls)]


def measured(rank: int) -> Any:
    """Each rank would choose another way."""
    from firesteel.kernels.tuning.measuring import Tuner

    class Biased(Tuner):
        def times(self, ways: Any, one_thread: bool = False) -> dict[str, float]:
            return {name: 1.0 + (number - rank) ** 2 for number, name in enumerate(ways)}

    with config.patch(agree_across_ranks=True, disk_cache=False):
        tuner = Biased()
        return tuner.choose("something", "for a test", {name: lambda: lambda: None for name in "abcd"})


def broken(rank: int) -> Any:
    """A store that fails: ranks decide for themselves."""
    class Gone:
        def check(self, names: Any) -> Any:
            raise RuntimeError("the server is gone")

    with config.patch(agree_across_ranks=True):
        board: Any = rank_decisions._board()
        board.store, kept = Gone(), board.store

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    def calls() -> None:
        assert fs.compile(function)(torch.ones(2 + rank)).sum() == 6 + 3 * rank

    try:
        return _entries(calls)
    finally:
        board.store, board.broken = kept, False
