"""What recordings cost: nothing when there is none, at most twice a first call and 5% of later calls when there is.

    python -m benchmarks.recording

First calls are made in fresh processes with an empty cache, in alternating order; later calls in one process, where
calls with and without a recording take turns and the best round of each counts.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext

import torch

from benchmarks import report
from benchmarks.call_overhead import time_alternating

FIRST_LIMIT, LATER_LIMIT = 2.0, 1.05


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """One kernel."""
    return x + y


def breaking(x: torch.Tensor) -> torch.Tensor:
    """Two graphs around a print of nothing."""
    y = x.sin()
    if y.sum() > 1e6:
        y = y + 1
    return y * 2


def layers() -> torch.nn.Module:
    """A small transformer."""
    one = [torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0) for _ in range(2)]
    return torch.nn.Sequential(*one)


def first_call(recorded: bool) -> float:
    """Seconds of the first forward and backward, in this process."""
    import firesteel as fs

    with fs.config.patch(disk_cache=False, raise_on_internal_error=True):
        model = fs.compile(layers(), tier="wait")
        x = torch.randn(2, 16, 64)
        torch.nn.functional.gelu(x).sum()
        with fs.recording() if recorded else nullcontext():
            start = time.perf_counter()
            model(x).sum().backward()
            return time.perf_counter() - start


def first_calls(rounds: int) -> dict[bool, float]:
    """The median of first calls, with and without a recording."""
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for recorded in times:
            code = f"from benchmarks.recording import first_call; print(first_call({recorded}))"
            out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
            times[recorded].append(float(out.splitlines()[-1]))
    return {recorded: statistics.median(all_of_it) for recorded, all_of_it in times.items()}


def later_calls() -> list[list[object]]:
    """Microseconds of calls with and without a recording."""
    import firesteel as fs

    x = torch.randn(1000)
    functions = {"x + y": (fs.compile(add, tier="wait"), (x, x)),
                 "with a break": (fs.compile(breaking, tier="wait"), (x,)),
                 "transformer": (fs.compile(layers().eval(), tier="wait"), (torch.randn(2, 16, 64),))}
    rows: list[list[object]] = []
    with torch.no_grad(), fs.config.patch(retire_slow=False):
        for name, (compiled, arguments) in functions.items():
            for _ in range(100):
                compiled(*arguments)
            best: dict[str, float] = {"off": float("inf"), "on": float("inf")}
            for _ in range(6):
                for kind in best:
                    with fs.recording() if kind == "on" else nullcontext():
                        timing = time_alternating({kind: lambda: compiled(*arguments)}, rounds=5)
                    best[kind] = min(best[kind], timing[kind].best_us)
            rows.append([name, best["off"], best["on"], best["on"] / best["off"]])
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line. The exit status is 1 when a limit is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    first = first_calls(options.rounds)
    ratio = first[True] / first[False]
    report.print_table("first call, forward and backward of a transformer, s", ["off", "on", "ratio"],
                       [[first[False], first[True], ratio]])
    rows = later_calls()
    report.print_table("later calls, µs", ["program", "off", "on", "ratio"], rows)
    met = ratio <= FIRST_LIMIT and all(float(str(row[3])) <= LATER_LIMIT for row in rows)
    print("met" if met else "missed", f"(limits: {FIRST_LIMIT} and {LATER_LIMIT})")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
