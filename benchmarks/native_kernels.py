"""Single kernels in steady state: eager, torch.compile and firesteel's native backend, alternating in one process.

    python -m benchmarks.native_kernels                       # all kernels, with one thread and with all
    python -m benchmarks.native_kernels --only norm --threads 1
    python -m benchmarks.native_kernels --no-torch            # without torch.compile, whose first calls take minutes
    python -m benchmarks.native_kernels --clock cpu --threads 1   # time of the processor, for a machine that is shared

Each round times every variant; the table has the median time of each and the medians over rounds of the ratios.
Below stand kernels that only move memory, 64 MiB and more, with outputs that exist: their bandwidth as a share of
`Tensor.copy_`'s.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import firesteel as fs
from benchmarks import report

LEAST_RATIO = 0.95
MEAN_RATIO = 1.1
BANDWIDTH_SHARE = 0.77

Program = Callable[..., Any]
Make = Callable[[], tuple[Any, ...]]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Kernel:
    """A function and its arguments; for the memory-bound ones the arguments that are written."""

    name: str
    function: Program
    make: Make
    written: tuple[int, ...] = ()


KERNELS: list[Kernel] = []
MEMORY: list[Kernel] = []


def kernel(make: Make) -> Callable[[Program], Program]:
    """Register a kernel by the name of its function."""

    def register(function: Program) -> Program:
        KERNELS.append(Kernel(function.__name__, function, make))
        return function

    return register


def memory(make: Make, written: int) -> Callable[[Program], Program]:
    """Register a memory-bound kernel, with the position of the argument that it writes."""

    def register(function: Program) -> Program:
        MEMORY.append(Kernel(function.__name__, function, make, (written,)))
        return function

    return register


def floats(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Make:
    """Arguments of random numbers."""
    return lambda: tuple(torch.randn(shape, dtype=dtype) for shape in shapes)


# ---------------------------------------------------------------------------------------------------------------------
# kernels

ROWS, WIDTH = 2048, 1024


@kernel(floats((1 << 20,), (1 << 20,)))
def sin_cos(x: Any, y: Any) -> Any:
    return torch.sin(x) + torch.cos(y) * x


@kernel(floats((ROWS, WIDTH), (ROWS, WIDTH), (WIDTH,)))
def pointwise_chain(x: Any, y: Any, z: Any) -> Any:
    return torch.relu((x * y + z) * 0.5 - x) / (1 + y * y)


@kernel(floats((ROWS, WIDTH)))
def softmax(x: Any) -> Any:
    return torch.softmax(x, -1)


@kernel(floats((ROWS, WIDTH), (WIDTH,), (WIDTH,)))
def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return F.layer_norm(x, (WIDTH,), w, b)


@kernel(floats((ROWS, WIDTH), (ROWS, WIDTH), (WIDTH,), (WIDTH,)))
def residual_layer_norm(x: Any, y: Any, w: Any, b: Any) -> Any:
    z = x + y
    return z, F.layer_norm(z, (WIDTH,), w, b)


@kernel(floats((ROWS, WIDTH), (WIDTH,)))
def rms_norm(x: Any, w: Any) -> Any:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


@kernel(floats((ROWS, WIDTH), (WIDTH,)))
def bias_gelu(x: Any, b: Any) -> Any:
    return F.gelu(x + b)


@kernel(floats((ROWS, WIDTH), (WIDTH,)))
def bias_gelu_tanh(x: Any, b: Any) -> Any:
    return F.gelu(x + b, approximate="tanh")


@kernel(floats((ROWS, WIDTH)))
def silu(x: Any) -> Any:
    return F.silu(x)


@kernel(floats((ROWS, 2 * WIDTH)))
def swiglu(x: Any) -> Any:
    gate, value = x.chunk(2, -1)
    return F.silu(gate) * value


@kernel(lambda: (torch.randn(512, 8192), torch.randint(0, 8192, (512,))))
def cross_entropy(x: Any, target: Any) -> Any:
    return F.cross_entropy(x, target)


@kernel(lambda: (torch.randn(16, 64, 56, 56), *(torch.rand(64) + 0.5 for _ in range(4))))
def batch_norm_relu(x: Any, mean: Any, variance: Any, w: Any, b: Any) -> Any:
    return F.relu(F.batch_norm(x, mean, variance, w, b))


@kernel(floats((ROWS, WIDTH)))
def sum_of_rows(x: Any) -> Any:
    return (x * x).sum(1)


@kernel(floats((ROWS, WIDTH)))
def sum_of_columns(x: Any) -> Any:
    return (x * x).sum(0)


@kernel(floats((ROWS, WIDTH)))
def mean_of_all(x: Any) -> Any:
    return (x - 1).abs().mean()


@kernel(floats((64, 128, 256)))
def max_of_middle(x: Any) -> Any:
    return x.amax(1)


@kernel(floats((ROWS, WIDTH), (WIDTH, ROWS)))
def transposed_add(x: Any, y: Any) -> Any:
    return (x + y.t()) * 0.5


@kernel(lambda: (torch.randint(0, 5000, (16, 128)), torch.randn(5000, 512), torch.randn(128, 512)))
def embedding_add(tokens: Any, table: Any, positions: Any) -> Any:
    return F.embedding(tokens, table) + positions


@kernel(floats((ROWS, WIDTH), (ROWS, WIDTH)))
def cat_slice(x: Any, y: Any) -> Any:
    return torch.cat([x[:, 100:] * 2, y[:, :600] + 1], 1)


@kernel(lambda: (torch.randn(8, 8, 128, 256), torch.rand(8, 1, 128, 256) < 0.8))
def masked_softmax(x: Any, mask: Any) -> Any:
    return torch.softmax((x * 0.125).masked_fill(~mask, -1e9), -1)


@kernel(floats((4, 16, 256, 64), (256, 64), (256, 64)))
def rotary(x: Any, cos: Any, sin: Any) -> Any:
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


@kernel(floats((16, 4000)))
def top_p(logits: Any) -> Any:
    probabilities, order = torch.softmax(logits, -1).sort(-1, descending=True)
    kept = probabilities.cumsum(-1) - probabilities < 0.9
    return torch.zeros_like(logits).scatter(-1, order, probabilities * kept)


@kernel(lambda: (torch.randint(-128, 128, (ROWS, WIDTH), dtype=torch.int8), torch.rand(ROWS, 1)))
def int8_dequantise(q: Any, scale: Any) -> Any:
    return q.to(torch.float32) * scale


@kernel(floats((ROWS, WIDTH), (ROWS, WIDTH), (WIDTH,), dtype=torch.bfloat16))
def bf16_chain(x: Any, y: Any, z: Any) -> Any:
    return torch.relu((x * y + z) * 0.5 - x)


@kernel(floats((ROWS, WIDTH), (WIDTH,), (WIDTH,), dtype=torch.bfloat16))
def bf16_layer_norm(x: Any, w: Any, b: Any) -> Any:
    return F.layer_norm(x, (WIDTH,), w, b)


@kernel(floats((ROWS, WIDTH), dtype=torch.bfloat16))
def bf16_softmax(x: Any) -> Any:
    return torch.softmax(x, -1)


@kernel(floats((ROWS, WIDTH), (WIDTH,), dtype=torch.bfloat16))
def bf16_bias_gelu(x: Any, b: Any) -> Any:
    return F.gelu(x + b)


# ---------------------------------------------------------------------------------------------------------------------
# memory-bound kernels on 64 MiB

LARGE = (4096, 4096)


@memory(floats(LARGE, LARGE), 1)
def scale_into(x: Any, out: Any) -> None:
    out.copy_(torch.relu(x * 2 - 1))


@memory(floats(LARGE, LARGE, (4096,), LARGE), 3)
def chain_into(x: Any, y: Any, z: Any, out: Any) -> None:
    out.copy_(torch.relu((x * y + z) * 0.5 - x))


@memory(floats(LARGE, LARGE), 1)
def transpose_into(x: Any, out: Any) -> None:
    out.copy_(x.t() * 2)


@memory(floats(LARGE, (4096,)), 1)
def row_sums_into(x: Any, out: Any) -> None:
    out.copy_(x.sum(1))


@memory(floats(LARGE, (4096,)), 1)
def column_sums_into(x: Any, out: Any) -> None:
    out.copy_(x.sum(0))


@memory(lambda: (torch.randint(-128, 128, LARGE, dtype=torch.int8), torch.rand(4096, 1), torch.empty(LARGE)), 2)
def dequantise_into(q: Any, scale: Any, out: Any) -> None:
    out.copy_(q.to(torch.float32) * scale)


@memory(floats((8192, 4096), (8192, 4096), dtype=torch.bfloat16), 1)
def bf16_scale_into(x: Any, out: Any) -> None:
    out.copy_(torch.relu(x * 2 - 1))


@memory(floats(LARGE, LARGE), 1)
def rms_norm_into(x: Any, out: Any) -> None:
    out.copy_(x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6))


# ---------------------------------------------------------------------------------------------------------------------
# measuring


@contextmanager
def no_collection() -> Iterator[None]:
    """Without Python's collector in between."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def alternate(calls: dict[str, Callable[[], Any]], clock: Clock, seconds: float) -> dict[str, list[float]]:
    """Seconds per call of every variant in alternating rounds of about 20 ms each."""
    repeats: dict[str, int] = {}
    for name, call in calls.items():
        call()
        started = clock()
        call()
        call()
        repeats[name] = max(1, min(1000, int(0.02 / max((clock() - started) / 2, 1e-6))))
    found: dict[str, list[float]] = {name: [] for name in calls}
    ends = time.perf_counter() + seconds
    with no_collection():
        while time.perf_counter() < ends or len(found[next(iter(calls))]) < 5:
            for name, call in calls.items():
                started = clock()
                for _ in range(repeats[name]):
                    call()
                found[name].append((clock() - started) / repeats[name])
    return found


