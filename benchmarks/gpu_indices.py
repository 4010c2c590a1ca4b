"""Indices that are out of range, on an NVIDIA GPU: whether the program stops and says where, and what looking costs.

    python -m benchmarks.gpu_indices stops --count 1000     # each in a process of its own
    python -m benchmarks.gpu_indices cost                   # kernels that look up much, with and without checks

A case of ``stops`` is an operator of `tests.kernels.gpu.index_programs`, a dtype, and an index tensor in which one
random element is out of range. It counts when CUDA reports the assertion and the message names the program's line. An
assertion ends a process's use of the GPU, so each case is a fork of a process that has not touched it yet.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from tests.kernels.gpu.index_programs import PROGRAMS, WRAPPING, outside

import firesteel as fs

ROWS, COUNT = 1000, 3000
DTYPES = ((torch.float32, torch.int64), (torch.bfloat16, torch.int64))
ABORTED = "device-side assert"


def _arguments(name: str, dtype: torch.dtype, kind: torch.dtype, dice: random.Random) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(dice.randrange(1 << 30))
    lowest = -ROWS if name in WRAPPING else 0
    table = torch.randn(ROWS, 8, generator=generator).to(dtype)
    return [table, torch.randint(lowest, ROWS, (COUNT,), generator=generator).to(kind)]


def _run(name: str, table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        result: torch.Tensor = fs.compile(PROGRAMS[name], backend="native")(table.cuda(), index.cuda())
    torch.cuda.synchronize()
    return result


def _compile_all() -> None:
    """Fill the caches, and look at results where all indices are in range."""
    for name, program in PROGRAMS.items():
        for dtype, kind in DTYPES:
            table, index = _arguments(name, dtype, kind, random.Random(0))
            if name in ("index_copy",):
                index = torch.randperm(ROWS).to(kind)[:COUNT]
                index = torch.cat([index, index, index])[:COUNT]
            want = program(table.double(), index.long())
            torch.testing.assert_close(_run(name, table, index).cpu().double(), want, rtol=2e-2, atol=2e-2)


def _one(number: int) -> str:
    """Run a case; "" if the program stopped with the line."""
    dice = random.Random(number)
    name = list(PROGRAMS)[number % len(PROGRAMS)]
    dtype, kind = DTYPES[number // len(PROGRAMS) % len(DTYPES)]
    table, index = _arguments(name, dtype, kind, dice)
    at = dice.choice([0, COUNT - 1, dice.randrange(COUNT)])
    index[at] = dice.choice(outside(name, ROWS))
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            _run(name, table, index)
            return f"{name}: {int(index[at])} at {at} went unnoticed"
        except Exception as error:
            told = str(error)
        file.seek(0)
        text = file.read().decode(errors="replace")
    line = PROGRAMS[name].__code__.co_firstlineno + 1
    if ABORTED not in told:
        return f"{name}: {told.splitlines()[0]}"
    if not re.search(rf"an index is out of range: .* at index_programs.py:{line}: return ", text):
        return f"{name}: no message: {text[:200]!r}"
    return ""


def _forked(work: Callable[[], str]) -> tuple[int, int]:
    """A process that does some work, and where its answer comes out."""
    answers, question = os.pipe()
    process = os.fork()
    if process:
        os.close(question)
        return process, answers
    try:
        answer = work()
    except BaseException as error:
        answer = f"{type(error).__name__}: {error}"
    os.write(question, answer.encode()[:4000])
    os._exit(0)


def _finished(child: tuple[int, int]) -> str:
    with os.fdopen(child[1]) as file:
        answer = file.read()
    os.waitpid(child[0], 0)
    return answer


def stops(count: int, jobs: int, seconds: float) -> int:
    """Run cases in processes of their own; how many of them did not end as they should."""
    def prepared() -> str:
        _compile_all()
        return ""

    started = time.perf_counter()
    problem = _finished(_forked(prepared))
    print(f"compiled in {time.perf_counter() - started:.0f} s {problem}", flush=True)
    waiting: collections.deque[tuple[int, int]] = collections.deque()
    problems: list[str] = []
    done = 0
    started = time.perf_counter()
    for number in range(count):
        if time.perf_counter() - started > seconds:
            break
        waiting.append(_forked(lambda number=number: _one(number)))
        if len(waiting) >= jobs:
            problems += filter(None, [_finished(waiting.popleft())])
            done += 1
    problems += filter(None, map(_finished, waiting))
    done += len(waiting)
    for line in problems[:20]:
        print(line)
    print(f"{done - len(problems)} of {done} programs over {len(PROGRAMS)} operators stopped and named the line, "
          f"{time.perf_counter() - started:.0f} s")
    return len(problems) + bool(problem)


def _gathering() -> dict[str, tuple[Callable[..., Any], list[torch.Tensor]]]:
    """Programs that do little but look up."""
    def rand(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda")

    def index(high: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, high, shape, device="cuda")

    return {
        "rows of 64": (lambda x, i: x[i] * 2, [rand(100_000, 64), index(100_000, 2_000_000)]),
        "rows of 1024, embedding": (torch.nn.functional.embedding, [index(50_000, 65_536), rand(50_000, 1024)]),
        "single elements": (lambda x, i: x.take(i) + 1, [rand(1 << 24), index(1 << 24, 1 << 26)]),
        "gather along rows": (lambda x, i: x.gather(1, i) * 2, [rand(16384, 2048), index(2048, 16384, 2048)]),
        "rows of 8, two indices": (
            lambda x, i, j: x[i] + x[j], [rand(1 << 20, 8), index(1 << 20, 4_000_000), index(1 << 20, 4_000_000)]),
        "index_add": (lambda x, i, s: x.index_add(0, i, s), [
            rand(100_000, 64), index(100_000, 2_000_000), rand(2_000_000, 64)]),
    }  # fmt: skip


def cost() -> int:
    """Times with and without checks, alternating; 1 if checks cost more than 2 percent in the geometric mean."""
    from benchmarks.gpu import device_ms

    ratios = []
    for name, (program, args) in _gathering().items():
        runs = []
        for looks in (True, False):
            fs.reset()
            with torch.no_grad(), fs.config.patch(check_indices=looks):
                run = fs.compile(program, backend="native")
                run(*args)
                runs.append(run)
        with torch.no_grad():
            times = [[device_ms(lambda _, run=run: run(*args), 1, 0.15) for run in runs] for _ in range(4)]
        with_checks, without = (min(pair[side] for pair in times) for side in (0, 1))
        ratios.append(with_checks / without)
        print(f"{name:28} {with_checks:8.3f} ms with checks {without:8.3f} without {ratios[-1]:7.3f}", flush=True)
    mean = statistics.geometric_mean(ratios)
    print(f"checks cost {100 * (mean - 1):.1f}%, at most {100 * (max(ratios) - 1):.1f}%")
    return int(mean > 1.02)


def main() -> int:
    """Command line. The exit status is 1 when something went unnoticed or costs too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("stops", "cost"))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=600, help="begin no more cases after this time")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with fs.config.patch(compile_after=0.0, raise_on_internal_error=True):
        return cost() if given.what == "cost" else int(stops(given.count, given.jobs, given.seconds) > 0)


if __name__ == "__main__":
    sys.exit(main())
