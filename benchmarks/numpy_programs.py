"""NumPy programs in compiled functions: right in values, dtypes and types, in one graph, and how fast beside NumPy.

    python -m benchmarks.numpy_programs                  # all programs, with torch.compile beside them, and times
    python -m benchmarks.numpy_programs --only softmax --size 1048576 --no-torch

For each program: whether results are the same as NumPy's in values, dtypes and types, into how many graphs the program
was captured, by firesteel and by torch.compile, and how much faster than NumPy compiled code is on arrays of `--size`
elements (the best of several rounds, alternating).
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.capture.numpy_programs import PROGRAMS, Program, arguments
from tests.capture.test_numpy import difference

import firesteel as fs


def judged(plain: Any, compiled: Any) -> tuple[bool, bool]:
    """Whether values are right, and whether dtypes and types are too (strides are not compared here)."""
    def flat(result: Any) -> list[Any]:
        if isinstance(result, dict):
            result = [*result.values()]
        return [leaf for item in result for leaf in flat(item)] if isinstance(result, (tuple, list)) else [result]

    ours, theirs = flat(plain), flat(compiled)
    if len(ours) != len(theirs):
        return False, False
    values = types = True
    for one, two in zip(ours, theirs, strict=True):
        types = types and type(one) is type(two) and getattr(one, "dtype", None) == getattr(two, "dtype", None)
        try:
            values = values and np.shape(one) == np.shape(two) and not difference(
                np.ravel(one).copy(), np.ravel(two).astype(np.asarray(one).dtype))
        except (AssertionError, TypeError, ValueError):
            values = False
    return values, types


def with_firesteel(program: Program) -> tuple[bool, bool, int]:
    """Right values, right types, and the number of graphs."""
    graphs: list[Any] = []

    def keep(module: Any, inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    given, taken = arguments(program.function), arguments(program.function)
    plain = program.function(*given)
    compiled = fs.compile(program.function, backend=keep)(*taken)
    values, types = judged((plain, given), (compiled, taken))
    try:
        fs.compile(program.function, backend="eager", fullgraph=True)(*arguments(program.function))
        whole = 1
    except fs.errors.GraphBreakError:
        whole = max(len(graphs), 2)
    native = fs.compile(program.function, backend="native")(*copy.deepcopy(arguments(program.function)))
    return values and judged(plain, native)[0], types and judged(plain, native)[1], whole


def with_torch(program: Program) -> tuple[bool, bool, int]:
    """The same for torch.compile."""
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    torch._dynamo.reset()
    given, taken = arguments(program.function), arguments(program.function)
    plain = program.function(*given)
    try:
        compiled = torch.compile(program.function, backend=counter)(*taken)
        values, types = judged((plain, given), (compiled, taken))
    except Exception:
        values = types = False
    torch._dynamo.reset()
    try:
        torch.compile(program.function, backend="eager", fullgraph=True)(*arguments(program.function))
        whole = 1
    except Exception:
        whole = max(counter.frame_count, 2)
    return values, types, whole


def speed(program: Program, size: int, rounds: int) -> float:
    """How many times as fast as NumPy compiled code is."""
    compiled = fs.compile(program.function, backend="native")
    given, taken = arguments(program.function, size), arguments(program.function, size)
    for _ in range(3):
        program.function(*given)
        compiled(*taken)
    best = [math.inf, math.inf]
    for _ in range(rounds):
        for which, (function, args) in enumerate(((program.function, given), (compiled, taken))):
            begin = time.perf_counter()
            function(*args)
            best[which] = min(best[which], time.perf_counter() - begin)
    return best[0] / best[1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--size", type=int, default=1 << 20)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    for name in args.only or PROGRAMS:
        program = PROGRAMS[name]
        fs.reset()
        row: dict[str, Any] = {"name": name, "firesteel": with_firesteel(program)}
        if not args.no_torch:
            row["torch"] = with_torch(program)
        if program.timed and not args.no_times:
            row["speed"] = speed(program, args.size, args.rounds)
        rows.append(row)
        print(f"{name:32}", *(f"{who} {'right' if row[who][0] else 'WRONG':5} {'types' if row[who][1] else 'TYPES':5} "
                              f"{row[who][2]} graphs  " for who in ("firesteel", "torch") if who in row),
              f"{row['speed']:6.2f}x" if "speed" in row else "", flush=True)
    for who in ("firesteel", "torch"):
        known = [row[who] for row in rows if who in row]
        if known:
            print(f"{who}: {len(known)} programs, {sum(v for v, _, _ in known)} right in values, "
                  f"{sum(v and t for v, t, _ in known)} in values and types, "
                  f"{sum(n == 1 for *_, n in known)} in one graph")
    times = [row["speed"] for row in rows if "speed" in row]
    if times:
        mean = math.exp(sum(map(math.log, times)) / len(times))
        print(f"speed beside NumPy on {args.size} elements: {mean:.2f}x in geometric mean over {len(times)} programs, "
              f"{min(times):.2f}x at least")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
