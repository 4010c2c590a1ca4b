"""Seconds from compiling a model for a GPU to its first result, firesteel beside torch.compile.

    python -m benchmarks.gpu_first_call                          # empty caches, then full ones, both sides
    python -m benchmarks.gpu_first_call --only gpt2,resnet50 --side firesteel
    python -m benchmarks.gpu_first_call --side background        # the first result without waiting for kernels

Each measurement is a fresh process. The cold one starts with empty caches, the warm one with those that the cold one
left. The construction of the model and one eager step are not counted; what a side imports, itself included, and
compiles is. All processes of a program are made ready at once (of several programs with --ahead), then they are
measured one after the other. For firesteel the stages are printed: capture is what is left when all others are taken
off.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
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
from benchmarks.gpu_models import MODELS, step

SIDES = ("firesteel", "torch")
BARS = {"cold": 3.0, "warm": 2.0}
SIMPLE = "sin_cos"
STAGES = ("capture", "trace", "passes", "recall", "lower", "schedule", "generate", "host")


def program(name: str) -> tuple[Any, tuple[Any, ...], bool]:
    """A model, or a simple function."""
    if name != SIMPLE:
        return MODELS[name]()
    return (lambda x, y: torch.sin(x) + torch.cos(y) * x), (torch.randn(1 << 20, device="cuda"),) * 2, False


def timed(module: Any, name: str, into: dict[str, float], key: str) -> None:
    """Count the seconds of a module's function."""
    function = getattr(module, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            into[key] = into.get(key, 0.0) + time.perf_counter() - started

    setattr(module, name, wrapped)


def watch_stages(into: dict[str, float]) -> None:
    """Collect the seconds of firesteel's stages."""
    from firesteel.autodiff import joint
    from firesteel.pipeline import compile as stages

    timed(joint, "trace_training", into, "trace")
    make = stages._compile

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        made = make(*args, **kwargs)
        for stage, seconds in made.seconds.items():
            into[stage] = into.get(stage, 0.0) + seconds
        return made

    stages._compile = wrapped


def measure(name: str, side: str) -> dict[str, float]:
    """Compile in this process, which must be fresh, and time the first step."""
    torch.manual_seed(0)
    function, args, train = program(name)
    parameters: list[torch.Tensor] = []
    if isinstance(function, torch.nn.Module):
        function.train(train)
        parameters = list(function.parameters()) if train else []
    found: dict[str, float] = {}
    with torch.set_grad_enabled(train):
        step(function, args, parameters)
        for parameter in parameters:
            parameter.grad = None
        torch.cuda.synchronize()
        print("READY", flush=True)
        sys.stdin.readline()
        started = time.perf_counter()
        if side == "torch":
            compiled: Callable[..., Any] = torch.compile(function)
        else:
            import firesteel as fs

            options = {"background": True} if side == "background" else None
            compiled = fs.compile(function, backend="native", options=options)
            watch_stages(found)
        began = time.perf_counter()
        step(compiled, args, parameters)
        torch.cuda.synchronize()
        ended = time.perf_counter()
    if side == "firesteel":
        found["capture"] = ended - began - sum(found.values())  # and the run itself
    return {"wall": ended - started, "imports": began - started, **found}


class Process:
    """A process that measures one program, and waits to be told to begin."""

    def __init__(self, name: str, side: str, kind: str, caches: str) -> None:
        """``caches``: a folder for what compilers keep."""
        self.name, self.side, self.kind = name, side, kind
        environment = {
            **os.environ, "FIRESTEEL_DISK_CACHE": "1", "FIRESTEEL_CACHE_DIR": f"{caches}/firesteel",
            "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor", "TRITON_CACHE_DIR": f"{caches}/triton",
        }  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu_first_call", "--child", name, side], env=environment,
            cwd=Path(__file__).resolve().parent.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def is_ready(self) -> bool:
        """Wait until it can begin; False if it has failed."""
        assert self.process.stdout is not None
        return any(line.strip() == "READY" for line in iter(self.process.stdout.readline, ""))

    def measure(self) -> dict[str, float]:
        """Let it begin, and wait for what it has measured."""
        lines = self.process.communicate("go\n")[0].splitlines()
        if self.process.returncode:
            raise RuntimeError(f"{self.name} ({self.side}, {self.kind}) failed")
        found: dict[str, float] = json.loads(lines[-1])
        return found


def measure_all(options: argparse.Namespace, sides: tuple[str, ...]) -> dict[str, dict[str, dict[str, float]]]:
    """Seconds by program, side and kind, then stage."""
    names = [name for name in (SIMPLE, *MODELS) if any(part in name for part in options.only.split(","))]
    samples: dict[str, dict[str, list[dict[str, float]]]] = {name: {} for name in names}
    groups = [names[at : at + options.ahead] for at in range(0, len(names), options.ahead)]
    for group in [group for group in groups for _ in range(options.runs)]:
        with tempfile.TemporaryDirectory() as caches:
            processes = [Process(name, side, kind, f"{caches}/{names.index(name)}_{side}")
                         for name in group for side in sides for kind in ("cold", "warm")]
            for one in processes:
                if not one.is_ready():
                    raise RuntimeError(f"{one.name} ({one.side}) failed before it was compiled")
            for one in processes:
                found = one.measure()
                samples[one.name].setdefault(f"{one.side} {one.kind}", []).append(found)
                print(one.name, one.side, one.kind, {stage: round(value, 3) for stage, value in found.items()},
                      file=sys.stderr, flush=True)
    return {name: {key: {stage: statistics.median([value.get(stage, 0.0) for value in values]) for stage in values[0]}
                   for key, values in found.items()} for name, found in samples.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs, separated by commas, whose names contain one of these")
    parser.add_argument("--side", choices=[*SIDES, "background", "both"], default="both")
    parser.add_argument("--runs", type=int, default=1, help="cold and warm processes per program and side")
    parser.add_argument("--ahead", type=int, default=1, help="programs whose processes are made ready at once")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=2, metavar=("PROGRAM", "SIDE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(*options.child)))
        return 0
    if not torch.cuda.is_available():
        print("there is no GPU", file=sys.stderr)
        return 2
    sides = SIDES if options.side == "both" else (options.side,)
    # An installed package has its byte code on disk; a checkout may have none.
    compileall.compile_dir(Path(__file__).resolve().parent.parent / "src" / "firesteel", quiet=1, workers=0)
    seconds = measure_all(options, sides)
    rows: list[list[object]] = []
    ratios: dict[str, list[float]] = {"cold": [], "warm": []}
    for name, row in seconds.items():
        cells: list[object] = [name]
        for kind in BARS:
            ours, theirs = (row.get(f"{side} {kind}", {}).get("wall") for side in (sides[0], "torch"))
            ratio = theirs / ours if ours and theirs and sides[0] != "torch" else None
            if ratio is not None:
                ratios[kind].append(ratio)
            cells += [ours, theirs, ratio]
        rows.append(cells)
    columns = [f"{kind}: {what}" for kind in BARS for what in (sides[0], "torch.compile", "ratio")]
    report.print_table(f"first step, seconds, medians of {options.runs}", ["program", *columns], rows)
    stages = [[f"{name}, {kind}", *(row[f"firesteel {kind}"].get(stage) for stage in ("imports", *STAGES))]
              for name, row in seconds.items() for kind in BARS if f"firesteel {kind}" in row]
    if stages:
        report.print_table("firesteel's stages, seconds", ["program", "imports", *STAGES], stages)
    holds = True
    for kind, bar in BARS.items():
        if ratios[kind]:
            mean = report.geometric_mean(ratios[kind])
            holds &= mean >= bar
            print(f"{kind}: geometric mean {mean:.1f} (at least {bar:g})")
    if options.json:
        report.write_json(options.json, {"versions": report.versions("triton", "llvmlite"), "seconds": seconds})
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
