"""torch.func: transforms inside of compiled functions and around them, firesteel beside torch.compile.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.func_programs [--torch] [--only NAME ...] [--device cuda]

For each program of `tests/capture/transform_programs.py`: whether it is one graph (``fullgraph=True``), whether
results, gradients and random numbers are eager's, and the time of a call. All sides run in turn, the best of several
rounds counts. torch.compile needs a C++ compiler, and some 10 s for a program.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import multiprocessing
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from tests.capture import transform_programs
from tests.capture.transform_programs import AROUND, INSIDE, Program, observed

import firesteel as fs

Compiler = Callable[[Any], Any]


def difference(program: Program, function: Callable[..., Any], expected: tuple[Any, ...],
               inputs: list[torch.Tensor]) -> str:
    """How three calls of a function differ from what is expected; empty if they do not."""
    try:
        for _ in range(3):
            torch.testing.assert_close(observed(program, function, inputs), expected)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
    return ""


def call_time(program: Program, function: Callable[..., Any], inputs: list[torch.Tensor], calls: int) -> float:
    """Seconds of one call, with its backward pass."""
    started = time.perf_counter()
    for _ in range(calls):
        result = function(*inputs)
        if program.grad:
            leaves = [leaf for leaf in pytree.tree_leaves(result) if leaf.requires_grad]
            if leaves:
                torch.autograd.grad([leaf.sum() for leaf in leaves], inputs, allow_unused=True)
    if inputs[0].is_cuda:
        torch.cuda.synchronize()
    return (time.perf_counter() - started) / calls


def functions_of(name: str, compiler: Compiler) -> tuple[Program, Callable[..., Any]]:
    """A program, and its function as a compiler makes it."""
    if name in INSIDE:
        return INSIDE[name], compiler(INSIDE[name].function)
    program = AROUND[name]
    made: dict[Any, Any] = {}

    def compile_once(function: Any) -> Any:
        # programs make their functions anew in every call: what is compiled is kept, as a user would
        key = getattr(function, "__code__", function)
        cells = getattr(function, "__closure__", None) or ()
        whole = (key, tuple([id(cell.cell_contents) for cell in cells]))
        if whole not in made:
            made[whole] = compiler(function)
        return made[whole]

    return program, lambda *args: program.function(compile_once, *args)


def measure(name: str, compiler: Compiler, whole: Compiler, reset: Callable[[], None],
            inputs: list[torch.Tensor]) -> dict[str, Any]:
    """What becomes of a program under a compiler: ``whole`` refuses to break graphs."""
    program, plain = functions_of(name, lambda function: function)
    expected = observed(program, plain, inputs)
    found: dict[str, Any] = {}
    started = time.perf_counter()
    if name in INSIDE:
        reset()
        function = functions_of(name, whole)[1]
        found["difference"] = difference(program, function, expected, inputs)
        found["one_graph"] = not found["difference"] or "Tensor-likes" in found["difference"]
    if name not in INSIDE or not found["one_graph"]:
        reset()
        function = functions_of(name, compiler)[1]
        found["broken"] = found.get("difference", "")
        found["difference"] = difference(program, function, expected, inputs)
    found["seconds"] = time.perf_counter() - started
    found["function"] = function
    return found


def compare(name: str, sides: dict[str, tuple[Compiler, Compiler, Callable[[], None]]], device: str,
            calls: int) -> dict[str, Any]:
    """All sides on one program."""
    program, plain = functions_of(name, lambda function: function)
    inputs = program.inputs(device)
    found = {side: measure(name, *compilers, inputs) for side, compilers in sides.items()}
    compiled = {side: result.pop("function") for side, result in found.items()}
    functions = {"eager": plain, **{side: compiled[side] for side, result in found.items() if not result["difference"]}}
    for _ in range(30):  # both ways of an entry are measured in its first calls
        for function in functions.values():
            call_time(program, function, inputs, 1)
    best = dict.fromkeys(functions, math.inf)
    for _ in range(9):
        for side, function in functions.items():
            best[side] = min(best[side], call_time(program, function, inputs, calls))
    return {"name": name, "kind": "inside" if name in INSIDE else "around", **found,
            "microseconds": {side: round(1e6 * seconds, 1) for side, seconds in best.items()}}


def in_process(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run something in a process of its own: what fails half-way inside of a transform may leave its levels behind."""
    here, there = multiprocessing.get_context("fork").Pipe()

    def run() -> None:
        there.send(work())

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    there.close()
    try:
        found: dict[str, Any] = here.recv()
    except EOFError:
        raise RuntimeError("the process of a program ended without a result") from None
    finally:
        child.join()
    return found


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def report(rows: list[dict[str, Any]], sides: list[str]) -> None:
    """The totals of all programs."""
    for kind in ("inside", "around"):
        chosen = [row for row in rows if row["kind"] == kind]
        for side in sides:
            right = sum(not row[side]["difference"] for row in chosen)
            whole = sum(row[side].get("one_graph", False) for row in chosen)
            against = [row["microseconds"][side] / row["microseconds"]["eager"] for row in chosen
                       if side in row["microseconds"]]
            print(f"{kind}: {side}: {right} of {len(chosen)} right, {whole} one graph, "
                  f"{mean(against):.2f} of eager's time")
        both = [row["microseconds"]["firesteel"] / row["microseconds"]["torch.compile"] for row in chosen
                if {"firesteel", "torch.compile"} <= set(row["microseconds"])]
        if both:
            print(f"{kind}: firesteel takes {mean(both):.2f} of torch.compile's time, over {len(both)} programs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="store_true", help="torch.compile as well")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--write", type=Path, help="a file for all figures, as JSON")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    sides: dict[str, tuple[Compiler, Compiler, Callable[[], None]]] = {
        "firesteel": (fs.compile, lambda f: fs.compile(f, fullgraph=True), fs.reset)}
    if chosen.torch:
        if chosen.device == "cpu":  # once, not in every process; it looks for GPUs, which is not possible before a fork
            importlib.import_module("torch._inductor.compile_fx")

        sides["torch.compile"] = (torch.compile, lambda f: torch.compile(f, fullgraph=True), torch.compiler.reset)

    def work(name: str) -> dict[str, Any]:
        if chosen.device != "cpu":
            torch.set_default_device(chosen.device)
            transform_programs.move_modules(chosen.device)
        return compare(name, sides, chosen.device, chosen.calls)

    rows, died = [], []
    for name in (*INSIDE, *AROUND):
        if chosen.only and name not in chosen.only:
            continue
        try:
            row = in_process(lambda name=name: work(name))  # type: ignore[misc]
        except RuntimeError as error:
            print(f"{name:42} {error}", flush=True)
            died.append(name)
            continue
        rows.append(row)
        parts = [f"{side} {row['microseconds'].get(side, math.nan):8.1f} us" for side in ("eager", *sides)]
        notes = [f"{side}: {row[side][what]}" for side in sides for what in ("broken", "difference")
                 if row[side].get(what)]
        print(f"{name:42} {'  '.join(parts)}  {'; '.join(notes)}", flush=True)
        if chosen.write is not None:
            chosen.write.write_text(json.dumps(rows, indent=1))
    report(rows, list(sides))
    if died:
        print(f"not counted, for their process ended: {', '.join(died)}")


if __name__ == "__main__":
    main()
