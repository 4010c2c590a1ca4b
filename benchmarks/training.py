"""Training: eager, torch.compile and firesteel's native backend side by side, each model in a process of its own.

    python -m benchmarks.training                        # speed, first step, saved bytes and peak memory of all models
    python -m benchmarks.training --only gpt2,lstm --threads 1 --clock cpu
    python -m benchmarks.training --no-torch             # without torch.compile, whose first steps take minutes
    python -m benchmarks.training --curves               # 50 steps with dropout: the losses against eager's
    python -m benchmarks.training --adam                 # a step of Adam over 100 tensors
    python -m benchmarks.training --tutorial             # the tutorial's training step, compiled whole

A step is forward, loss and backward, without an optimizer. First steps are cold: each process has empty caches of
compiled code. Saved bytes are those of all memory that is kept for the backward pass, other than parameters, buffers
and the batch. Peak memory is the most that tensors made during a step take at once, gradients included, and beside it
how far the process grows (`native_memory` says how); for firesteel its host program runs in Python while the first of
these is measured, so that all of its memory is tensors. Parting is the time in which a model's forward and backward
are told apart.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks import report
from benchmarks.library_time import outside_seconds
from benchmarks.native_memory import resident_peak, tensor_peak
from benchmarks.training_models import SUITE, build

MEAN_RATIO = 1.05
LEAST_RATIO = 0.95
OUTSIDE_RATIO = 1.2
FIRST_STEP_RATIO = 8.0
MEMORY_RATIO = 1.02
STEPS = 50
RATES = {"resnet18": 1e-5}
"""Learning rates other than 1e-3: at larger ones a rounding of this model's weights changes its loss by per mille."""


def compiled_variants(module: nn.Module, with_torch: bool) -> dict[str, Callable[..., torch.Tensor]]:
    """The module itself and compiled."""
    import firesteel as fs

    variants: dict[str, Any] = {"eager": module}
    if with_torch:
        variants["torch"] = torch.compile(module, dynamic=False)
    variants["firesteel"] = fs.compile(module, backend="native", dynamic=False)
    return variants


# ---------------------------------------------------------------------------------------------------------------------
# one step


def step_of(function: Callable[..., torch.Tensor], module: nn.Module, batch: Iterable[torch.Tensor]) -> Any:
    """Forward and backward, with new gradients."""
    parameters = list(module.parameters())

    def step() -> torch.Tensor:
        for parameter in parameters:
            parameter.grad = None
        loss = function(*batch)
        loss.backward()
        return loss

    return step


def saved_bytes(function: Callable[..., torch.Tensor], module: nn.Module, batch: tuple[torch.Tensor, ...]) -> int:
    """Bytes of memory that one forward keeps for its backward."""
    given = {t.untyped_storage().data_ptr() for t in (*module.parameters(), *module.buffers(), *batch)}
    kept: dict[int, int] = {}
    alive: list[torch.Tensor] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in given:
            kept[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)  # so that no address is used twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = function(*batch)
    del loss
    return sum(kept.values())


def measure(name: str, threads: int, with_torch: bool, seconds: float, clock: Callable[[], float]) -> dict[str, Any]:
    """All figures of one model, in this process."""
    from benchmarks.native_kernels import alternate, ratio

    torch.set_num_threads(threads)
    module, batch = build(name)
    variants = compiled_variants(module, with_torch)
    row: dict[str, Any] = {"model": name, "threads": threads, "first_step_s": {}, "saved_mb": {}, "peak_mb": {},
                           "resident_mb": {}}  # fmt: skip
    parted = parting_times()
    steps = {variant: step_of(function, module, batch) for variant, function in variants.items()}
    steps["eager"]()
    for variant, step in steps.items():
        started = time.perf_counter()
        step()
        row["first_step_s"][variant] = time.perf_counter() - started
    row["parting_ms"] = 1e3 * sum(parted)
    check_gradients(module, steps, batch)
    times = alternate(steps, clock, seconds)
    row["ms"] = {variant: statistics.median(found) * 1e3 for variant, found in times.items()}
    row["best_ms"] = {variant: min(found) * 1e3 for variant, found in times.items()}
    row["to_eager"], row["to_torch"] = ratio(times, "eager", "firesteel"), ratio(times, "torch", "firesteel")
    for variant, function in variants.items():
        row["saved_mb"][variant] = saved_bytes(function, module, batch) / 2**20
        row["resident_mb"][variant] = resident_peak(steps[variant]) / 2**20
        row["peak_mb"][variant] = step_peak(variant, function, module, batch) / 2**20
    outside = outside_seconds(steps, clock, seconds / 2, grad=True)
    row["outside_ms"] = {variant: found * 1e3 for variant, found in outside.items()}
    return row


