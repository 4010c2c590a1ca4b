"""Runs of training in several processes that are late, break, recompile or die, each on its own: none waits for ever.

    python -m benchmarks.process_soak --runs 200 --processes 2
    python -m benchmarks.process_soak --runs 20 --processes 4 --kill 0.5 --seed 7

A run counts as wrong if parameters differ from those of plain training, if a process does not come back in time, or if,
with one process killed, another one goes on as if nothing had happened.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

import process_group  # noqa: E402 (lives beside the tests)
import process_soak  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what went wrong, and how many runs of which kind there were."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kill", type=float, default=0.2, help="the share of runs in which a process is killed")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    processes: process_group.Processes | None = None
    wrong, kinds = 0, Counter[str]()
    began = time.monotonic()
    for seed in range(options.seed, options.seed + options.runs):
        chance = random.Random(f"kill {seed}")
        rank = chance.randrange(options.processes) if chance.random() < options.kill else None
        plan = process_soak.draw(seed, 0, options.processes, None)
        kinds[f"{plan.kind} {plan.style}" + ("" if rank is None else ", one killed")] += 1
        if rank is not None:
            problem = process_soak.killed(seed, options.processes, rank)
        else:
            if processes is None or not processes.alive:
                processes = process_group.Processes(options.processes)
            try:
                answers = processes.call("process_soak", "train", seed, None, patience=process_soak.PATIENCE)
                problem = "; ".join(filter(None, answers))
            except process_group.Failed as failure:
                problem = str(failure)
                processes.kill()
                processes = None
        if problem:
            wrong += 1
            dead = "" if rank is None else f", process {rank} killed"
            print(f"seed {seed}, {plan.kind} {plan.style}{dead}: {problem}", flush=True)
        if (seed - options.seed) % 10 == 9:
            print(f"{seed - options.seed + 1} runs, {wrong} wrong", flush=True)
    if processes is not None:
        processes.close()
    for kind, count in sorted(kinds.items()):
        print(f"{count:5} {kind}")
    print(f"{options.runs} runs in {options.processes} processes, {time.monotonic() - began:.0f} s: {wrong} wrong")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