def ratio(times: dict[str, list[float]], over: str, under: str) -> float | None:
    """The median over rounds of how many times longer one variant takes than another."""
    if over not in times or under not in times:
        return None
    return statistics.median(a / b for a, b in zip(times[over], times[under], strict=True))


def variants(entry: Kernel, with_torch: bool) -> dict[str, Callable[[], Any]]:
    """The calls to compare, compiled and checked against eager."""
    torch.manual_seed(0)
    args = entry.make()
    functions: dict[str, Program] = {"eager": entry.function}
    if with_torch:
        functions["torch"] = torch.compile(entry.function, dynamic=False)
    functions["firesteel"] = fs.compile(entry.function, backend="native", dynamic=False)
    want = entry.function(*args)
    if entry.written:
        want = args[entry.written[0]].clone()
    calls = {}
    for name, function in functions.items():
        got = function(*args)
        got = args[entry.written[0]] if entry.written else got
        # only against a kernel that computes something else; how exact each is, `benchmarks.native_op_db` compares
        torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2, msg=lambda text, name=name: f"{name}: {text}")
        calls[name] = lambda function=function: function(*args)
    if entry.written:
        # as many bytes as a copy can move at best: 64 MiB in, 64 MiB out
        source, target = torch.randn(LARGE), torch.empty(LARGE)
        calls["copy_"] = lambda: target.copy_(source)
    return calls