def parting_times() -> list[float]:
    """A list that gets the seconds of each search for what is kept between forward and backward, from now on."""
    from firesteel.pipeline import training as runtime

    found: list[float] = []
    partition = runtime.partition

    def noting(*args: Any, **kwargs: Any) -> Any:
        made = partition(*args, **kwargs)
        found.append(made.seconds)
        return made

    runtime.partition = noting
    return found


def step_peak(variant: str, function: Any, module: nn.Module, batch: tuple[torch.Tensor, ...]) -> int:
    """The most bytes of tensors at once during a step that starts without gradients."""
    import firesteel as fs

    if variant == "firesteel":
        function = fs.compile(module, backend="native", dynamic=False, options={"native_host": False})
    step = step_of(function, module, batch)
    step()
    step()
    for parameter in module.parameters():
        parameter.grad = None
    return tensor_peak(step)


def check_gradients(module: nn.Module, steps: dict[str, Any], batch: tuple[torch.Tensor, ...]) -> None:
    """Losses and gradients of eager and firesteel from the same random state.

    Where a rounding decides on which side of a kink a value lies, eager itself is far from the exact gradient: what
    differs from eager's result must be no further from one in float64 than twice eager's.
    """
    buffers = [buffer.clone() for buffer in module.buffers()]
    exact: list[Any] | None = None
    results: dict[str, list[Any]] = {}
    for variant, step in steps.items():
        if variant == "torch":
            continue  # it draws other random numbers
        for buffer, old in zip(module.buffers(), buffers, strict=True):
            buffer.copy_(old)
        torch.manual_seed(1)
        loss = step().detach()
        results[variant] = [loss, *(parameter.grad for parameter in module.parameters())]
    for k, (left, right) in enumerate(zip(results["eager"], results["firesteel"], strict=True)):
        assert (left is None) == (right is None), k
        if left is None or is_close(right, left):
            continue
        assert not any(isinstance(part, nn.Dropout) for part in module.modules()), f"result {k} differs from eager's"
        exact = exact or exact_results(module, buffers, batch)
        ours, eagers = ((part - exact[k]).norm().item() for part in (right, left))
        assert ours <= 2 * eagers, f"result {k} is {ours:.3g} off, eager's {eagers:.3g}"


def is_close(got: torch.Tensor, want: torch.Tensor) -> bool:
    return torch.allclose(got, want, rtol=1e-3, atol=1e-3 * want.abs().max().item() + 1e-8)


def exact_results(
    module: nn.Module, buffers: Iterable[torch.Tensor], batch: tuple[torch.Tensor, ...]
) -> list[torch.Tensor | None]:
    """Loss and gradients in float64."""
    double = copy.deepcopy(module)
    for buffer, old in zip(double.buffers(), buffers, strict=True):
        buffer.copy_(old)
    double = double.double()
    wide = tuple(part.double() if part.is_floating_point() else part for part in batch)
    loss = step_of(double, double, wide)()
    return [loss.detach(), *(parameter.grad for parameter in double.parameters())]


# ---------------------------------------------------------------------------------------------------------------------
# loss curves


