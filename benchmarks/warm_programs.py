"""Programs that are called often: a call once everything is compiled, against eager and torch.compile, in one process.

    OMP_NUM_THREADS=1 python -m benchmarks.warm_programs                  # eager and firesteel, all programs
    python -m benchmarks.warm_programs --only experts,pairwise --torch    # with torch.compile beside
    python -m benchmarks.warm_programs --only "" --all                    # all programs of benchmarks.programs too

Each program runs in a process of its own, `--warm` calls first; then the variants take turns of about 20 ms. The table
has the median milliseconds of a call, the median over turns of how many times longer firesteel takes than the others,
and how many compilations there were.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import torch
import torch.nn.functional as F
from tests.models import zoo
from tests.whole_programs.program import PROGRAMS, Call, Compile
from torch import nn

from benchmarks import report
from benchmarks.programs.registry import load_all

ALSO = ("longformer", "experts", "nanogpt_bf16", "deberta", "deberta_v2_training")
"""Whole programs of `benchmarks.programs` that are measured here by default."""
CASES: dict[str, Callable[[Compile], Call]] = {}


def case(build: Callable[[Compile], Call]) -> Callable[[Compile], Call]:
    """Register a program by the name of its builder."""
    CASES[build.__name__] = build
    return build


def function_case(compile: Compile, function: Callable[..., Any], *args: Any) -> Call:
    """A function of tensors, called with the same ones."""
    compiled = compile(function)
    return lambda number: compiled(*args)


# ---------------------------------------------------------------------------------------------------------------------
# programs


@case
def bilinear_upsampling(compile: Compile) -> Call:
    return function_case(compile, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
                         torch.randn(4, 32, 64, 64))


@case
def bilinear_upsampling_corners(compile: Compile) -> Call:
    return function_case(compile, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
                         torch.randn(4, 32, 64, 64))


@case
def bilinear_to_size(compile: Compile) -> Call:
    return function_case(compile, lambda x: F.interpolate(x, (224, 224), mode="bilinear"), torch.randn(2, 3, 180, 200))


@case
def pairwise_distances(compile: Compile) -> Call:
    return function_case(compile, lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1),
                         torch.randn(300, 32), torch.randn(400, 32))


@case
def column_moments(compile: Compile) -> Call:
    return function_case(compile, lambda x: (x.mean(0), x.var(0)), torch.randn(2048, 512))


@case
def column_standardised(compile: Compile) -> Call:
    return function_case(compile, lambda x: (x - x.mean(0)) / (x.std(0) + 1e-5), torch.randn(2048, 512))


@case
def row_variance(compile: Compile) -> Call:
    return function_case(compile, lambda x: x.var(-1), torch.randn(256, 256))


@case
def row_variance_large(compile: Compile) -> Call:
    return function_case(compile, lambda x: x.var(-1), torch.randn(4096, 1024))


@case
def unet_autocast_training(compile: Compile) -> Call:
    model = zoo.UNet((16, 32, 64))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    x = torch.randn(2, 3, 64, 64)
    compiled = compile(model)

    def call(number: int) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            loss = compiled(x).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return call


def _averaged(compile: Compile, layers: int) -> Call:
    model = nn.Sequential(*(nn.Linear(32, 32) for _ in range(layers)))
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    update = compile(average.update_parameters)
    return lambda number: update(model)


@case
def averaged_model_10(compile: Compile) -> Call:
    return _averaged(compile, 10)


@case
def averaged_model_40(compile: Compile) -> Call:
    return _averaged(compile, 40)


@case
def averaged_model_equal_40(compile: Compile) -> Call:
    model = nn.Sequential(*(nn.Linear(32, 32) for _ in range(40)))
    average = torch.optim.swa_utils.AveragedModel(model)
    update = compile(average.update_parameters)
    return lambda number: update(model)


@case
def ema_update(compile: Compile) -> Call:
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(8)))
    shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    @compile
    @torch.no_grad()
    def update(decay: float) -> None:
        for name, p in model.named_parameters():
            shadow[name].mul_(decay).add_(p, alpha=1 - decay)

    return lambda number: update(0.99)


@case
def ema_update_of_copies(compile: Compile) -> Call:
    import copy

    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(8)))
    shadow = copy.deepcopy(model)

    @compile
    @torch.no_grad()
    def update() -> None:
        for kept, p in zip(shadow.parameters(), model.parameters()):
            kept.lerp_(p, 0.01)

    return lambda number: update()


def _mlp_step(compile: Compile, inside: bool, optimizer_class: Any) -> Call:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = optimizer_class(model.parameters(), 1e-3)
    x, y = torch.randn(16, 8), torch.randn(16, 1)
    target = model if inside else compile(model)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(target(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = compile(step) if inside else step
    return lambda number: run(x, y)


@case
def tiny_mlp_step(compile: Compile) -> Call:
    return _mlp_step(compile, True, torch.optim.SGD)


@case
def tiny_mlp_step_adam(compile: Compile) -> Call:
    return _mlp_step(compile, True, torch.optim.Adam)


@case
def tiny_mlp_model(compile: Compile) -> Call:
    return _mlp_step(compile, False, torch.optim.SGD)


@case
def numpy_random(compile: Compile) -> Call:
    return function_case(compile, lambda x: x * numpy.random.rand(), torch.randn(64))


@case
def numpy_generator(compile: Compile) -> Call:
    generator = numpy.random.default_rng(0)
    return function_case(compile, lambda x: x + torch.from_numpy(generator.normal(size=(64,))), torch.randn(64))


@case
def python_random(compile: Compile) -> Call:
    return function_case(compile, lambda x: x * random.random() + random.uniform(0, 1), torch.randn(64))


@case
def python_random_branch(compile: Compile) -> Call:
    def flipped(x: torch.Tensor) -> torch.Tensor:
        if random.random() < 0.5:
            x = x.flip(-1)
        return x * 2

    return function_case(compile, flipped, torch.randn(4, 64))


# ---------------------------------------------------------------------------------------------------------------------
# measuring


def seed() -> None:
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Times of one program in this process."""
    import firesteel as fs
    from benchmarks.native_kernels import alternate, ratio
    from firesteel.events import LISTENERS

    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    compilations: list[str] = []
    skipped: list[str] = []
    LISTENERS.append(lambda kind, unit, what: (compilations if kind == "compiled" else skipped).append(
        f"{unit.name} {kind}: {what}" if kind != "compiled" else unit.name))
    build = CASES.get(name) or PROGRAMS[name].build
    compilers: dict[str, Any] = {"eager": lambda function: function, "firesteel": fs.compile}
    if options.torch:
        compilers["torch"] = torch.compile
    calls: dict[str, Callable[[], Any]] = {}
    for variant, compile in compilers.items():
        seed()
        call = build(compile)
        seed()
        counter = iter(range(10**9))
        calls[variant] = lambda call=call, counter=counter: call(next(counter))
        for _ in range(options.warm):
            calls[variant]()
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    before = len(compilations)
    times = alternate(calls, clock, options.seconds)
    return {"program": name, "ms": {variant: statistics.median(spent) * 1e3 for variant, spent in times.items()},
            "to_eager": ratio(times, "firesteel", "eager"), "to_torch": ratio(times, "firesteel", "torch"),
            "compilations": len(compilations), "late": len(compilations) - before, "events": skipped}


