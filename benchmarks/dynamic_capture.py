"""What symbolic sizes cost while capturing: the first call with dynamic batch and sequence against a static one.

    python -m benchmarks.dynamic_capture             # GPT-2, both sides, median of five fresh processes each
    python -m benchmarks.dynamic_capture --model transformers/bert

Backend "eager"; the eager run of the model itself, which is part of the first call, is measured and taken off. As in
`capture_time`, imports, the construction of the model and one eager call come before the clock starts.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Sequence

import torch
from tests.models import zoo

from benchmarks import report
from benchmarks.dynamic_sizes import in_fresh_process

SIDES = ("firesteel", "torch")
BAR = 1.5
BATCH, SEQUENCE = 4, 24


def measure(name: str, side: str, dynamic: bool) -> float:
    """Seconds to capture in this process, which must be fresh."""
    torch.set_num_threads(1)
    module, args, kwargs = zoo.build(name, full_depth=name in zoo.FULL_DEPTH)
    tokens = torch.randint(0, 50, (BATCH, SEQUENCE))
    if args:
        args = (tokens, *args[1:])
    else:
        kwargs = {**kwargs, next(iter(kwargs)): tokens}
    with torch.no_grad():
        module(*args, **kwargs)
        start = time.perf_counter()
        module(*args, **kwargs)
        eager = time.perf_counter() - start
        if side == "firesteel":
            import firesteel as fs

            importlib.import_module("firesteel.compiled_functions")
            fs.config.raise_on_internal_error = True
            fs.config.disk_cache = False
            if dynamic:
                fs.mark_dynamic(tokens, [0, 1])
            start = time.perf_counter()
            fs.compile(module, backend="eager")(*args, **kwargs)
        else:
            dynamo = importlib.import_module("torch._dynamo")

            if dynamic:
                dynamo.mark_dynamic(tokens, [0, 1])
            start = time.perf_counter()
            torch.compile(module, backend="eager")(*args, **kwargs)
        return time.perf_counter() - start - eager


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line. The exit status is 1 when firesteel's ratio is above the bar."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--side", choices=[*SIDES, "both"], default="both")
    parser.add_argument("--model", default="transformers/gpt2")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--child", nargs=3, metavar=("MODEL", "SIDE", "KIND"))
    options = parser.parse_args(arguments)
    if options.child:
        name, side, kind = options.child
        print(json.dumps(measure(name, side, kind == "dynamic")))
        return 0
    rows, missed = [], False
    for side in SIDES if options.side == "both" else (options.side,):
        seconds: dict[str, list[float]] = {"static": [], "dynamic": []}
        for _ in range(options.runs):
            for kind, found in seconds.items():  # alternating, so that both see the same noise
                found.append(in_fresh_process("benchmarks.dynamic_capture", [options.model, side, kind]))
        static, dynamic = (statistics.median(seconds[kind]) for kind in ("static", "dynamic"))
        missed |= side == "firesteel" and dynamic / static > BAR
        rows.append([side, static, dynamic, dynamic / static])
    report.print_table(f"Capture of {options.model} with symbolic sizes (at most {BAR} times the static capture)",
                       ["side", "static (s)", "dynamic (s)", "ratio"], rows)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
