"""CPU seconds of the first calls of GPTs of 2, 8, 32 and 96 layers: time for a layer must not grow with their number.

    python -m benchmarks.first_call_depth                       # forward, training, training with AdamW
    python -m benchmarks.first_call_depth --only forward --layers 2,8,32
    python -m benchmarks.first_call_depth --side both --layers 2,8

Each measurement is a fresh process with empty caches. A step with an optimizer is called three times: the first call
finds no state in the optimizer. The exit status is 1 where a layer beyond the last but one depth costs more than 1.5
times what one costs before it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks import report
from benchmarks.native_first_call import FRONT, SIDES

KINDS = ("forward", "training", "optimizer")
LAYERS = (2, 8, 32, 96)
WIDTH, HEADS, WORDS, LENGTH, BATCH = 32, 2, 64, 16, 2
GROWTH = 1.5


class Block(nn.Module):
    """Attention and two linear layers, each behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.projections, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.projections(self.before_attention(x)).split(WIDTH, dim=2)
        q, k, v = [part.view(BATCH, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts]
        attention = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(attention.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))
        return x + self.narrow(F.gelu(self.wide(self.before_mlp(x))))


class GPT(nn.Module):
    """A small language model of some depth."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words) + self.places(torch.arange(LENGTH))
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


def program(kind: str, layers: int) -> Callable[[], Any]:
    """What is compiled; it takes no arguments."""
    torch.manual_seed(0)
    model = GPT(layers)
    words = torch.randint(WORDS, (BATCH, LENGTH))
    wanted = torch.randint(WORDS, (BATCH * LENGTH,))
    if kind == "forward":
        model.eval()
        return lambda: model(words)
    optimizer = torch.optim.AdamW(model.parameters()) if kind == "optimizer" else None

    def step() -> torch.Tensor:
        if optimizer is not None:
            optimizer.zero_grad()
        loss = F.cross_entropy(model(words).view(-1, WORDS), wanted)
        loss.backward()
        if optimizer is not None:
            optimizer.step()
        return loss.detach()

    return step


def measure(kind: str, layers: int, side: str) -> float:
    """CPU seconds of the first calls in this process, which must be fresh."""
    function = program(kind, layers)
    importlib.import_module(FRONT[side])
    with torch.no_grad() if kind == "forward" else contextlib.nullcontext():
        started = time.process_time()
        if side == "firesteel":
            import firesteel as fs

            with fs.config.patch(raise_on_internal_error=True):
                compiled = fs.compile(function, backend="native")
                for _ in range(3 if kind == "optimizer" else 1):
                    compiled()
        else:
            compiled = torch.compile(function)
            for _ in range(3 if kind == "optimizer" else 1):
                compiled()
        return time.process_time() - started


def in_fresh_process(kind: str, layers: int, side: str, bytecode: str) -> float:
    """`measure` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.first_call_depth", "--child", kind, str(layers), side]
    with tempfile.TemporaryDirectory() as caches:
        environment = {
            **{key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPYCACHEPREFIX": bytecode,
            "FIRESTEEL_CACHE_DIR": f"{caches}/firesteel",
            "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
        }
        root = Path(__file__).resolve().parent.parent
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{kind}, {layers} layers ({side}) failed:\n{done.stderr[-2000:]}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def per_layer(seconds: dict[int, float]) -> dict[int, float]:
    """Milliseconds of a layer between each depth and the one before it."""
    depths = sorted(seconds)
    return {more: 1000 * (seconds[more] - seconds[fewer]) / (more - fewer)
            for fewer, more in zip(depths, depths[1:], strict=False)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"some of {', '.join(KINDS)}, separated by commas")
    parser.add_argument("--layers", default=",".join(map(str, LAYERS)))
    parser.add_argument("--side", choices=[*SIDES, "both"], default="firesteel")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=3, metavar=("KIND", "LAYERS", "SIDE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        kind, layers, side = options.child
        print(json.dumps(measure(kind, int(layers), side)))
        return 0
    depths = [int(part) for part in options.layers.split(",")]
    rows: list[list[object]] = []
    holds = True
    with tempfile.TemporaryDirectory() as bytecode:
        for side in SIDES if options.side == "both" else (options.side,):
            in_fresh_process("optimizer", 1, side, bytecode)  # for the byte code
            for kind in options.only.split(",") if options.only else KINDS:
                seconds = {depth: in_fresh_process(kind, depth, side, bytecode) for depth in depths}
                each = per_layer(seconds)
                rows.append([side, kind, *seconds.values(), *each.values()])
                print(side, kind, {depth: round(value, 3) for depth, value in seconds.items()}, file=sys.stderr)
                if len(each) > 1 and side == "firesteel":
                    *_, before, last = each.values()
                    holds &= last <= GROWTH * before
    report.print_table(
        "first calls, CPU seconds by layers, and milliseconds of a layer up to each depth",
        ["side", "program", *map(str, depths), *(f"ms to {depth}" for depth in depths[1:])], rows,
    )  # fmt: skip
    if options.json:
        report.write_json(options.json, {"versions": report.versions("llvmlite"), "rows": rows})
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
