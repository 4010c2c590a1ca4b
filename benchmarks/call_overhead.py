"""Bar 5: what a call of compiled code costs beyond the work itself, backend "eager".

    python -m benchmarks.call_overhead                # both sides
    python -m benchmarks.call_overhead --side torch

Two programs, on one thread, without gradients:
- `f(x, y) = x + y` on two-element tensors: time per call minus the time of the plain function;
- a module with 300 parameters: time per call minus the time of the captured graph called directly with its inputs.
All variants of a program run in one process, in alternating rounds; the bar is decided on the best round
of each, which another process on the machine disturbs least, and the median stands beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tests.models import zoo

from benchmarks import report

SIDES = ("firesteel", "torch")
MODULE = "local/mlp300"
ROUNDS = 60
ROUND_S = 0.02
FUNCTION_LIMIT_US = 3.5
FUNCTION_SHARE = 1 / 3
MODULE_SHARE = 1 / 2

Call = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """Microseconds per call over all rounds of one variant."""

    median_us: float
    best_us: float


def time_alternating(variants: Mapping[str, Call], rounds: int = ROUNDS) -> dict[str, Timing]:
    """Time every variant in `rounds` alternating rounds of about `ROUND_S` seconds each."""
    repeats = {}
    for name, call in variants.items():
        for _ in range(20):
            call()
        repeats[name] = max(1, int(ROUND_S / _seconds_per_call(call, 20)))
    samples: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, call in variants.items():
            samples[name].append(_seconds_per_call(call, repeats[name]) * 1e6)
    return {name: Timing(statistics.median(values), min(values)) for name, values in samples.items()}


def _seconds_per_call(call: Call, number: int) -> float:
    collecting = gc.isenabled()
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in itertools.repeat(None, number):
            call()
        return (time.perf_counter() - start) / number
    finally:
        if collecting:
            gc.enable()


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The two-tensor function of the bar."""
    return x + y


def compiler(side: str) -> Callable[..., Any]:
    """`fs.compile` or `torch.compile`."""
    if side == "torch":
        return torch.compile
    import firesteel as fs

    compile_: Callable[..., Any] = fs.compile
    return compile_


def reset(side: str) -> None:
    """Forget everything that `side` has compiled."""
    if side == "torch":
        torch.compiler.reset()
        return
    import firesteel as fs

    fs.reset()


@contextlib.contextmanager
def strict(sides: Sequence[str]) -> Iterator[None]:
    """Inside, a fallback of firesteel to eager is an error: it would be timed as a very cheap call."""
    if "firesteel" not in sides:
        yield
        return
    import firesteel as fs

    with fs.config.patch(raise_on_internal_error=True):
        yield


class RecordingBackend:
    """Keeps the graph and the inputs of its last run, so that the graph can be called alone."""

    def __init__(self) -> None:
        self.runs: list[tuple[torch.fx.GraphModule, tuple[Any, ...]]] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            self.runs.append((gm, inputs))
            return gm.forward(*inputs)

        return run


def measure_function(sides: Sequence[str]) -> dict[str, Timing]:
    """Time `add` plain and compiled by each side."""
    x, y = torch.randn(2), torch.randn(2)
    # Bound as default arguments: each variant's lambda costs the same, and the difference is the compiled call's.
    variants: dict[str, Call] = {"plain": lambda f=add, x=x, y=y: f(x, y)}  # type: ignore[misc]
    for side in sides:
        compiled = compiler(side)(add, backend="eager")
        torch.testing.assert_close(compiled(x, y), add(x, y))
        variants[side] = lambda f=compiled, x=x, y=y: f(x, y)  # type: ignore[misc]
    return time_alternating(variants)


def measure_module(sides: Sequence[str]) -> dict[str, Timing]:
    """Time the 300-parameter module: eager, compiled by each side, and each side's graph called directly."""
    reference, args, _ = zoo.build(MODULE)
    variants: dict[str, Call] = {"eager": lambda: reference(*args)}
    for side in sides:
        module, _, _ = zoo.build(MODULE)
        backend = RecordingBackend()
        recorded = compiler(side)(module, backend=backend)
        torch.testing.assert_close(recorded(*args), reference(*args))
        if len(backend.runs) != 1:
            raise RuntimeError(f"{side} ran {len(backend.runs)} graphs for {MODULE}; this benchmark needs exactly one")
        gm, inputs = backend.runs[0]
        reset(side)  # torch.compile keeps entries per code object: the timed call must not meet the recorded one's
        module, _, _ = zoo.build(MODULE)
        compiled = compiler(side)(module, backend="eager")
        compiled(*args)
        variants[f"{side} graph"] = lambda f=gm.forward, i=inputs: f(*i)  # type: ignore[misc]
        variants[side] = lambda f=compiled, i=args: f(*i)  # type: ignore[misc]
    return time_alternating(variants)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line. The exit status is 1 when both sides ran and the bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--side", choices=[*SIDES, "both"], default="both")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    sides = SIDES if options.side == "both" else (options.side,)
    torch.set_num_threads(1)
    with torch.no_grad(), strict(sides):
        function = measure_function(sides)
        module = measure_module(sides)

    added = {side: function[side].best_us - function["plain"].best_us for side in sides}
    added_median = {side: function[side].median_us - function["plain"].median_us for side in sides}
    beyond = {side: module[side].best_us - module[f"{side} graph"].best_us for side in sides}
    beyond_median = {side: module[side].median_us - module[f"{side} graph"].median_us for side in sides}
    rows: list[list[object]] = [
        [name, timing.best_us, timing.median_us, added.get(name), added_median.get(name)]
        for name, timing in function.items()
    ]
    report.print_table(
        "f(x, y) = x + y, µs per call",
        ["variant", "best", "median", "added to plain (best)", "added (median)"],
        rows,
    )
    rows = [
        [name, timing.best_us, timing.median_us, beyond.get(name), beyond_median.get(name)]
        for name, timing in module.items()
    ]
    report.print_table(
        "300 parameters, µs per call",
        ["variant", "best", "median", "beyond own graph (best)", "beyond (median)"],
        rows,
    )
    met = True
    if len(sides) == 2:
        function_ratio = added["firesteel"] / added["torch"]
        module_ratio = beyond["firesteel"] / beyond["torch"]
        met = (
            added["firesteel"] <= FUNCTION_LIMIT_US
            and function_ratio <= FUNCTION_SHARE
            and module_ratio <= MODULE_SHARE
        )
        print(f"function: {added['firesteel']:.2f} µs added (bar {FUNCTION_LIMIT_US})")
        print(f"function: {function_ratio:.2f} of what torch.compile adds (bar {FUNCTION_SHARE:.2f})")
        print(f"module: {module_ratio:.2f} of torch.compile's time beyond the graph (bar {MODULE_SHARE:.2f})")
        print("bar met" if met else "bar MISSED")
    if options.json:
        payload = {
            "versions": report.versions(),
            "function_us": {name: vars(timing) for name, timing in function.items()},
            "module_us": {name: vars(timing) for name, timing in module.items()},
            "function_added_us": added,
            "module_beyond_graph_us": beyond,
            "function_added_median_us": added_median,
            "module_beyond_graph_median_us": beyond_median,
        }
        report.write_json(options.json, payload)
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