def curve(function: Callable[..., torch.Tensor], module: nn.Module, batch: Any, steps: int, rate: float) -> list[float]:
    """The losses of some steps of gradient descent."""
    torch.manual_seed(5)
    optimizer = torch.optim.SGD(module.parameters(), lr=rate, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = function(*batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def compare_curves(name: str, threads: int, steps: int = STEPS, rate: float | None = None) -> dict[str, Any]:
    """The loss of every step, plain and compiled, from equal weights and with equal random numbers.

    Training amplifies roundings: how much shows a third run, plain again, from weights that differ by one rounding.
    """
    import firesteel as fs

    torch.set_num_threads(threads)
    rate = RATES.get(name, 1e-3) if rate is None else rate
    module, batch = build(name)
    compiled, moved = copy.deepcopy(module), copy.deepcopy(module)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter.mul_(1 + torch.finfo(torch.float32).eps)
    want = curve(module, module, batch, steps, rate)
    got = curve(fs.compile(compiled, backend="native", dynamic=False), compiled, batch, steps, rate)
    control = curve(moved, moved, batch, steps, rate)
    allowed = [1e-5 + 1.3e-6 * abs(a) for a in want]
    off, control_off = ([abs(a - b) for a, b in zip(want, other, strict=True)] for other in (got, control))
    spread_so_far = [max(control_off[: k + 1]) for k in range(steps)]
    return {
        "model": name, "first": want[0], "last": want[-1], "last_compiled": got[-1], "steps": steps,
        "worst_relative": max(part / abs(a) for part, a in zip(off, want, strict=True)),
        "control_relative": max(part / abs(a) for part, a in zip(control_off, want, strict=True)),
        "within": sum(part <= most for part, most in zip(off, allowed, strict=True)),
        "explained": sum(part <= max(most, 2 * noise)
                         for part, most, noise in zip(off, allowed, spread_so_far, strict=True)),
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# optimizers and whole steps


def measure_adam(
    threads: int, with_torch: bool, seconds: float, clock: Callable[[], float], count: int
) -> dict[str, Any]:
    """One step of Adam over ``count`` tensors of some sizes."""
    import firesteel as fs
    from benchmarks.native_kernels import alternate, ratio

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    sizes = [(256, 256), (256,), (128, 512), (512,)]
    functions: dict[str, Any] = {}
    row: dict[str, Any] = {"tensors": count, "first_step_s": {}}
    for variant in ("eager", "torch", "firesteel") if with_torch else ("eager", "firesteel"):
        parameters = [torch.randn(sizes[k % 4], requires_grad=True) for k in range(count)]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizer = torch.optim.Adam(parameters, lr=1e-4)
        if variant == "torch":
            functions[variant] = torch.compile(optimizer.step)
        else:
            functions[variant] = optimizer.step if variant == "eager" else fs.compile(optimizer.step, backend="native")
        started = time.perf_counter()
        functions[variant]()
        row["first_step_s"][variant] = time.perf_counter() - started
        for _ in range(3):
            functions[variant]()
    times = alternate(functions, clock, seconds)
    row["ms"] = {variant: statistics.median(found) * 1e3 for variant, found in times.items()}
    row["to_eager"], row["to_torch"] = ratio(times, "eager", "firesteel"), ratio(times, "torch", "firesteel")
    return row


def measure_tutorial(threads: int, with_torch: bool, seconds: float, clock: Callable[[], float]) -> dict[str, Any]:
    """The tutorial's step, compiled whole: zero_grad, forward of ResNet-18, loss, backward and a step of Adam."""
    from tests.models.zoo import prepare_torchvision

    import firesteel as fs
    from benchmarks.native_kernels import alternate, ratio

    prepare_torchvision()
    from torchvision.models import resnet18

    torch.set_num_threads(threads)
    functions: dict[str, Any] = {}
    row: dict[str, Any] = {"first_step_s": {}}
    data = torch.randn(16, 3, 128, 128), torch.randint(1000, (16,))
    for variant in ("eager", "torch", "firesteel") if with_torch else ("eager", "firesteel"):
        torch.manual_seed(0)
        model = resnet18(weights=None)
        opt = torch.optim.Adam(model.parameters())

        def train(mod: Any, data: Any, opt: Any = opt) -> None:
            opt.zero_grad(True)
            pred = mod(data[0])
            loss = torch.nn.CrossEntropyLoss()(pred, data[1])
            loss.backward()
            opt.step()

        if variant == "torch":
            train = torch.compile(train)
        elif variant == "firesteel":
            other = copy.deepcopy(model)
            row["breaks"] = len(fs.explain(train)(other, data, torch.optim.Adam(other.parameters())).break_reasons)
            train = fs.compile(train, backend="native")
        functions[variant] = lambda train=train, model=model: train(model, data)
        started = time.perf_counter()
        functions[variant]()
        row["first_step_s"][variant] = time.perf_counter() - started
        for _ in range(2):
            functions[variant]()
    times = alternate(functions, clock, seconds)
    row["ms"] = {variant: statistics.median(found) * 1e3 for variant, found in times.items()}
    row["to_eager"], row["to_torch"] = ratio(times, "eager", "firesteel"), ratio(times, "torch", "firesteel")
    return row


# ---------------------------------------------------------------------------------------------------------------------
# results


def in_fresh_process(name: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.training", "--child", name, "--threads", str(options.threads)]
    command += ["--seconds", str(options.seconds), "--clock", options.clock]
    command += ["--no-torch"] if options.no_torch else []
    command += ["--curves"] if options.curves else []
    root = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as caches:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{caches}/torch", "FIRESTEEL_CACHE_DIR": caches}
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"model": name, "failed": (done.stderr.strip().splitlines() or ["?"])[-1][:300]}
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def print_curves(rows: list[dict[str, Any]]) -> bool:
    """The table; whether every step is within the tolerance, or no further off than a rounding of the weights leads."""
    report.print_table(
        "losses of 50 steps, plain and compiled",
        ["model", "first", "last", "compiled", "greatest relative difference", "one rounding in the weights",
         "steps within float32's tolerance", "or twice what a rounding makes"],
        [(row["model"], row["first"], row["last"], row["last_compiled"], f"{row['worst_relative']:.1e}",
          f"{row['control_relative']:.1e}", row["within"], row["explained"]) for row in rows],
    )  # fmt: skip
    return all(row["explained"] == row["steps"] for row in rows)


def print_speed(rows: list[dict[str, Any]], threads: int) -> bool:
    """The tables; whether the bars hold."""
    names = ("eager", "torch", "firesteel")
    better = {row["model"]: min(filter(None, (row["to_eager"], row["to_torch"]))) for row in rows}
    report.print_table(
        f"{threads} threads: milliseconds of a step, how many times faster firesteel is, outside library calls",
        ["model", "eager", "torch.compile", "firesteel", "x better", "x torch.compile",
         "outside: eager", "torch.compile", "firesteel"],
        [(row["model"], *(row["ms"].get(n) for n in names), better[row["model"]], row["to_torch"],
          *(row["outside_ms"].get(n) for n in names)) for row in rows],
    )  # fmt: skip
    report.print_table(
        "seconds of the first step, milliseconds of parting, megabytes saved for the backward pass",
        ["model", "first: eager", "torch.compile", "firesteel", "parting", "saved: eager", "torch.compile",
         "firesteel"],
        [(row["model"], *(row["first_step_s"].get(n) for n in names), row["parting_ms"],
          *(row["saved_mb"].get(n) for n in names)) for row in rows],
    )  # fmt: skip
    report.print_table(
        "megabytes at most: tensors, and growth of the process",
        ["model", "tensors: eager", "torch.compile", "firesteel", "process: eager", "torch.compile", "firesteel"],
        [(row["model"], *(row[what].get(n) for what in ("peak_mb", "resident_mb") for n in names)) for row in rows],
    )  # fmt: skip
    slower = [name for name, found in better.items() if found < LEAST_RATIO]
    print(f"slower than {LEAST_RATIO}x the better of the two: {', '.join(slower) or 'none'}")
    both = [row for row in rows if row["to_torch"]]
    if not both:
        return not slower
    mean = report.geometric_mean([row["to_torch"] for row in both])
    outside = report.geometric_mean([row["outside_ms"]["torch"] / row["outside_ms"]["firesteel"] for row in both])
    first = report.geometric_mean([row["first_step_s"]["torch"] / row["first_step_s"]["firesteel"] for row in both])
    print(f"geometric mean to torch.compile {mean:.3f} (at least {MEAN_RATIO}), outside library calls {outside:.3f} "
          f"(at least {OUTSIDE_RATIO}), first step {first:.1f} times sooner (at least {FIRST_STEP_RATIO})")  # fmt: skip
    more = [row["model"] for row in both if row["saved_mb"]["firesteel"] > row["saved_mb"]["torch"]]
    large = [row["model"] for row in both if row["peak_mb"]["firesteel"] > MEMORY_RATIO * row["peak_mb"]["torch"]]
    print(f"more saved than torch.compile: {', '.join(more) or 'none'}; higher peak: {', '.join(large) or 'none'}")
    holds = mean >= MEAN_RATIO and outside >= OUTSIDE_RATIO and first >= FIRST_STEP_RATIO
    return holds and not slower and not large


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models, separated by commas, whose names contain one of these")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--no-torch", action="store_true", help="without torch.compile")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long a model is measured")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--curves", action="store_true", help="compare the losses of 50 steps")
    parser.add_argument("--adam", action="store_true", help="a step of Adam")
    parser.add_argument("--tensors", type=int, default=100, help="how many tensors Adam works on")
    parser.add_argument("--tutorial", action="store_true", help="the tutorial's training step")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    clock = time.perf_counter if options.clock == "wall" else time.process_time
    if options.child and options.curves:
        print(json.dumps(compare_curves(options.child, options.threads)))
        return 0
    if options.child:
        print(json.dumps(measure(options.child, options.threads, not options.no_torch, options.seconds, clock)))
        return 0
    if options.adam or options.tutorial:
        if options.adam:
            row = measure_adam(options.threads, not options.no_torch, options.seconds, clock, options.tensors)
        else:
            row = measure_tutorial(options.threads, not options.no_torch, options.seconds, clock)
        print(json.dumps(row, indent=1))
        return 0 if not row["to_torch"] or row["to_torch"] >= 1 else 1
    rows = []
    for name in SUITE:
        if any(part in name for part in options.only.split(",")):
            rows.append(in_fresh_process(name, options))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    good = [row for row in rows if "failed" not in row]
    holds = print_curves(good) if options.curves else print_speed(good, options.threads)
    for row in rows:
        if "failed" in row:
            print(f"{row['model']}: {row['failed']}")
    if options.json:
        report.write_json(options.json, {"versions": report.versions("llvmlite", "transformers", "timm"), "rows": rows})
    return 0 if holds and len(good) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
