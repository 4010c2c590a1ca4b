"""What a call of one tiny kernel costs: `torch.sin(x) + y` on four floats, one thread, without gradients.

    python -m benchmarks.native_call
    python -m benchmarks.native_call --no-torch

Eager, torch.compile and firesteel's native backend in alternating rounds; the bar is decided on the best round of each,
which another process on the machine disturbs least, and the median stands beside it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import firesteel as fs
from benchmarks import report
from benchmarks.call_overhead import time_alternating

OVER_EAGER_US = 2.0
SHARE_OF_TORCH = 1 / 3


def program(x: Any, y: Any) -> Any:
    return torch.sin(x) + y


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-torch", action="store_true", help="without torch.compile")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    x, y = torch.randn(4), torch.randn(4)
    functions: dict[str, Callable[..., Any]] = {"eager": program}
    if not options.no_torch:
        functions["torch.compile"] = torch.compile(program, dynamic=False)
    functions["firesteel"] = fs.compile(program, backend="native", dynamic=False)
    with torch.no_grad():
        for function in functions.values():
            torch.testing.assert_close(function(x, y), program(x, y))
        calls = {name: (lambda function=function: function(x, y)) for name, function in functions.items()}
        timings = time_alternating(calls, options.rounds)
    report.print_table(
        "microseconds per call", ["variant", "best", "median"],
        [(name, timing.best_us, timing.median_us) for name, timing in timings.items()],
    )  # fmt: skip
    ours, eager = timings["firesteel"].best_us, timings["eager"].best_us
    holds = ours <= eager + OVER_EAGER_US
    print(f"over eager {ours - eager:.2f} us (at most {OVER_EAGER_US})")
    if "torch.compile" in timings:
        share = ours / timings["torch.compile"].best_us
        holds &= share <= SHARE_OF_TORCH
        print(f"{share:.3f} of torch.compile's call (at most {SHARE_OF_TORCH:.3f})")
    if options.json:
        times = {name: {"best_us": timing.best_us, "median_us": timing.median_us} for name, timing in timings.items()}
        report.write_json(options.json, {"versions": report.versions("llvmlite"), "times": times})
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
