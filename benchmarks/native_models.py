"""Models in steady state, inference: eager, torch.compile and firesteel's native backend, alternating in one process.

    python -m benchmarks.native_models                     # all models, all threads
    python -m benchmarks.native_models --only resnet,bert --threads 1
    python -m benchmarks.native_models --no-torch          # without torch.compile, whose first calls take minutes

Each model runs in a process of its own. The table has the median times, the ratio to the better of eager and
torch.compile, the ratio to torch.compile, and the time outside matrix products, convolutions and attention, counted in
rounds of their own, in which the kernels of these operators look at the clock (`benchmarks.library_time`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tests.models.zoo import Example, UNet, prepare_torchvision
from torch import nn

from benchmarks import report

LEAST_RATIO = 0.95
MEAN_RATIO = 1.1
OUTSIDE_RATIO = 1.3

SUITE: dict[str, Callable[[], Example]] = {}


def entry(builder: Callable[[], Example]) -> Callable[[], Example]:
    """Register a model by the name of its builder."""
    SUITE[builder.__name__] = builder
    return builder


def build(name: str) -> Example:
    """A model with reproducible weights and inputs."""
    prepare_torchvision()
    torch.manual_seed(0)
    module, args, kwargs = SUITE[name]()
    return module.eval(), args, kwargs


# ---------------------------------------------------------------------------------------------------------------------
# models


def _torchvision(name: str, batch: int, size: int) -> Example:
    import torchvision

    return getattr(torchvision.models, name)(weights=None), (torch.randn(batch, 3, size, size),), {}


@entry
def resnet18() -> Example:
    return _torchvision("resnet18", 16, 128)


@entry
def resnet50() -> Example:
    return _torchvision("resnet50", 4, 224)


@entry
def mobilenet_v3() -> Example:
    return _torchvision("mobilenet_v3_large", 8, 224)


@entry
def convnext_tiny() -> Example:
    return _torchvision("convnext_tiny", 4, 224)


@entry
def vit_small() -> Example:
    import timm

    return timm.create_model("vit_small_patch16_224", pretrained=False), (torch.randn(8, 3, 224, 224),), {}


@entry
def bert() -> Example:
    from transformers import BertConfig, BertModel

    tokens, mask = torch.randint(3, 30000, (8, 128)), torch.ones(8, 128, dtype=torch.long)
    return BertModel(BertConfig(num_hidden_layers=4)), (tokens,), {"attention_mask": mask}


@entry
def gpt2() -> Example:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_layer=4)), (torch.randint(3, 50000, (4, 128)),), {"use_cache": False}


@entry
def llama() -> Example:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32000, hidden_size=512, intermediate_size=1376, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=8, max_position_embeddings=512,
    )  # fmt: skip
    return LlamaForCausalLM(config), (torch.randint(3, 32000, (2, 128)),), {"use_cache": False}


@entry
def t5_small() -> Example:
    from transformers import T5Config, T5ForConditionalGeneration

    tokens, target = torch.randint(3, 32000, (4, 64)), torch.randint(3, 32000, (4, 64))
    return T5ForConditionalGeneration(T5Config()), (tokens,), {"decoder_input_ids": target, "use_cache": False}


class CellLoop(nn.Module):
    """An LSTM cell applied step by step in Python."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(width, width)
        self.head = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = c = torch.zeros(x.shape[1], x.shape[2])
        outputs = []
        for step in x.unbind(0):
            h, c = self.cell(step, (h, c))
            outputs.append(h)
        return self.head(torch.stack(outputs))


@entry
def lstm_cell_loop() -> Example:
    return CellLoop(), (torch.randn(32, 16, 256),), {}


class Recommender(nn.Module):
    """Embeddings of categories and a projection of numbers, their products with each other, and a classifier."""

    def __init__(self, categories: int = 26, rows: int = 10000, width: int = 64) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(categories))
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = (categories + 1) * categories // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 256), nn.ReLU(), nn.Linear(256, 1), nn.Sigmoid())
        rows_, columns = torch.tril_indices(categories + 1, categories + 1, -1)
        self.register_buffer("rows", rows_)
        self.register_buffer("columns", columns)

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        dense = self.bottom(numbers)
        features = [dense, *(table(categories[:, k]) for k, table in enumerate(self.tables))]
        stacked = torch.stack(features, 1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))[:, self.rows, self.columns]
        return self.top(torch.cat([dense, products], 1))


@entry
def dlrm() -> Example:
    return Recommender(), (torch.randn(512, 13), torch.randint(0, 10000, (512, 26))), {}


@entry
def unet() -> Example:
    return UNet((32, 64, 128)), (torch.randn(4, 3, 96, 96),), {}


