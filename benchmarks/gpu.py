"""Kernels and models on an NVIDIA GPU: eager, torch.compile and firesteel, in the default mode and with CUDA graphs.

    python -m benchmarks.gpu                          # kernels, then models; one table each, then the bars
    python -m benchmarks.gpu --what kernels --only softmax,rms
    python -m benchmarks.gpu --what models --json out.json
    python -m benchmarks.gpu --what kernels --without torch   # firesteel against eager alone
    python -m benchmarks.gpu --together               # a third of the time, without first calls

A case is first checked on fresh random inputs against a float64 reference (error at most twice eager's, and within the
tolerance of the dtype), or against eager where the random numbers or the size do not allow that. Times are medians of
repeated calls: on the device, over several sets of inputs so that caches do not help; for cases of one tiny kernel, of
the whole call as the host sees it. Bandwidths are shown beside that of a copy, measured in the same run.

Every figure comes from a process that is alone on the machine, but for the next process, which imports libraries while
the one before it repeats calls. For each model and compiler there are two: the first has empty caches (first call,
default mode), the second has the caches of the first (first call in a second process, then CUDA graphs). With --once
there is one, and no first call in a second process. First calls include what the compiler imports. For all kernels
together there is one process for each side. Memory is the peak of what is allocated, and with CUDA graphs, of whose
pools only a part counts as allocated, what is reserved when all that is not in use has been given back.

With --together all processes of a mode compile at once, and when the last of them is done they are measured one by one.
"""

from __future__ import annotations

import argparse
import compileall
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

SIDES = ("eager", "torch", "torch-graphs", "fs", "fs-graphs")


def rand(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype).requires_grad_(grad)


def sin_cos(x, y):
    return torch.sin(x) + torch.cos(y) * x


def softmax(x):
    return torch.softmax(x, -1)


def layer_norm_gelu(x, w, b):
    return F.gelu(F.layer_norm(x, x.shape[-1:], w, b))


def rms_norm(x, w):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


def tiny(x):
    return torch.relu(x + 1.0)


def bias_gelu(x, b):
    return F.gelu(x + b)


def add_relu(x, y):
    return torch.relu(x + y)


def silu_mul(x, y):
    return F.silu(x) * y


def residual_norm(x, y, w, b):
    z = x + y
    return z, F.layer_norm(z, z.shape[-1:], w, b)


def log_softmax_nll(x, target):
    return F.cross_entropy(x, target)


def row_sum(x):
    return x.sum(-1)


def column_sum(x):
    return x.sum(0)


def total_sum(x):
    return (x * x).sum()


def mean_std(x):
    return x.mean(-1), x.std(-1)


def arg_max(x):
    return x.argmax(-1)


def transposed_add(x, y):
    return x + y.t()


def batch_norm_relu(x, mean, var, w, b):
    return F.relu(F.batch_norm(x, mean, var, w, b))


def rope(x, cos, sin):
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


def embedding_add(tokens, table, positions):
    return table[tokens] + positions


def concat_scale(x, y):
    return torch.cat([x * 2, y], 1)


def dequantise(q, scale):
    return q.to(torch.float32) * scale


def masked_softmax(x, mask):
    return torch.softmax(x.masked_fill(mask, float("-inf")), -1)


def group_norm_silu(x, w, b):
    return F.silu(F.group_norm(x, 32, w, b))


def message_passing(x, sources, targets, weights):
    return torch.zeros_like(x).index_add(0, targets, x[sources] * weights)


def index_put(x, index, values):
    return x.index_put((index,), values, accumulate=True)


BF16 = torch.bfloat16
EDGES, POINTS = 2_000_000, 100_000


def points(*shape: int) -> torch.Tensor:
    return torch.randint(0, POINTS, shape, device="cuda")


