"""Seconds from the first call of a compiled program to its result, native backend beside torch.compile.

    python -m benchmarks.native_first_call                    # cold and warm, both sides
    python -m benchmarks.native_first_call --only sin_cos,bert
    python -m benchmarks.native_first_call --side firesteel

Each measurement is a fresh process. The cold one starts with empty caches, the warm one with those that the cold one
left. Imports of torch, of the model's library and of the compiler's front, the construction of the model and one eager
call are not counted; what a side imports while it compiles is.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import report
from benchmarks.native_models import SUITE, build

SIDES = ("firesteel", "torch")
COLD_RATIO = 20.0
WARM_RATIO = 3.0
SIMPLE_S = 0.2
SIMPLE = "sin_cos"
FRONT = {"firesteel": "firesteel.compiled_functions", "torch": "torch._dynamo"}


def program(name: str) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """A model of the suite, or the simple function."""
    if name == SIMPLE:
        return (lambda x, y: torch.sin(x) + torch.cos(y) * x), (torch.randn(1 << 20), torch.randn(1 << 20)), {}
    return build(name)


def measure(name: str, side: str) -> dict[str, float]:
    """Compile in this process, which must be fresh, and time the first two calls."""
    function, args, kwargs = program(name)
    with torch.no_grad():
        function(*args, **kwargs)
        importlib.import_module(FRONT[side])
        started, used = time.perf_counter(), _processor_seconds()
        if side == "firesteel":
            import firesteel as fs

            compiled = fs.compile(function, backend="native")
        else:
            compiled = torch.compile(function)
        compiled(*args, **kwargs)
        return {"wall": time.perf_counter() - started, "cpu": _processor_seconds() - used}


def _processor_seconds() -> float:
    return sum(usage.ru_utime + usage.ru_stime
               for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def in_fresh_process(name: str, side: str, caches: str, bytecode: str) -> dict[str, float]:
    """Measure in a process of its own, with these folders for what compilers and Python itself keep."""
    command = [sys.executable, "-m", "benchmarks.native_first_call", "--child", name, side]
    # An installed package has its byte code on disk; a checkout may have none.
    environment = {
        **{key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
        "PYTHONPYCACHEPREFIX": bytecode,
        "FIRESTEEL_DISK_CACHE": "1",
        "FIRESTEEL_CACHE_DIR": f"{caches}/firesteel",
        "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
    }
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} ({side}) failed:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_all(options: argparse.Namespace, sides: tuple[str, ...], bytecode: str) -> dict[str, dict[str, float]]:
    """Seconds by program, then by side and kind."""
    for side in sides:
        with tempfile.TemporaryDirectory() as caches:
            in_fresh_process(SIMPLE, side, caches, bytecode)
    seconds: dict[str, dict[str, float]] = {}
    for name in (SIMPLE, *SUITE):
        if not any(part in name for part in options.only.split(",")):
            continue
        samples: dict[str, list[float]] = {}
        for _ in range(options.runs):
            for side in sides:
                with tempfile.TemporaryDirectory() as caches:
                    for kind in ("cold", "warm"):
                        found = in_fresh_process(name, side, caches, bytecode)
                        samples.setdefault(f"{side} {kind}", []).append(found[options.clock])
        seconds[name] = {key: statistics.median(values) for key, values in samples.items()}
        print(name, {key: round(value, 3) for key, value in seconds[name].items()}, file=sys.stderr, flush=True)
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs, separated by commas, whose names contain one of these")
    parser.add_argument("--side", choices=[*SIDES, "both"], default="both")
    parser.add_argument("--runs", type=int, default=1, help="cold and warm processes per program and side")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=2, metavar=("PROGRAM", "SIDE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(*options.child)))
        return 0
    sides = SIDES if options.side == "both" else (options.side,)
    with tempfile.TemporaryDirectory() as bytecode:
        seconds = measure_all(options, sides, bytecode)
    rows: list[list[object]] = []
    ratios: dict[str, list[float]] = {"cold": [], "warm": []}
    for name, row in seconds.items():
        cells: list[object] = [name]
        for kind in ("cold", "warm"):
            ours, theirs = row.get(f"firesteel {kind}"), row.get(f"torch {kind}")
            ratio = theirs / ours if ours and theirs else None
            if ratio is not None:
                ratios[kind].append(ratio)
            cells += [ours, theirs, ratio]
        rows.append(cells)
    report.print_table(
        f"first call, {options.clock} seconds, medians of {options.runs}",
        ["program", "cold: firesteel", "torch.compile", "ratio", "warm: firesteel", "torch.compile", "ratio"], rows,
    )  # fmt: skip
    holds = True
    for kind, bar in (("cold", COLD_RATIO), ("warm", WARM_RATIO)):
        if ratios[kind]:
            mean = report.geometric_mean(ratios[kind])
            holds &= mean >= bar
            print(f"{kind}: geometric mean {mean:.1f} (at least {bar:g})")
    simple = seconds.get(SIMPLE, {}).get("firesteel cold")
    if simple is not None:
        holds &= simple < SIMPLE_S
        print(f"sin(x)+cos(y)*x cold: {simple:.3f} s (under {SIMPLE_S})")
    if options.json:
        packages = ("llvmlite", "transformers", "torchvision", "timm")
        report.write_json(options.json, {"versions": report.versions(*packages), "seconds": seconds})
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