def bytes_moved(entry: Kernel) -> int:
    return sum(arg.numel() * arg.element_size() for arg in entry.make())


def measure(threads: int, only: str, with_torch: bool, clock: Clock, seconds: float) -> list[dict[str, Any]]:
    """Times and ratios of all kernels with a number of threads."""
    torch.set_num_threads(threads)
    rows = []
    for entry in (*KERNELS, *MEMORY):
        if only not in entry.name:
            continue
        fs.reset()
        if with_torch:
            torch._dynamo.reset()
        try:
            times = alternate(variants(entry, with_torch), clock, seconds)
        except Exception as error:
            print(f"{entry.name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", file=sys.stderr)
            rows.append({"kernel": entry.name, "threads": threads, "failed": str(error)[:300]})
            continue
        row: dict[str, Any] = {"kernel": entry.name, "threads": threads, "memory": bool(entry.written)}
        row["ms"] = {name: statistics.median(found) * 1e3 for name, found in times.items()}
        row["to_torch"] = ratio(times, "torch", "firesteel")
        row["to_eager"] = ratio(times, "eager", "firesteel")
        if entry.written:
            share = bytes_moved(entry) / (2 * 4 * LARGE[0] * LARGE[1])
            row["bandwidth"] = share * (ratio(times, "copy_", "firesteel") or 0)
            row["torch_bandwidth"] = share * (ratio(times, "copy_", "torch") or 0) if with_torch else None
        rows.append(row)
        print(f"{entry.name:24} " + " ".join(f"{name} {ms:8.3f} ms" for name, ms in row["ms"].items()), file=sys.stderr)
    return rows


