"""Models with symbolic sizes: one compilation for many sizes, and its speed beside one made for a single size.

    python -m benchmarks.native_dynamic                        # all models, all threads
    python -m benchmarks.native_dynamic --only bert,unet --threads 1 --clock cpu
    python -m benchmarks.native_dynamic --no-speed             # only compilations and equality with eager

The models of `benchmarks.native_models`, compiled with `dynamic=True`. First come random sizes: batch and sequence
length for the language models, batch and size of the image for the convolutional ones, the batch for the others; every
result is compared with that of eager. Then the size of the static suite is timed with the same compiled code and with
one compiled with `dynamic=False`, alternating. Each model runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import native_models, report
from benchmarks.dynamic_sizes import firesteel_compilations
from benchmarks.native_models import SUITE, tensors

MOST_SLOWDOWN = 1.1
SIZES = 20

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def _tokens(choose: random.Random, vocabulary: int, longest: int = 100) -> torch.Tensor:
    return torch.randint(3, vocabulary, (choose.randint(2, 8), choose.randint(4, longest)))


def _images(choose: random.Random, least: int, most: int, multiple: int = 1) -> Arguments:
    height, width = (choose.randint(least // multiple, most // multiple) * multiple for _ in range(2))
    return (torch.randn(choose.randint(2, 5), 3, height, width),), {}


def _bert(choose: random.Random) -> Arguments:
    tokens = _tokens(choose, 30000)
    return (tokens,), {"attention_mask": torch.ones_like(tokens)}


def _t5(choose: random.Random) -> Arguments:
    tokens = _tokens(choose, 32000)
    target = torch.randint(3, 32000, (tokens.shape[0], choose.randint(4, 100)))
    return (tokens,), {"decoder_input_ids": target, "use_cache": False}


def _dlrm(choose: random.Random) -> Arguments:
    batch = choose.randint(2, 700)
    return (torch.randn(batch, 13), torch.randint(0, 10000, (batch, 26))), {}


VARYING: dict[str, Callable[[random.Random], Arguments]] = {
    "resnet18": lambda choose: _images(choose, 33, 160),
    "resnet50": lambda choose: _images(choose, 33, 160),
    "mobilenet_v3": lambda choose: _images(choose, 33, 160),
    "convnext_tiny": lambda choose: _images(choose, 64, 160),
    "vit_small": lambda choose: ((torch.randn(choose.randint(2, 9), 3, 224, 224),), {}),
    "bert": _bert,
    "gpt2": lambda choose: ((_tokens(choose, 50000),), {"use_cache": False}),
    "llama": lambda choose: ((_tokens(choose, 32000),), {"use_cache": False}),
    "t5_small": _t5,
    "lstm_cell_loop": lambda choose: ((torch.randn(32, choose.randint(2, 40), 256),), {}),
    "dlrm": _dlrm,
    "unet": lambda choose: _images(choose, 16, 128, 4),
}
"""Arguments with random sizes for each model."""


def check_sizes(name: str, module: Any, compiled: Any, sizes: int) -> None:
    """Calls with random sizes, each compared with eager."""
    choose = random.Random(name)
    for _ in range(sizes):
        args, kwargs = VARYING[name](choose)
        got, want = tensors(compiled(*args, **kwargs)), tensors(module(*args, **kwargs))
        shapes = [tuple(arg.shape) for arg in args]
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3, msg=lambda text, s=shapes: f"sizes {s}: {text}")
        assert [t.stride() for t in got] == [t.stride() for t in want], f"strides differ for sizes {shapes}"


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """What one model does in this process."""
    import firesteel as fs
    from benchmarks.native_kernels import alternate, ratio

    torch.set_num_threads(options.threads)
    fs.config.raise_on_internal_error = True
    module, args, kwargs = native_models.build(name)
    compiled = fs.compile(module, backend="native", dynamic=True)
    row: dict[str, Any] = {"model": name, "threads": options.threads}
    with torch.no_grad():
        started = time.perf_counter()
        args_, kwargs_ = VARYING[name](random.Random(name))
        compiled(*args_, **kwargs_)
        row["first_call_s"] = time.perf_counter() - started
        check_sizes(name, module, compiled, options.sizes)
        row["sizes"] = options.sizes
        compiled(*args, **kwargs)
        row["compilations"] = firesteel_compilations()
        if options.no_speed:
            return row
        fixed = fs.compile(module, backend="native", dynamic=False)
        calls = {"static": lambda: fixed(*args, **kwargs), "dynamic": lambda: compiled(*args, **kwargs)}
        torch.testing.assert_close(tensors(calls["dynamic"]()), tensors(calls["static"]()), rtol=1e-3, atol=1e-3)
        clock = time.perf_counter if options.clock == "wall" else time.process_time
        times = alternate(calls, clock, options.seconds)
        row["ms"] = {variant: statistics.median(found) * 1e3 for variant, found in times.items()}
        row["best_ms"] = {variant: min(found) * 1e3 for variant, found in times.items()}
        row["slowdown"] = ratio(times, "dynamic", "static")
    return row


def in_fresh_process(name: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.native_dynamic", "--child", name, "--threads", str(options.threads)]
    command += ["--seconds", str(options.seconds), "--clock", options.clock, "--sizes", str(options.sizes)]
    command += ["--no-speed"] if options.no_speed else []
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"model": name, "failed": (done.stderr.strip().splitlines() or ["?"])[-1][:300]}
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def print_results(rows: list[dict[str, Any]], options: argparse.Namespace) -> bool:
    """The table; whether the bars hold."""
    for row in rows:
        if "failed" in row:
            print(f"{row['model']}: {row['failed']}")
    done = [row for row in rows if "failed" not in row]
    report.print_table(
        f"{options.threads} threads, {options.clock} time: compilations over {options.sizes} random sizes, speed",
        ["model", "compilations", "first call, s", "static, ms", "dynamic, ms", "dynamic / static"],
        [(row["model"], row["compilations"], row["first_call_s"], row.get("ms", {}).get("static"),
          row.get("ms", {}).get("dynamic"), row.get("slowdown")) for row in done],
    )  # fmt: skip
    holds = len(done) == len(rows) and all(row["compilations"] == 1 for row in done)
    slowdowns = [row["slowdown"] for row in done if "slowdown" in row]
    if slowdowns:
        mean = report.geometric_mean(slowdowns)
        print(f"dynamic to static, geometric mean {mean:.3f} (at most {MOST_SLOWDOWN})")
        holds &= mean <= MOST_SLOWDOWN
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models, separated by commas, whose names contain one of these")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--sizes", type=int, default=SIZES, help="how many random sizes each model is run with")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long a model is measured")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--no-speed", action="store_true", help="only compilations and equality")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child, options)))
        return 0
    rows = []
    for name in SUITE:
        if any(part in name for part in options.only.split(",")):
            rows.append(in_fresh_process(name, options))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    holds = print_results(rows, options)
    if options.json:
        packages = ("llvmlite", "transformers", "torchvision", "timm")
        report.write_json(options.json, {"versions": report.versions(*packages), "rows": rows})
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
