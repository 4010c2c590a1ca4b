"""How often models are compiled when their sizes change: 50 random sizes each, firesteel beside torch.compile.

    python -m benchmarks.dynamic_sizes                  # both sides, five models
    python -m benchmarks.dynamic_sizes --calls 10 --side firesteel

Batch and sequence length vary for BERT, GPT-2 and an LSTM tagger, the batch for ViT, the size of the image for a U-Net.
All sizes are at least 2, and the first two calls differ in every size that varies: a size becomes a symbol when it has
been seen to change. Every call is compared with eager. Backend "eager", each model and side in a fresh process.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tests.models import zoo
from tests.models.equality import assert_same

from benchmarks import report

SIDES = ("firesteel", "torch")
BAR = 2
CALLS = 50
TOKENS = 50  # the smallest vocabulary of the models below


@dataclass(frozen=True)
class Outcome:
    """What one side did with one model."""

    model: str
    side: str
    compilations: int
    graphs: int
    seconds: float
    eager_seconds: float


def _tokens(choose: random.Random) -> torch.Tensor:
    return torch.randint(0, TOKENS, (choose.randint(2, 9), choose.randint(2, 48)))


def _batch_of(image: torch.Tensor) -> Callable[[random.Random], torch.Tensor]:
    return lambda choose: torch.randn(choose.randint(2, 12), *image.shape[1:])


def _picture(choose: random.Random) -> torch.Tensor:
    return torch.randn(2, 3, 4 * choose.randint(2, 20), 4 * choose.randint(2, 20))


MODELS = ("transformers/bert", "transformers/gpt2", "transformers/vit", "local/unet", "local/lstm")


def inputs_of(
    name: str, example: tuple[tuple[Any, ...], dict[str, Any]], calls: int
) -> list[tuple[Any, dict[str, Any]]]:
    """Arguments of `calls` calls with random sizes, the same in every process."""
    args, kwargs = example
    choose = random.Random(name)
    torch.manual_seed(1)
    if name == "transformers/vit":
        make: Callable[[random.Random], torch.Tensor] = _batch_of(next(iter((*args, *kwargs.values()))))
    else:
        make = _picture if name == "local/unet" else _tokens
    varying = {"transformers/vit": (0,), "local/unet": (2, 3)}.get(name, (0, 1))
    values = [make(choose)]
    while len(values) < calls:
        value = make(choose)
        if len(values) > 1 or all(value.size(dim) != values[0].size(dim) for dim in varying):
            values.append(value)
    return [(((value,), {}) if args else ((), {next(iter(kwargs)): value})) for value in values]


def measure(name: str, side: str, calls: int) -> Outcome:
    """Run one model on one side in this process."""
    torch.set_num_threads(1)
    module, args, kwargs = zoo.build(name)
    inputs = inputs_of(name, (args, kwargs), calls)
    graphs: list[Any] = []

    def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        graphs.append(gm)
        return gm.forward

    with torch.no_grad():
        expected = [module(*a, **k) for a, k in inputs]
        start = time.perf_counter()
        for a, k in inputs:
            module(*a, **k)
        eager_seconds = time.perf_counter() - start
        if side == "firesteel":
            import firesteel as fs

            fs.config.raise_on_internal_error = True
            fs.config.disk_cache = False
            compiled: Any = fs.compile(module, backend=backend)
        else:
            compiled = torch.compile(module, backend=backend)
        start = time.perf_counter()
        found = [compiled(*a, **k) for a, k in inputs]
        seconds = time.perf_counter() - start
    for actual, wanted in zip(found, expected, strict=True):
        assert_same(actual, wanted)
    return Outcome(name, side, _compilations(side, compiled), len(graphs), seconds, eager_seconds)


def _compilations(side: str, compiled: Any) -> int:
    if side == "firesteel":
        return firesteel_compilations()
    from torch._dynamo.utils import counters

    frames = counters["frames"]
    return int(frames["total"])


def firesteel_compilations() -> int:
    """All entries that firesteel has made in this process."""
    from firesteel.runtime.compiler import COMPILERS

    return sum(unit.total for compiler in COMPILERS for units in compiler.units.values() for unit in units)


def in_fresh_process(module: str, arguments: Sequence[str]) -> Any:
    """What a benchmark's child process printed last, as JSON."""
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-m", module, "--child", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line. The exit status is 1 when firesteel compiles a model more often than the bar allows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--side", choices=[*SIDES, "both"], default="both")
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--child", nargs=3, metavar=("MODEL", "SIDE", "CALLS"))
    options = parser.parse_args(arguments)
    if options.child:
        name, side, calls = options.child
        print(json.dumps(asdict(measure(name, side, int(calls)))))
        return 0
    sides = SIDES if options.side == "both" else (options.side,)
    rows, missed = [], False
    for name in options.models:
        by_side = {side: Outcome(**in_fresh_process("benchmarks.dynamic_sizes", [name, side, str(options.calls)]))
                   for side in sides}
        ours, theirs = by_side.get("firesteel"), by_side.get("torch")
        missed |= ours is not None and ours.compilations > BAR
        rows.append([name, ours and ours.compilations, theirs and theirs.compilations, ours and ours.graphs,
                     theirs and theirs.graphs, ours and ours.seconds, theirs and theirs.seconds,
                     next(iter(by_side.values())).eager_seconds])
    report.print_table(
        f"Compilations over {options.calls} random sizes (at most {BAR}); results equal eager's", [
            "model", "firesteel", "torch.compile", "graphs", "torch.compile", "seconds", "torch.compile", "eager",
        ], rows)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