def in_fresh_process(name: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.warm_programs", "--child", name, "--threads", str(options.threads)]
    command += ["--seconds", str(options.seconds), "--clock", options.clock, "--warm", str(options.warm)]
    command += ["--torch"] if options.torch else []
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"program": name, "failed": (done.stderr.strip().splitlines() or ["?"])[-1][:300]}
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def print_results(rows: list[dict[str, Any]]) -> list[str]:
    """The table; the programs that are slower than eager."""
    for row in rows:
        if "failed" in row:
            print(f"{row['program']}: {row['failed']}")
    measured = [row for row in rows if "ms" in row]
    report.print_table(
        "a warm call: milliseconds, and how many times longer firesteel takes",
        ["program", "eager", "firesteel", "torch.compile", "of eager", "of torch.compile", "compilations", "late"],
        [(row["program"], row["ms"]["eager"], row["ms"]["firesteel"], row["ms"].get("torch"), row["to_eager"],
          row["to_torch"], row["compilations"], row["late"]) for row in measured])
    slower = [row["program"] for row in measured if row["to_eager"] > 1.0]
    print(f"slower than eager: {', '.join(slower) or 'none'}")
    return slower


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs, separated by commas, whose names contain one of these")
    parser.add_argument("--all", action="store_true", help="all of benchmarks.programs too")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--warm", type=int, default=60, help="calls before the measured ones")
    parser.add_argument("--torch", action="store_true", help="torch.compile too")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long a program is measured")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    load_all()
    if options.child:
        print(json.dumps(measure(options.child, options)))
        return 0
    names = [*CASES, *(PROGRAMS if options.all else ALSO)]
    rows = []
    for name in names:
        if any(part in name for part in options.only.split(",")):
            rows.append(in_fresh_process(name, options))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    slower = print_results(rows)
    if options.json:
        report.write_json(options.json, {"versions": report.versions("llvmlite", "transformers"), "rows": rows})
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