KERNELS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "tiny": (tiny, lambda: (rand(64),)),
    "sin_cos 64Mi": (sin_cos, lambda: (rand(1 << 26), rand(1 << 26))),
    "softmax 8192²": (softmax, lambda: (rand(8192, 8192),)),
    "layer_norm_gelu 8192²": (layer_norm_gelu, lambda: (rand(8192, 8192), rand(8192), rand(8192))),
    "rms_norm 16384×4096 bf16": (rms_norm, lambda: (rand(16384, 4096, dtype=BF16), rand(4096, dtype=BF16))),
    "bias_gelu 8192×4096 bf16": (bias_gelu, lambda: (rand(8192, 4096, dtype=BF16), rand(4096, dtype=BF16))),
    "add_relu 8192² bf16": (add_relu, lambda: (rand(8192, 8192, dtype=BF16), rand(8192, 8192, dtype=BF16))),
    "silu_mul 8192² bf16": (silu_mul, lambda: (rand(8192, 8192, dtype=BF16), rand(8192, 8192, dtype=BF16))),
    "residual_norm 16384×1024": (
        residual_norm, lambda: (rand(16384, 1024), rand(16384, 1024), rand(1024), rand(1024))),
    "cross_entropy 4096×50257": (
        log_softmax_nll, lambda: (rand(4096, 50257), torch.randint(0, 50257, (4096,), device="cuda"))),
    "row_sum 16384×4096": (row_sum, lambda: (rand(16384, 4096),)),
    "column_sum 16384×4096": (column_sum, lambda: (rand(16384, 4096),)),
    "total_sum 64Mi": (total_sum, lambda: (rand(1 << 26),)),
    "mean_std 16384×4096": (mean_std, lambda: (rand(16384, 4096),)),
    "arg_max 16384×4096": (arg_max, lambda: (rand(16384, 4096),)),
    "transposed_add 8192²": (transposed_add, lambda: (rand(8192, 8192), rand(8192, 8192))),
    "batch_norm_relu 64×256×56²": (
        batch_norm_relu, lambda: (rand(64, 256, 56, 56), rand(256), rand(256).abs() + 0.5, rand(256), rand(256))),
    "rope 8×32×2048×128 bf16": (
        rope, lambda: (rand(8, 32, 2048, 128, dtype=BF16), rand(2048, 128, dtype=BF16), rand(2048, 128, dtype=BF16))),
    "embedding_add 16×2048×1024": (
        embedding_add, lambda: (torch.randint(0, 50000, (16, 2048), device="cuda"), rand(50000, 1024),
                                rand(2048, 1024))),
    "concat_scale 8192×8192": (concat_scale, lambda: (rand(8192, 4096), rand(8192, 4096))),
    "dequantise 8192×8192": (
        dequantise, lambda: (torch.randint(-128, 127, (8192, 8192), device="cuda", dtype=torch.int8), rand(8192, 1))),
    "masked_softmax 16384×2048": (masked_softmax, lambda: (rand(16384, 2048), rand(16384, 2048) > 1.0)),
    "message_passing 2M×64": (
        message_passing, lambda: (rand(POINTS, 64), points(EDGES), points(EDGES), rand(EDGES, 1))),
    "message_passing 2M×64 bf16": (
        message_passing, lambda: (rand(POINTS, 64, dtype=BF16), points(EDGES), points(EDGES),
                                  rand(EDGES, 1, dtype=BF16))),
    "index_add 2M×64": (
        lambda x, i, s: x.index_add(0, i, s), lambda: (rand(POINTS, 64), points(EDGES), rand(EDGES, 64))),
    "scatter_add 2M×64": (
        lambda x, i, s: x.scatter_add(0, i, s), lambda: (rand(POINTS, 64), points(EDGES, 64), rand(EDGES, 64))),
    "index_put 2M×64": (index_put, lambda: (rand(POINTS, 64), points(EDGES), rand(EDGES, 64))),
    "index_put 2M×64 bf16": (
        index_put, lambda: (rand(POINTS, 64, dtype=BF16), points(EDGES), rand(EDGES, 64, dtype=BF16))),
    "scatter_amax 2M×64": (
        lambda x, i, s: x.scatter_reduce(0, i, s, "amax"),
        lambda: (rand(POINTS, 64), points(EDGES, 64), rand(EDGES, 64))),
    "embedding_gradient 512Ki×128": (
        lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, POINTS, -1, False),
        lambda: (rand(1 << 19, 128), points(1 << 19))),
    "group_norm_silu 16×512×64²": (group_norm_silu, lambda: (rand(16, 512, 64, 64), rand(512), rand(512))),
}  # fmt: skip