def print_results(rows: list[dict[str, Any]], threads: int) -> bool:
    """The tables for one number of threads; whether the bars hold."""
    title = f"{threads} thread{'s' if threads > 1 else ''}"
    measured = [row for row in rows if "ms" in row and not row["memory"]]
    report.print_table(
        f"{title}: milliseconds, and how many times faster firesteel is",
        ["kernel", "eager", "torch.compile", "firesteel", "x eager", "x torch.compile"],
        [
            (row["kernel"], row["ms"]["eager"], row["ms"].get("torch"), row["ms"]["firesteel"], row["to_eager"],
             row["to_torch"])
            for row in measured
        ],
    )  # fmt: skip
    holds = all("ms" in row for row in rows)
    ratios = [row["to_torch"] for row in measured if row["to_torch"]]
    if ratios:
        mean, least = report.geometric_mean(ratios), min(ratios)
        slower = [row["kernel"] for row in measured if row["to_torch"] and row["to_torch"] < LEAST_RATIO]
        print(f"geometric mean {mean:.3f} (at least {MEAN_RATIO}), least {least:.3f} (at least {LEAST_RATIO})")
        print(f"slower than {LEAST_RATIO}x torch.compile: {', '.join(slower) or 'none'}")
        holds &= mean >= MEAN_RATIO and not slower
    moving = [row for row in rows if "ms" in row and row["memory"]]
    if moving:
        report.print_table(
            f"{title}: memory-bound, share of copy_'s bandwidth (at least {BANDWIDTH_SHARE})",
            ["kernel", "copy_ ms", "eager ms", "torch.compile ms", "firesteel ms", "torch.compile", "firesteel"],
            [
                (row["kernel"], row["ms"]["copy_"], row["ms"]["eager"], row["ms"].get("torch"), row["ms"]["firesteel"],
                 row["torch_bandwidth"], row["bandwidth"])
                for row in moving
            ],
        )  # fmt: skip
        holds &= all(row["bandwidth"] >= BANDWIDTH_SHARE for row in moving)
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--threads", default=f"1,{torch.get_num_threads()}", help="numbers of threads")
    parser.add_argument("--no-torch", action="store_true", help="without torch.compile")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a kernel is measured")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    clock = time.perf_counter if options.clock == "wall" else time.process_time
    results, holds = [], True
    for threads in dict.fromkeys(map(int, options.threads.split(","))):
        with torch.no_grad():
            rows = measure(threads, options.only, not options.no_torch, clock, options.seconds)
        holds &= print_results(rows, threads)
        results += rows
    if options.json:
        report.write_json(options.json, {"versions": report.versions("llvmlite"), "rows": results})
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
