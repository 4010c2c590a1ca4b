"""``python -m firesteel.demo``: real functions and a model, plain and compiled, side by side.

One thread, no gradients. "faster" is how many times less a compiled call takes; the first call includes compiling.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import firesteel as fs


def bar(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A branch that depends on data: two continuations."""
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def newton(x: torch.Tensor, steps: int) -> torch.Tensor:
    """A Python loop, unrolled into one graph."""
    guess = torch.ones_like(x)
    for _ in range(steps):
        guess = (guess + x / guess) / 2
    return guess


def statistics(batch: dict[str, torch.Tensor], history: list[float]) -> dict[str, torch.Tensor]:
    """Dictionaries, comprehensions and a side effect on a list that the caller keeps."""
    scaled = {name: (value - value.mean()) / (value.std() + 1e-6) for name, value in sorted(batch.items())}
    history.append(len(scaled))
    return {f"{name}_clipped": torch.clamp(value, -2, 2) for name, value in scaled.items()}


def scores(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Pointwise work and reductions over rows, fused into one kernel."""
    return torch.softmax(nn.functional.gelu(x).masked_fill(~mask, float("-inf")), dim=-1)


class Attention(nn.Module):
    """Self-attention in the usual form."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        x = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(x.transpose(1, 2).reshape(batch, length, width))


class Transformer(nn.Module):
    """A small language model."""

    def __init__(self, words: int = 100, width: int = 64, layers: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.attention = nn.ModuleList(Attention(width, 4) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.mlps = nn.ModuleList(nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
                                  for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for i, (attention, mlp) in enumerate(zip(self.attention, self.mlps, strict=True)):
            x = x + attention(self.norms[2 * i](x))
            x = x + mlp(self.norms[2 * i + 1](x))
        return self.head(x)


@dataclass(frozen=True)
class Row:
    """What the table says about one program."""

    name: str
    plain_us: float
    compiled_us: float
    first_call_ms: float
    graphs: int
    same: bool


def microseconds(calls: list[Callable[[], Any]], rounds: int = 10, seconds: float = 0.02) -> list[float]:
    """Time per call of each, in alternating rounds; the best round of each, which other processes disturb least."""
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for position, call in enumerate(calls):
            call()
            count, started = 0, time.perf_counter()
            while (elapsed := time.perf_counter() - started) < seconds:
                for _ in range(5):
                    call()
                count += 5
            best[position] = min(best[position], elapsed / count * 1e6)
    return best


def measure(name: str, function: Any, args: tuple[Any, ...]) -> Row:
    """Run a program plain and compiled."""
    expected = function(*args)
    compiled = fs.compile(function, tier="wait")
    started = time.perf_counter()
    result = compiled(*args)
    first = time.perf_counter() - started
    plain_us, compiled_us = microseconds([lambda: function(*args), lambda: compiled(*args)])
    graphs = fs.explain(function)(*args).graph_count
    return Row(name, plain_us, compiled_us, first * 1e3, graphs, equal(result, expected))


def equal(left: Any, right: Any) -> bool:
    """Whether two results hold the same numbers, up to the rounding of their dtype."""
    if isinstance(left, dict):
        return list(left) == list(right) and all(equal(left[key], right[key]) for key in left)
    try:
        torch.testing.assert_close(left, right)
    except AssertionError:
        return False
    return True


def programs() -> list[tuple[str, Any, tuple[Any, ...]]]:
    return [
        ("bar (branch on data)", bar, (torch.randn(10), torch.randn(10))),
        ("newton (loop of 10)", newton, (torch.rand(1000) + 1, 10)),
        ("statistics (dicts)", statistics, ({"a": torch.randn(100), "b": torch.randn(100)}, [])),
        ("softmax of scores", scores, (torch.randn(256, 1024), torch.rand(256, 1024) > 0.1)),
        ("transformer (4 layers)", Transformer().eval(), (torch.randint(100, (2, 16)),)),
    ]


def main() -> int:
    """Print the table and an explanation."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    console = Console()
    fs.compile(lambda x: x + 1, tier="wait")(torch.ones(1))  # what is loaded once per process is not part of any row
    with torch.no_grad(), fs.config.patch(disk_cache=False):  # the first call gets no help from earlier runs
        rows = [measure(*program) for program in programs()]
    table = Table(title="plain and compiled: µs a call, ms the first call", title_justify="left")
    table.add_column("program", no_wrap=True)
    for column in ("plain", "compiled", "faster", "first", "graphs", "same"):
        table.add_column(column, justify="right")
    for row in rows:
        faster = f"{row.plain_us / row.compiled_us:.2f}x"
        table.add_row(row.name, f"{row.plain_us:.1f}", f"{row.compiled_us:.1f}", faster, f"{row.first_call_ms:.1f}",
                      str(row.graphs), "yes" if row.same else "NO")
    console.print(table)
    console.print("\nfs.explain(bar)(a, b) on the first program:\n", style="bold")
    console.print(fs.explain(bar)(torch.randn(10), torch.ones(10)))
    return 0 if all(row.same for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