def compiled(side: str, function: Any) -> Any:
    """A function as one of the sides runs it."""
    if side == "eager":
        return function
    mode = "reduce-overhead" if side.endswith("graphs") else None
    if side.startswith("torch"):
        return torch.compile(function, mode=mode)
    import firesteel as fs

    return fs.compile(function, mode=mode, backend="native")


# ---------------------------------------------------------------------------------------------------------------------
# one case, in a process of its own


def leaves(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else [leaf for part in value for leaf in leaves(part)]


def widened(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def check(function: Any, run: Any, make: Callable[[], tuple[Any, ...]]) -> str:
    """Compare with eager and with float64 on fresh inputs; "" if all is well."""
    args = make()
    with torch.no_grad():
        want, got = leaves(function(*args)), [leaf.clone() for leaf in leaves(run(*args))]
        exact = leaves(function(*map(widened, args)))
    for reference, eager, ours in zip(exact, want, got, strict=True):
        if (eager.dtype, eager.shape, eager.stride()) != (ours.dtype, ours.shape, ours.stride()):
            return f"layout {ours.dtype} {tuple(ours.shape)} {ours.stride()}"
        if not eager.is_floating_point():
            if not torch.equal(ours, eager):
                return "other integers"
            continue
        # Long sums near 0 differ from eager's by more than its tolerance, so the size of the whole counts.
        scale = reference.double().abs().nan_to_num(0, 0, 0).max().item()
        errors = [(reference.double() - side.double()).abs().nan_to_num(0, 0, 0).max().item() for side in (eager, ours)]
        same_nans = bool((ours.isnan() == eager.isnan()).all())
        if errors[1] > 2 * errors[0] + torch.finfo(eager.dtype).eps * scale or not same_nans:
            return f"error {errors[1]:.3g}, eager's {errors[0]:.3g}"
    return ""


def device_ms(run: Callable[[int], Any], sets: int, seconds: float = 0.25) -> float:
    """The median time of a call on the device; the calls go through several sets of inputs."""
    for number in range(3 * sets):
        run(number % sets)
    torch.cuda.synchronize()
    started = time.perf_counter()
    run(0)
    torch.cuda.synchronize()
    rounds = max(5, min(200, int(seconds / max(time.perf_counter() - started, 1e-5))))
    events = [torch.cuda.Event(enable_timing=True) for _ in range(rounds + 1)]
    events[0].record()
    for number in range(rounds):
        run(number % sets)
        events[number + 1].record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in zip(events, events[1:], strict=False))


def host_ms(run: Callable[[int], Any]) -> float:
    """The median time of a call as the host sees it, the device always done."""
    for _ in range(100):
        run(0)
    torch.cuda.synchronize()
    times = []
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(50):
            run(0)
        times.append((time.perf_counter() - started) / 50 * 1000)
        torch.cuda.synchronize()
    return statistics.median(times)


def copy_bandwidth() -> float:
    """Bytes per millisecond that a copy on the device reads and writes."""
    source = [torch.empty(1 << 28, device="cuda") for _ in range(2)]
    target = torch.empty_like(source[0])
    return 2 * target.nbytes / device_ms(lambda number: target.copy_(source[number]), 2)


def run_kernel(name: str, side: str, first_done: Callable[[], None]) -> dict[str, Any]:
    function, make = KERNELS[name]
    args = make()
    torch.cuda.synchronize()
    with torch.no_grad():
        started = time.perf_counter()
        run = compiled(side, function)
        run(*args)
        torch.cuda.synchronize()
        first = time.perf_counter() - started
        first_done()
        wrong = check(function, run, make) if side != "eager" else ""
        size = sum(t.numel() * t.element_size() for t in args if isinstance(t, torch.Tensor))
        count = 1 if name == "tiny" or side.endswith("graphs") else max(1, min(4, int(2e8 // max(size, 1))))
        sets = [args, *(make() for _ in range(count - 1))]
        timer = host_ms if name == "tiny" else lambda call: device_ms(call, len(sets))
        moved = size + sum(t.numel() * t.element_size() for t in leaves(run(*args)))
        return {"ms": timer(lambda number: run(*sets[number])), "first": first, "wrong": wrong, "bytes": moved}


def run_cases(what: str, names: list[str], sides: list[str], together: bool = False) -> None:
    """Run cases in this process and print a line for each. Libraries are imported before it is told to begin.

    With ``together`` it says when a first call is done, and waits to be told to go on.
    """
    from benchmarks import gpu_models

    if what == "models":
        gpu_models.import_libraries(names)
    sys.stdin.readline()
    torch.zeros(1, device="cuda")
    cases = [(name, side) for name in names for side in sides]
    for name, side in cases:
        torch.manual_seed(int(time.time_ns() % (1 << 31)))
        last = (name, side) == cases[-1]
        done = (lambda: print("REPEATING", flush=True)) if last else (lambda: None)
        if together:
            done = wait_for_turn
        side, _, again = side.partition(":")
        try:
            if what == "kernels":
                result = run_kernel(name, side, done)
            else:
                result = gpu_models.run_model(name, side, compiled, done, bool(again))
        except Exception as error:
            result = {"wrong": f"{type(error).__name__}: {str(error)[:300]}"}
        print("RESULT " + json.dumps([name, f"{side}:{again}" if again else side, result]), flush=True)
        if what == "models" and not last:
            forget(side)
    if what == "kernels":
        print("COPY", copy_bandwidth(), flush=True)


def wait_for_turn() -> None:
    print("REPEATING", flush=True)
    sys.stdin.readline()


def forget(side: str) -> None:
    """Free what a side has compiled, so that it does not count as memory of the next."""
    if side.startswith("torch"):
        torch.compiler.reset()
    elif side.startswith("fs"):
        import firesteel as fs

        fs.reset()
    gc.collect()
    torch.cuda.empty_cache()


# ---------------------------------------------------------------------------------------------------------------------
# all cases


class Child:
    """A process with some cases, waiting to begin."""

    def __init__(self, what: str, names: list[str], sides: list[str], caches: str, *more: str) -> None:
        self.names, self.sides = names, sides
        self.bandwidth = 0.0
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor", "FIRESTEEL_DISK_CACHE": "1",
                       "TRITON_CACHE_DIR": f"{caches}/triton", "FIRESTEEL_CACHE_DIR": f"{caches}/firesteel"}
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu", "--what", what, "--case", "|".join(names), "--side",
             ",".join(sides), *more], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors, text=True)

    def run(self, rows: dict[str, dict[str, Any]], repeating: Callable[[], None], seconds: float = 300) -> None:
        """Let it run; ``repeating`` is called when all first calls are done."""
        assert self.process.stdin is not None and self.process.stdout is not None
        watch = threading.Timer(seconds, self.process.kill)
        watch.start()
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("RESULT "):
                name, side, result = json.loads(line.removeprefix("RESULT "))
                rows[name][side] = result
                print(f"{name}, {side}: {result.get('ms', math.nan):.4f} ms", file=sys.stderr, flush=True)
            elif line.startswith("REPEATING"):
                repeating()
            elif line.startswith("COPY"):
                self.bandwidth = float(line.split()[1])
        self.process.wait()
        watch.cancel()
        self.errors.seek(0)
        said = (self.errors.read().strip().splitlines() or ["no output"])[-1][:200]
        for name in self.names:
            for side in self.sides:
                rows[name].setdefault(side, {"wrong": said})


def run_together(what: str, names: list[str], sides: list[str], rows: dict[str, dict[str, Any]]) -> None:
    """Let a process for each case compile, all at once, and then measure one after the other."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")  # for each of them
    with tempfile.TemporaryDirectory() as folder:
        for group in ([side for side in sides if not side.endswith("-graphs")],
                      [side for side in sides if side.endswith("-graphs")]):
            children = [Child(what, [name], [side], f"{folder}/{side.partition('-')[0]}{at}", "--together")
                        for at, name in enumerate(names) for side in group]
            turns = [threading.Event() for _ in children]
            done = [threading.Event() for _ in children]

            def follow(number: int, children: list[Child] = children, turns: list[threading.Event] = turns,
                       done: list[threading.Event] = done) -> None:
                child = children[number]

                def compiled_once() -> None:
                    done[number].set()
                    turns[number].wait()
                    assert child.process.stdin is not None
                    child.process.stdin.write("go\n")
                    child.process.stdin.flush()

                child.run(rows, compiled_once)
                done[number].set()
                for side in child.sides:  # others were compiling at the same time
                    rows[child.names[0]][side].pop("first", None)

            threads = [threading.Thread(target=follow, args=(number,)) for number in range(len(children))]
            for thread in threads:
                thread.start()
            for event in done:
                event.wait()
            for turn, thread in zip(turns, threads, strict=True):
                turn.set()
                thread.join()


Job = tuple[list[str], list[str], str]
"""Names of cases, sides, and the folder of caches."""


def run_jobs(what: str, jobs: list[Job], rows: dict[str, dict[str, Any]], after: Callable[[int], None]) -> float:
    """Run processes one after the other; each imports its libraries while the one before it repeats calls.

    The result is the bandwidth of a copy, the best that was seen.
    """
    waiting: list[Child] = []
    bandwidth = 0.0

    def prepare(number: int) -> None:
        if not waiting and number < len(jobs):
            waiting.append(Child(what, *jobs[number]))

    for number in range(len(jobs)):
        prepare(number)
        child = waiting.pop()
        child.run(rows, lambda number=number: prepare(number + 1))
        bandwidth = max(bandwidth, child.bandwidth)
        after(number)
    return bandwidth


def cases_of(what: str) -> list[str]:
    if what == "kernels":
        return list(KERNELS)
    from benchmarks.gpu_models import MODELS

    return list(MODELS)


def jobs_of(what: str, names: list[str], sides: list[str], folder: str, second: bool) -> list[Job]:
    if what == "kernels":
        return [(names, [side], f"{folder}/{side.partition('-')[0]}") for side in sides]
    made: list[Job] = []
    for at, name in enumerate(names):
        for kind in ("torch", "fs"):
            caches = f"{folder}/{kind}{at}"
            plain = [side for side in sides if side == kind]
            graphs = [side for side in sides if side == f"{kind}-graphs"]
            eager = ["eager"] if kind == "fs" and "eager" in sides else []
            groups = [[*plain, *graphs, *eager]]
            if second:
                groups = [[*plain, *eager], [*(f"{side}:again" for side in plain), *graphs]]
            made += [([name], group, caches) for group in groups if group]
    return made


def table(what: str, only: list[str], sides: list[str], results: dict[str, Any], second: bool,
          together: bool = False) -> None:
    names = [name for name in cases_of(what) if not only or any(part in name for part in only)]
    rows: dict[str, dict[str, Any]] = {name: {} for name in names}
    print(f"\n{what:28}" + "".join(f"{side:>18}" for side in sides) + "   fs/torch   graphs     best", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        jobs = jobs_of(what, names, sides, folder, second)
        remaining = {name: sum(name in job[0] for job in jobs) for name in names}

        def after(number: int) -> None:
            if what == "models":
                for name in jobs[number][0]:
                    remaining[name] -= 1
                    if not remaining[name]:
                        print_row(name, sides, rows[name], 0.0)

        if together and what == "models":
            run_together(what, names, sides, rows)
            for name in names:
                print_row(name, sides, rows[name], 0.0)
        else:
            bandwidth = run_jobs(what, jobs, rows, after)
    if what == "kernels":
        for name in names:
            print_row(name, sides, rows[name], bandwidth)
        print(f"a copy moves {bandwidth / 1e9:.2f} TB/s")
    results.update({f"{what}: {name}": row for name, row in rows.items()})
    print_bars(what, rows)


def milliseconds(row: dict[str, Any], side: str) -> float:
    return row.get(side, {}).get("ms", math.nan)


def best(row: dict[str, Any], kind: str) -> float:
    found = [cell["ms"] for side, cell in row.items() if side.startswith(kind) and "ms" in cell]
    return min(found, default=math.nan)


def print_row(name: str, sides: list[str], row: dict[str, Any], bandwidth: float) -> None:
    text = ""
    for side in sides:
        cell = row.get(side, {})
        spent = f"{cell['ms']:.4f} ms" if "ms" in cell else "failed"
        first = "" if side.endswith("graphs") or "first" not in cell else f" {cell['first']:.1f} s"
        text += f"{spent + first:>18}"
    ratios = [milliseconds(row, f"torch{end}") / milliseconds(row, f"fs{end}") for end in ("", "-graphs")]
    ratios.append(best(row, "torch") / best(row, "fs"))
    ending = ""
    moved = next((cell["bytes"] for cell in row.values() if cell.get("bytes")), 0)
    if moved and bandwidth and name != "tiny":
        speed = moved / best(row, "fs")
        ending = f" {speed / 1e9:5.2f} TB/s, {100 * speed / bandwidth:3.0f}% of a copy"
    again = [row[side]["first"] for side in ("torch:again", "fs:again") if "first" in row.get(side, {})]
    ending += f" again {' '.join(f'{seconds:.1f}' for seconds in again)} s" if again else ""
    peak = " ".join(f"{row[side]['peak'] / 1e9:.2f}" for side in sides if "peak" in row.get(side, {}))
    ending += f" GB {peak}" if peak else ""
    print(f"{name:28}{text}   " + " ".join(f"{ratio:8.2f}" for ratio in ratios) + ending, flush=True)
    for side, cell in row.items():
        if cell.get("wrong"):
            print(f"    {side}: {cell['wrong']}", flush=True)


def print_bars(what: str, rows: dict[str, dict[str, Any]]) -> None:
    """Geometric means of torch.compile's figures over ours, and the least of them."""
    def line(title: str, ratios: list[tuple[str, float]]) -> None:
        known = [(name, ratio) for name, ratio in ratios if ratio == ratio and 0 < ratio < math.inf]
        if known:
            mean = math.exp(statistics.fmean(math.log(ratio) for _, ratio in known))
            name, least = min(known, key=lambda item: item[1])
            print(f"{title:44} {mean:6.2f}   least {least:.2f} ({name}), {len(known)} cases", flush=True)

    def ratio(name: str, end: str) -> tuple[str, float]:
        return name, milliseconds(rows[name], f"torch{end}") / milliseconds(rows[name], f"fs{end}")

    names = list(rows)
    if what == "kernels":
        line("steady state, best mode against best mode", [
            (name, best(rows[name], "torch") / best(rows[name], "fs")) for name in names if name != "tiny"])
        for end in ("", "-graphs"):
            line(f"a tiny kernel, host time{', CUDA graphs' if end else ''}", [
                ratio(name, end) for name in names if name == "tiny"])
        return
    training = [name for name in names if "training" in name]
    inference = [name for name in names if name not in training]
    for title, group in (("inference", inference), ("training", training)):
        for end in ("", "-graphs"):
            line(f"{title}, {'CUDA graphs' if end else 'default mode'}", [ratio(name, end) for name in group])
        line(f"{title}, best against best", [(n, best(rows[n], "torch") / best(rows[n], "fs")) for n in group])
    for title, end in (("first call, empty caches", ""), ("first call in a second process", ":again")):
        line(title, [(name, rows[name].get(f"torch{end}", {}).get("first", math.nan)
                      / rows[name].get(f"fs{end}", {}).get("first", math.nan)) for name in names])
    for end in ("", "-graphs"):
        line(f"memory{', CUDA graphs' if end else ', default mode'}", [
            (name, rows[name].get(f"torch{end}", {}).get("peak", math.nan)
             / rows[name].get(f"fs{end}", {}).get("peak", math.nan)) for name in names])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", default="kernels,models")
    parser.add_argument("--only", default="", help="parts of names")
    parser.add_argument("--without", default="", help="sides to leave out, by the beginning of their names")
    parser.add_argument("--once", action="store_true", help="no second process for each model")
    parser.add_argument("--together", action="store_true", help="models compile at once, and are measured one by one")
    parser.add_argument("--json", default="")
    parser.add_argument("--case", default="", help=argparse.SUPPRESS)
    parser.add_argument("--side", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        run_cases(given.what, given.case.split("|"), given.side.split(","), given.together)
        return
    # What pip does when it installs a package; a fresh checkout would compile its sources in the first call.
    compileall.compile_dir(Path(__file__).resolve().parent.parent / "src" / "firesteel", quiet=2)
    left_out = [part for part in given.without.split(",") if part]
    sides = [side for side in SIDES if not any(side.startswith(part) for part in left_out)]
    results: dict[str, Any] = {}
    for what in given.what.split(","):
        table(what, [part for part in given.only.split(",") if part], sides, results, not given.once,
              given.together)
    if given.json:
        with open(given.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
