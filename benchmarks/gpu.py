"""Kernels and models on an NVIDIA GPU: eager, torch.compile and firesteel, in the default mode and with CUDA graphs.

    python -m benchmarks.gpu                          # kernels, then models; one table each
    python -m benchmarks.gpu --what kernels --only softmax,rms
    python -m benchmarks.gpu --what models --json out.json
    python -m benchmarks.gpu --what kernels --without torch   # firesteel against eager alone

Each side has a process of its own with empty caches for all kernels; each model has one for firesteel and eager, and
one for each side of torch.compile. A case is first checked on fresh random inputs against a
float64 reference (error at most twice eager's, and within the tolerance of the dtype), or against eager where the
random numbers or the size do not allow that. Times are medians of repeated calls: on the device, over several sets of
inputs so that caches do not help; for cases of one tiny kernel, of the whole call as the host sees it. The first call
of a model is that of a fresh process, imports of the compiler included (not for "fs-graphs", which comes after "fs");
so is that of the first kernel of the table.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
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


BF16 = torch.bfloat16
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


def run_kernel(name: str, side: str) -> dict[str, Any]:
    function, make = KERNELS[name]
    args = make()
    torch.cuda.synchronize()
    with torch.no_grad():
        started = time.perf_counter()
        run = compiled(side, function)
        run(*args)
        torch.cuda.synchronize()
        first = time.perf_counter() - started
        wrong = check(function, run, make) if side != "eager" else ""
        size = sum(t.numel() * t.element_size() for t in args if isinstance(t, torch.Tensor))
        count = 1 if name == "tiny" or side.endswith("graphs") else max(1, min(4, int(2e8 // max(size, 1))))
        sets = [args, *(make() for _ in range(count - 1))]
        timer = host_ms if name == "tiny" else lambda call: device_ms(call, len(sets))
        moved = size + sum(t.numel() * t.element_size() for t in leaves(run(*args)))
        return {"ms": timer(lambda number: run(*sets[number])), "first": first, "wrong": wrong, "bytes": moved}


def run_cases(what: str, names: list[str], sides: list[str]) -> None:
    """Run cases in this process and print a line for each."""
    torch.zeros(1, device="cuda")
    for name, side in [(name, side) for name in names for side in sides]:
        torch.manual_seed(int(time.time_ns() % (1 << 31)))
        try:
            if what == "kernels":
                result = run_kernel(name, side)
            else:
                from benchmarks.gpu_models import run_model

                result = run_model(name, side, compiled)
        except Exception as error:
            result = {"wrong": f"{type(error).__name__}: {str(error)[:300]}"}
        print("RESULT " + json.dumps([name, side, result]), flush=True)


def in_process(what: str, names: list[str], sides: list[str], rows: dict[str, dict[str, Any]]) -> None:
    """Cases in a fresh process with empty caches; the results go into the rows."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/t",
                       "FIRESTEEL_CACHE_DIR": f"{folder}/fs"}
        command = [sys.executable, "-m", "benchmarks.gpu", "--what", what, "--case", "|".join(names), "--side",
                   ",".join(sides)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
        for name in names:
            for side in sides:
                rows[name][side] = {"wrong": (done.stderr.strip().splitlines() or ["no output"])[-1][:200]}
        for line in done.stdout.splitlines():
            if line.startswith("RESULT "):
                name, side, result = json.loads(line.removeprefix("RESULT "))
                rows[name][side] = result


def cases_of(what: str) -> list[str]:
    if what == "kernels":
        return list(KERNELS)
    from benchmarks.gpu_models import MODELS

    return list(MODELS)


def table(what: str, only: list[str], sides: list[str], results: dict[str, Any]) -> None:
    names = [name for name in cases_of(what) if not only or any(part in name for part in only)]
    rows: dict[str, dict[str, Any]] = {name: {} for name in names}
    ratios: list[float] = []
    print(f"\n{what:28}" + "".join(f"{side:>18}" for side in sides) + "   fs/torch  best/best")
    if what == "kernels":
        for side in sides:
            in_process(what, names, [side], rows)
    for name in names:
        if what == "models":
            ours = [side for side in ("fs", "fs-graphs", "eager") if side in sides]
            for group in [ours, *([side] for side in sides if side.startswith("torch"))]:
                in_process(what, [name], group, rows)
        print_row(name, sides, rows[name], ratios)
    results.update({f"{what}: {name}": row for name, row in rows.items()})
    known = [ratio for ratio in ratios if ratio == ratio]
    if known:
        print(f"geometric mean, best against best: {math.exp(statistics.fmean(map(math.log, known))):.2f}")


def print_row(name: str, sides: list[str], row: dict[str, Any], ratios: list[float]) -> None:
    text = ""
    for side in sides:
        cell = row[side]
        spent = f"{cell['ms']:.4f} ms" if "ms" in cell else "failed"
        text += f"{spent + ' ' + format(cell.get('first', math.nan), '.1f') + ' s':>18}"

    def best(kind: str) -> float:
        return min([row[side].get("ms", math.inf) for side in sides if side.startswith(kind)], default=math.nan)

    plain = row.get("torch", {}).get("ms", math.nan) / row.get("fs", {}).get("ms", math.nan)
    ratios.append(best("torch") / best("fs"))
    moved = next((row[side]["bytes"] for side in sides if row[side].get("bytes")), 0)
    bandwidth = f"{moved / best('fs') / 1e9:6.2f} TB/s" if moved else ""
    peak = " ".join(f"{row[side]['peak'] / 1e9:.2f}" for side in sides if "peak" in row[side])
    ending = f"{bandwidth}{f' peak GB {peak}' if peak else ''}"
    print(f"{name:28}{text}   {plain:8.2f} {ratios[-1]:8.2f} {ending}", flush=True)
    for side in sides:
        if row[side].get("wrong"):
            print(f"    {side}: {row[side]['wrong']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", default="kernels,models")
    parser.add_argument("--only", default="", help="parts of names")
    parser.add_argument("--without", default="", help="sides to leave out, by the beginning of their names")
    parser.add_argument("--json", default="")
    parser.add_argument("--case", default="")
    parser.add_argument("--side", default="")
    given = parser.parse_args()
    if given.case:
        run_cases(given.what, given.case.split("|"), given.side.split(","))
        return
    left_out = [part for part in given.without.split(",") if part]
    sides = [side for side in SIDES if not any(side.startswith(part) for part in left_out)]
    results: dict[str, Any] = {}
    for what in given.what.split(","):
        table(what, [part for part in given.only.split(",") if part], sides, results)
    if given.json:
        with open(given.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
