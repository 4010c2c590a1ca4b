"""Random programs in several processes, plain and compiled: training under the wrappers of `torch.distributed`.

    python -m benchmarks.process_programs --programs 200 --processes 2
    python -m benchmarks.process_programs --seed 41 --programs 1 --show
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

import process_group  # noqa: E402 (lives beside the tests)
import random_training  # noqa: E402

PATIENCE = 300.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what differs, and how many programs of which kind there were."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--programs", type=int, default=50)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no program after that")
    parser.add_argument("--kind", choices=sorted(random_training.KINDS))
    parser.add_argument("--show", action="store_true", help="print the programs")
    options = parser.parse_args(arguments)
    processes: process_group.Processes | None = None
    wrong, kinds = 0, Counter[str]()
    began = time.monotonic()
    for seed in range(options.seed, options.seed + options.programs):
        if time.monotonic() - began > options.seconds:
            break
        program = random_training.draw(seed, options.processes)
        if options.kind not in (None, program.kind):
            continue
        if options.show:
            print(f"seed {seed}: {program}", flush=True)
        kinds[f"{program.kind} {program.style}"] += 1
        if processes is None or not processes.alive:
            processes = process_group.Processes(options.processes)
        try:
            problem = "; ".join(filter(None, processes.call("random_training", "compare", seed, patience=PATIENCE)))
        except process_group.Failed as failure:
            problem = str(failure)
        if problem:
            wrong += 1
            print(f"seed {seed}, {program}\n  {problem}", flush=True)
            processes.kill()  # they may have come apart
            processes = None
    if processes is not None:
        processes.close()
    for kind, count in sorted(kinds.items()):
        print(f"{count:5} {kind}")
    print(f"{sum(kinds.values())} programs in {options.processes} processes, {time.monotonic() - began:.0f} s: "
          f"{wrong} wrong")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
