"""Random programs plain against compiled, any number of them:

    python -m benchmarks.fuzz --start 0 --count 10000 --shrink --jobs 2

Prints every mismatch (with `--shrink` the smallest program that shows it) and the share of tensor operations that ran
inside graphs. Exits with 1 when there was a mismatch.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import re
import signal
import sys
import time
import types
from collections.abc import Iterable
from dataclasses import replace

import torch
from tests.fuzz.harness import COMPILERS, Report, check, run_program
from tests.fuzz.parts import parts
from tests.fuzz.program import Program
from tests.fuzz.shrinker import shrink


def _alarm(number: int, frame: types.FrameType | None) -> None:
    raise TimeoutError("the program did not end")


def _checked(program: Program, compiler: str, traces: bool, seconds: int) -> Report:
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(seconds)
    try:
        return check(program, compiler, traces)
    except Exception as error:
        return Report(program, [f"harness: {type(error).__name__}: {error}"], 0, 0, 0, [])
    finally:
        signal.alarm(0)


def run_seed(seed: int, part: str, compiler: str, shrink_failures: bool, traces: bool, seconds: int) -> Report:
    """Check one program; when it fails, the report's program is the shrunk one if that was asked for."""
    torch.set_num_threads(1)
    report = _checked(parts()[part](seed), compiler, traces, seconds)
    if not report.differences or not shrink_failures:
        return report
    kind = _kind(report)

    def still_fails(program: Program) -> bool:
        # A cut that makes the program itself fail would lead to another difference than the one looked for.
        if not set(run_program(program).raised) <= set(report.raised):
            return False
        smaller = _checked(program, compiler, traces, seconds)
        return bool(smaller.differences) and _kind(smaller) == kind

    return replace(report, program=shrink(report.program, still_fails))


def _kind(report: Report) -> str:
    """What went wrong, roughly: which exceptions, or what kind of fact (`call 1: result[0].value: ...` is "result")."""
    _, _, difference = report.differences[0].partition(": ")
    if difference.startswith("exception: "):
        return " ".join(difference.split()[:4])
    return re.split(r"[:.\[ ]", difference)[0]


def _results(seeds: Iterable[int], arguments: argparse.Namespace) -> Iterable[Report]:
    run = functools.partial(
        run_seed,
        part=arguments.part,
        compiler=arguments.compiler,
        shrink_failures=arguments.shrink,
        traces=arguments.traces,
        seconds=arguments.timeout,
    )
    if arguments.jobs == 1:
        yield from map(run, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
        yield from pool.imap_unordered(run, seeds, chunksize=10)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare random programs plain and compiled.")
    parser.add_argument("--start", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=2000, help="number of programs")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--shrink", action="store_true", help="cut failing programs down")
    parser.add_argument("--traces", action="store_true", help="compare the lines of uncaught exceptions too")
    parser.add_argument("--timeout", type=int, default=60, help="seconds for one program")
    parser.add_argument("--show", type=int, default=10, help="print the source of at most this many failures")
    parser.add_argument("--compiler", choices=sorted(COMPILERS), default="firesteel")
    parser.add_argument("--part", choices=sorted(parts()), default="language", help="which generator")
    parser.add_argument("--print", type=int, metavar="SEED", help="print the program of this seed and stop")
    arguments = parser.parse_args()
    if arguments.print is not None:
        print(parts()[arguments.part](arguments.print).source)
        return 0

    began = time.perf_counter()
    inside = total = graphs = raised = failed = 0
    for report in _results(range(arguments.start, arguments.start + arguments.count), arguments):
        inside += report.inside
        total += report.total
        graphs += report.graphs
        raised += bool(report.raised)
        if report.differences:
            failed += 1
            print(f"seed {report.program.seed}: {len(report.differences)} differences")
            for difference in report.differences[:5]:
                print(f"    {difference[:300]}")
            if failed <= arguments.show and arguments.shrink:
                print(report.program.source, flush=True)
    print(
        f"{arguments.count} programs in {time.perf_counter() - began:.0f} s: {failed} mismatches, "
        f"{raised} end in an exception, {graphs} graphs, "
        f"{inside} of {total} tensor operations inside graphs ({inside / max(total, 1):.1%})"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
