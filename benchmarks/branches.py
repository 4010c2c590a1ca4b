"""A Python ``if`` on data: as a graph break, as a cond, and assumed to go one way; times of one call on one thread.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.branches [--training] [--rows 64 1024]

The columns are eager, a break at the branch (`assume_branches` off), the option `capture_branches`, and the default,
which assumes the way of flags. "both ways" takes one and the other in turn, so that nothing stays assumed. The last
columns are the first call's times in milliseconds. All sides take turns, and the best round counts.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import torch

import firesteel as fs

WEIGHT = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)) / 8
SIDES: dict[str, tuple[dict[str, Any], bool]] = {
    "break": ({"capture_branches": False}, False), "cond": ({"capture_branches": True}, False), "assumed": ({}, True)}


def pointwise(x: torch.Tensor) -> torch.Tensor:
    y = x * 2 + 1
    z = y.sin() if (y > 0).any() else y.cos()
    return z * 3 - x


def one_sided(x: torch.Tensor) -> torch.Tensor:
    y = x * 2 + 1
    if (y > 100).any():
        y = y.clamp(max=100)
    return y.sin() * 3 - x


def overflow(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x @ WEIGHT)
    if torch.isinf(y).any() or torch.isnan(y).any():
        y = torch.clamp(y, min=-1000, max=1000)
    return y @ WEIGHT


def padding(x: torch.Tensor) -> torch.Tensor:
    mask: torch.Tensor | None = x > 50
    if not mask.any():  # type: ignore[union-attr]
        mask = None
    y = x @ WEIGHT
    return torch.softmax(y if mask is None else y.masked_fill(mask, -1e9), -1)


def products(x: torch.Tensor) -> torch.Tensor:
    y = x @ WEIGHT
    y = torch.relu(y @ WEIGHT) if (y > 0).any() else torch.tanh(y @ WEIGHT)
    return y + x


def deep(x: torch.Tensor) -> torch.Tensor:
    y = x
    for _ in range(8):
        y = torch.tanh(y @ WEIGHT) if (x == x).all() else torch.sin(y @ WEIGHT)
    return y * 2


PROGRAMS = (pointwise, one_sided, overflow, padding, products, deep)


def both_ways(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], None]:
    """Call with data that goes one way, then with data that goes the other."""
    def call(x: torch.Tensor) -> None:
        function(x)
        function(x - 200)
        function(x + 200)

    return call


def seconds(call: Callable[[], Any], repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - started) / repeats


def measure(function: Callable[[torch.Tensor], torch.Tensor], rows: int, training: bool, alternate: bool,
            rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of one call and of the first one, by side."""
    x = torch.rand(rows, 64, generator=torch.Generator().manual_seed(1)).requires_grad_(training)

    def called(side: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], Any]:
        one = (lambda x: side(x).sum().backward()) if training else side
        return lambda: (both_ways(one) if alternate else one)(x)

    calls = {"eager": called(function)}
    first: dict[str, float] = {}
    for name, (options, assumes) in SIDES.items():
        with fs.config.patch(assume_branches=assumes):
            calls[name] = called(fs.compile(function, options=options))
            first[name] = seconds(calls[name], 1)
            for _ in range(2):
                seconds(calls[name], 40)
                time.sleep(0.2)
    repeats = max(3, min(2000, int(0.01 / seconds(calls["eager"], 5))))
    best = dict.fromkeys(calls, math.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            best[name] = min(best[name], seconds(call, repeats))
    return best, first


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[4, 64, 1024, 16384])
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    fs.config.retire_slow = False  # what a break costs is to be seen
    print(f"{'microseconds of a call':34}{'eager':>10}{'break':>10}{'cond':>10}{'assumed':>10}"
          f"{'cond/break':>12}{'assumed/break':>15}{'first calls, ms':>22}")
    ratios: dict[str, list[float]] = {"cond": [], "assumed": []}
    for alternate in (False, True):
        for rows in options.rows if not alternate else options.rows[1:2]:
            for function in PROGRAMS:
                best, first = measure(function, rows, options.training, alternate, options.rounds)
                shares = {name: best[name] / best["break"] for name in ratios}
                if not alternate:
                    for name, share in shares.items():
                        ratios[name].append(share)
                title = f"{function.__name__} {rows} x 64{', both ways' if alternate else ''}"
                print(f"{title:34}" + "".join(f"{value * 1e6:10.1f}" for value in best.values())
                      + f"{shares['cond']:12.2f}{shares['assumed']:15.2f}"
                      + "".join(f"{first[name] * 1e3:8.0f}" for name in SIDES), flush=True)
    for name, values in ratios.items():
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"{name} against a break: geometric mean {mean:.2f}, {min(values):.2f} to {max(values):.2f}")


if __name__ == "__main__":
    main()
