"""How much of the time of compiled calls torch.profiler shows inside of ranges with names, on five programs; and how
much of that it shows inside of kernels and operators. (The rest are guards, memory, and the profiler itself.)

To begin and end a range takes about a microsecond, which is outside of it: 8% of a call of 13 µs. A backward is
autograd's call, and a range of autograd's (CompiledFunctionBackward).

    python -m benchmarks.profiler_ranges
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks import report

LIMIT = 0.95
CALLS = 30


def programs() -> dict[str, tuple[Callable[..., object], tuple[torch.Tensor, ...], bool]]:
    """Functions, their arguments, and whether backward runs too."""
    def fused(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.sin() * 2 + x.cos(), -1)

    def breaking(x: torch.Tensor) -> torch.Tensor:
        y = x.exp().sum(-1)
        if y.sum() < 0:
            y = y + 1
        return torch.nn.functional.normalize(y, dim=0)

    linear = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256))
    convolutions = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU())
    attention = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
    return {
        "fused pointwise": (fused, (torch.randn(256, 256),), False),
        "with a break": (breaking, (torch.randn(1024, 256),), False),
        "layers, forward": (linear, (torch.randn(64, 256),), False),
        "convolutions, training": (convolutions, (torch.randn(4, 3, 32, 32),), True),
        "transformer, training": (attention, (torch.randn(4, 32, 64),), True),
    }


def share(function: Callable[..., object], arguments: tuple[torch.Tensor, ...],
          trains: bool) -> tuple[float, float, float]:
    """Seconds of the calls, which share of them is inside of named ranges, and which of these inside of kernels."""
    import firesteel as fs

    compiled = fs.compile(function, tier="wait")

    def call() -> float:
        start = time.perf_counter()
        result = compiled(*arguments)
        seconds = time.perf_counter() - start
        if trains:
            result.sum().backward()
        return seconds

    for _ in range(60):  # after 50 calls guards become machine code
        call()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        call()  # whatever a profiler does in its first range
        spent = sum(call() for _ in range(CALLS))
    ranges = [event for event in profiler.events() if event.name.startswith("firesteel: ")][1:]
    covered = sum(event.time_range.elapsed_us() for event in ranges) / 1e6
    working = sum(working_time(event) for event in ranges) / 1e6
    return spent, covered / spent, working / covered


def working_time(event: Any) -> float:
    """Microseconds of a range that are inside of kernels and operators."""
    if event.name.startswith(("kernel ", "aten::", "mkldnn::", "mkl::")):
        return float(event.time_range.elapsed_us())
    return sum(map(working_time, event.cpu_children))


def main() -> int:
    """Command line. The exit status is 1 when a program has less than the limit."""
    torch.set_num_threads(1)
    rows = []
    for name, program in programs().items():
        spent, inside, working = share(*program)
        rows.append([name, 1e6 * spent / CALLS, inside, working])
    report.print_table("calls under torch.profiler",
                       ["program", "µs a call", "share inside of ranges", "of these in kernels and operators"], rows)
    met = all(row[2] >= LIMIT for row in rows)
    print("met" if met else "missed", f"(limit: {LIMIT})")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