# ---------------------------------------------------------------------------------------------------------------------
# measuring


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of a result, which may be one of transformers' output objects."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for part in value.values() for tensor in tensors(part)]
    return [tensor for part in value for tensor in tensors(part)] if isinstance(value, (tuple, list)) else []


def measure(name: str, threads: int, with_torch: bool, seconds: float, clock: Callable[[], float]) -> dict[str, Any]:
    """Times of one model in this process."""
    import firesteel as fs
    from benchmarks.library_time import outside_seconds
    from benchmarks.native_kernels import alternate, ratio

    torch.set_num_threads(threads)
    module, args, kwargs = build(name)
    functions: dict[str, Any] = {"eager": module}
    if with_torch:
        functions["torch"] = torch.compile(module, dynamic=False)
    functions["firesteel"] = fs.compile(module, backend="native", dynamic=False)
    row: dict[str, Any] = {"model": name, "threads": threads, "first_call_s": {}}
    with torch.no_grad():
        want = tensors(module(*args, **kwargs))
        for variant, function in functions.items():
            started = time.perf_counter()
            got = tensors(function(*args, **kwargs))
            row["first_call_s"][variant] = time.perf_counter() - started
            torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3, msg=lambda text, v=variant: f"{v}: {text}")
        calls = {
            variant: (lambda function=function: function(*args, **kwargs)) for variant, function in functions.items()
        }
        times = alternate(calls, clock, seconds)
        row["ms"] = {variant: statistics.median(found) * 1e3 for variant, found in times.items()}
        row["best_ms"] = {variant: min(found) * 1e3 for variant, found in times.items()}
        row["to_eager"], row["to_torch"] = ratio(times, "eager", "firesteel"), ratio(times, "torch", "firesteel")
        outside = outside_seconds(calls, clock, seconds / 2)
        row["outside_ms"] = {variant: spent * 1e3 for variant, spent in outside.items()}
    return row


def in_fresh_process(name: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.native_models", "--child", name, "--threads", str(options.threads)]
    command += ["--seconds", str(options.seconds), "--clock", options.clock]
    command += ["--no-torch"] if options.no_torch else []
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"model": name, "failed": (done.stderr.strip().splitlines() or ["?"])[-1][:300]}
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def print_results(rows: list[dict[str, Any]], threads: int) -> bool:
    """The table; whether the bars hold."""
    measured = [row for row in rows if "ms" in row]
    for row in rows:
        if "failed" in row:
            print(f"{row['model']}: {row['failed']}")
    better = {row["model"]: min(filter(None, (row["to_eager"], row["to_torch"]))) for row in measured}
    report.print_table(
        f"{threads} threads: milliseconds, how many times faster firesteel is, milliseconds outside library calls",
        ["model", "eager", "torch.compile", "firesteel", "x better", "x torch.compile",
         "outside: eager", "torch.compile", "firesteel"],
        [
            (row["model"], row["ms"]["eager"], row["ms"].get("torch"), row["ms"]["firesteel"], better[row["model"]],
             row["to_torch"], *(row["outside_ms"].get(variant) for variant in ("eager", "torch", "firesteel")))
            for row in measured
        ],
    )  # fmt: skip
    slower = [name for name, ratio in better.items() if ratio < LEAST_RATIO]
    print(f"slower than {LEAST_RATIO}x the better of the two: {', '.join(slower) or 'none'}")
    holds = not slower and len(measured) == len(rows)
    ratios = [row["to_torch"] for row in measured if row["to_torch"]]
    if ratios:
        mean = report.geometric_mean(ratios)
        outside = [
            row["outside_ms"]["torch"] / row["outside_ms"]["firesteel"] for row in measured
            if row["outside_ms"].get("torch") and row["outside_ms"]["firesteel"]
        ]  # fmt: skip
        print(f"geometric mean to torch.compile {mean:.3f} (at least {MEAN_RATIO})")
        if outside:
            mean_outside = report.geometric_mean(outside)
            print(f"outside library calls, geometric mean {mean_outside:.3f} (at least {OUTSIDE_RATIO})")
        holds &= mean >= MEAN_RATIO
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models, separated by commas, whose names contain one of these")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--no-torch", action="store_true", help="without torch.compile")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long a model is measured")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        clock = time.perf_counter if options.clock == "wall" else time.process_time
        print(json.dumps(measure(options.child, options.threads, not options.no_torch, options.seconds, clock)))
        return 0
    rows = []
    for name in SUITE:
        if any(part in name for part in options.only.split(",")):
            rows.append(in_fresh_process(name, options))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    holds = print_results(rows, options.threads)
    if options.json:
        packages = ("llvmlite", "transformers", "torchvision", "timm")
        report.write_json(options.json, {"versions": report.versions(*packages), "rows": rows})
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
