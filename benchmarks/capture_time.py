"""Bar 4: seconds from the first call of a compiled model to its result, backend "eager", in fresh processes.

    python -m benchmarks.capture_time            # both sides, five models, median of five runs
    python -m benchmarks.capture_time --small    # the zoo's two-layer versions

Imports (torch, the model's library), the construction of the model and one eager call (which loads what the model's
library loads on first use) are not counted. Importing the compiler itself (torch._dynamo or
firesteel.compiled_functions, which both load on first use) is measured separately and shown beside. What a side imports
while it captures counts.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from tests.models import zoo

from benchmarks import report

SIDES = ("firesteel", "torch")
BAR = 5.0


class Seconds(NamedTuple):
    """What one fresh process measured."""

    first_call: float
    compiler_import: float


COMPILER_MODULE = {"firesteel": "firesteel.compiled_functions", "torch": "torch._dynamo"}


def measure(name: str, side: str, full_depth: bool) -> Seconds:
    """Compile `name` in this process, which must be fresh, and time the first call."""
    torch.set_num_threads(1)
    module, args, kwargs = zoo.build(name, full_depth=full_depth)
    with torch.no_grad():
        module(*args, **kwargs)
        start = time.perf_counter()
        importlib.import_module(COMPILER_MODULE[side])
        imported = time.perf_counter()
        if side == "firesteel":
            import firesteel as fs

            with fs.config.patch(raise_on_internal_error=True):
                begin = time.perf_counter()
                fs.compile(module, backend="eager")(*args, **kwargs)
                end = time.perf_counter()
        else:
            begin = time.perf_counter()
            torch.compile(module, backend="eager")(*args, **kwargs)
            end = time.perf_counter()
    return Seconds(end - begin, imported - start)


def _in_fresh_process(name: str, side: str, full_depth: bool) -> Seconds:
    command = [sys.executable, "-m", "benchmarks.capture_time", "--child", name, side]
    if not full_depth:
        command.append("--small")
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} ({side}) failed:\n{done.stderr}")
    return Seconds(*json.loads(done.stdout.splitlines()[-1]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line. The exit status is 1 when both sides ran and the bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--side", choices=[*SIDES, "both"], default="both")
    parser.add_argument("--runs", type=int, default=5, help="fresh processes per model and side")
    parser.add_argument("--small", action="store_true", help="two layers instead of the published depth")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=2, metavar=("MODEL", "SIDE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        name, side = options.child
        print(json.dumps(measure(name, side, full_depth=not options.small)))
        return 0
    sides = SIDES if options.side == "both" else (options.side,)
    seconds: dict[str, dict[str, float]] = {}
    imports: dict[str, list[float]] = {side: [] for side in sides}
    for name in zoo.FULL_DEPTH:
        samples: dict[str, list[Seconds]] = {side: [] for side in sides}
        for _ in range(options.runs):
            for side in sides:  # alternating, so that a slow minute of the machine hits both
                samples[side].append(_in_fresh_process(name, side, full_depth=not options.small))
        seconds[name] = {side: statistics.median(s.first_call for s in values) for side, values in samples.items()}
        for side, values in samples.items():
            imports[side].extend(s.compiler_import for s in values)
        print(name, seconds[name], file=sys.stderr, flush=True)
    rows: list[list[object]] = []
    ratios = []
    for name, row in seconds.items():
        ratio = row["torch"] / row["firesteel"] if len(sides) == 2 else None
        if ratio is not None:
            ratios.append(ratio)
        rows.append([name, row.get("firesteel"), row.get("torch"), ratio])
    mean = report.geometric_mean(ratios) if ratios else None
    means = [report.geometric_mean(r[side] for r in seconds.values()) if side in sides else None for side in SIDES]
    rows.append(["geometric mean", *means, mean])
    title = f'First call, backend "eager", median of {options.runs} fresh processes (bar: ratio at least {BAR:g})'
    report.print_table(title, ["model", "firesteel s", "torch.compile s", "ratio"], rows)
    for side, values in imports.items():
        print(f"importing the compiler ({COMPILER_MODULE[side]}), not counted above: {statistics.median(values):.2f} s")
    if options.json:
        report.write_json(
            options.json,
            {"versions": report.versions("transformers", "torchvision"), "seconds": seconds, "geometric_mean": mean},
        )
    return int(mean is not None and mean < BAR)


if __name__ == "__main__":
    sys.exit(main())
