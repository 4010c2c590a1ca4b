"""Guards checked by machine, on any number of random programs:

    python -m benchmarks.guard_mutation --count 5000 --jobs 2

Everything that a program reads is changed in turn, plain and compiled (`tests/fuzz/mutations.py`). Prints programs,
changes and stale results by kind, and every stale result. Exits with 1 when there was one.
"""

from __future__ import annotations

import argparse
import collections
import functools
import multiprocessing
import signal
import sys
import time
import types
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from tests.fuzz.mutations import check_guards
from tests.fuzz.parts import parts

PARTS = ("changes", "changes", "changes", "changes", "language")
"""The parts that programs are taken from, in turn."""


@dataclass(frozen=True)
class Result:
    """What was seen of one program: kinds of changes, and kind, place and difference of stale results."""

    part: str
    seed: int
    kinds: tuple[str, ...]
    stale: tuple[tuple[str, str, str], ...]


def _alarm(number: int, frame: types.FrameType | None) -> None:
    raise TimeoutError("the program did not end")


def run_one(job: tuple[str, int], limit: int, backend: str | None, seconds: int) -> Result:
    """Check one program."""
    torch.set_num_threads(1)
    part, seed = job
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(seconds)
    try:
        checked = check_guards(parts()[part](seed), limit, backend)
    except Exception as error:
        return Result(part, seed, (), (("harness", type(error).__name__, str(error)),))
    finally:
        signal.alarm(0)
    return Result(part, seed, tuple(change.kind for change in checked.changes),
                  tuple((stale.change.kind, stale.change.text, stale.difference) for stale in checked.stale))


def results(arguments: argparse.Namespace) -> Iterable[Result]:
    """Check all programs, in as many processes as asked for."""
    names = (arguments.part,) if arguments.part else PARTS
    jobs = [(names[index % len(names)], arguments.start + index) for index in range(arguments.count)]
    run = functools.partial(run_one, limit=arguments.limit, backend=arguments.backend, seconds=arguments.timeout)
    if arguments.jobs == 1:
        yield from map(run, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(arguments.jobs, maxtasksperchild=200) as pool:
        yield from pool.imap_unordered(run, jobs, chunksize=5)


def main() -> int:
    parser = argparse.ArgumentParser(description="Change what random programs read, and look for stale results.")
    parser.add_argument("--start", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=200, help="number of programs")
    parser.add_argument("--hours", type=float, help="stop after this time")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--limit", type=int, default=40, help="changes of one program; of more, this many are drawn")
    parser.add_argument("--part", choices=sorted(parts()), help="take programs from this part only")
    parser.add_argument("--backend", help="a backend of firesteel; graphs run operator by operator without it")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one program")
    arguments = parser.parse_args()

    began = time.perf_counter()
    changes: collections.Counter[str] = collections.Counter()
    stale: collections.Counter[str] = collections.Counter()
    programs = 0
    for result in results(arguments):
        programs += 1
        changes.update(result.kinds)
        for kind, place, difference in result.stale:
            stale[kind] += 1
            print(f"{result.part} {result.seed}: {place}: {' '.join(difference.split())[:300]}", flush=True)
        if arguments.hours and time.perf_counter() - began > arguments.hours * 3600:
            break
    print(f"{'kind':34} {'changes':>8} {'stale':>6}")
    for kind in sorted({*changes, *stale}):
        print(f"{kind:34} {changes[kind]:8} {stale[kind]:6}")
    print(f"{programs} programs, {changes.total()} changes in {time.perf_counter() - began:.0f} s: "
          f"{stale.total()} stale results")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
