"""Which share of the operators runs inside of graphs when graphs break in callees:

    python -m benchmarks.nested_breaks                          # each form of a callee alone, then 500 random programs
    python -m benchmarks.nested_breaks --count 5000 --torch     # torch.compile beside it
    python -m benchmarks.nested_breaks --count 0 --only hook

The forms are those of `tests/fuzz/callees.py`; a row shows for each kind of break how many operators of four calls ran
in graphs, of how many, and the number of graphs. Numbers that Python reads from tensors are not counted. Exits with 1
when a result differs, when less than 97% are inside, or when torch.compile has more of a random program's inside.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import logging
import sys
import warnings

from tests.fuzz.callees import FORMS
from tests.fuzz.harness import Report, check
from tests.fuzz.parts.nested_breaks import BREAKS, alone, generate
from tests.fuzz.program import Program

BAR = 0.97


def run(program: Program, compiler: str) -> Report | None:
    """The program plain and compiled; None where torch.compile fails."""
    if compiler == "torch":
        source = program.source.replace("fs.graph_break()", "torch._dynamo.graph_break()")
        program = dataclasses.replace(program, source=source)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return check(program, compiler)
    except Exception:
        if compiler == "torch":
            return None
        raise


def cell(report: Report | None) -> str:
    if report is None:
        return f"{'fails':>12}"
    return f"{report.inside:4}/{report.total:<4}{report.graphs:3}" + ("!" if report.differences else " ")


class Sums:
    """Operators and failures of one compiler over many programs."""

    def __init__(self) -> None:
        self.inside = self.total = self.differing = self.graphs = 0

    def add(self, report: Report | None, total: int) -> None:
        self.total += total
        if report is not None:
            self.inside += report.inside
            self.graphs += report.graphs
        self.differing += report is None or bool(report.differences)

    @property
    def share(self) -> float:
        return self.inside / max(self.total, 1)

    def __str__(self) -> str:
        return (f"{self.share:.2%} of {self.total} operators inside {self.graphs} graphs, "
                f"{self.differing} programs differ or fail")


def forms(only: str, compilers: list[str]) -> bool:
    """Print a table of the forms; whether all is well."""
    print(f"{'form':28}" + "".join(f"{f'{kind} {name}':>22}" for kind in BREAKS for name in compilers))
    sums = {name: Sums() for name in compilers}
    for form in FORMS:
        if only not in form.name:
            continue
        cells = []
        for kind in BREAKS:
            reports = {name: run(alone(form, kind), name) for name in compilers}
            mine = reports["firesteel"]
            assert mine is not None
            for name, report in reports.items():
                sums[name].add(report, mine.total)
                cells.append(f"{cell(report):>22}")
            for difference in mine.differences[:2]:
                print(f"    {form.name}, {kind}: {difference[:200]}")
        print(f"{form.name:28}" + "".join(cells), flush=True)
    for name in compilers:
        print(f"{name}: {sums[name]}")
    return not sums["firesteel"].differing and sums["firesteel"].share >= BAR


def programs(start: int, count: int, compilers: list[str]) -> bool:
    """Print sums over random programs, and those that are worth a look; whether all is well."""
    sums = {name: Sums() for name in compilers}
    fewer = 0
    for seed in range(start, start + count):
        reports = {name: run(generate(seed), name) for name in compilers}
        mine, theirs = reports["firesteel"], reports.get("torch")
        assert mine is not None
        for name, report in reports.items():
            sums[name].add(report, mine.total)
        if mine.differences:
            print(f"seed {seed} differs: {mine.differences[0][:200]}")
        if theirs is not None and not theirs.differences and theirs.inside > mine.inside:
            fewer += 1
            print(f"seed {seed}: {mine.inside} operators inside, torch.compile has {theirs.inside} of {mine.total}")
        elif mine.inside < BAR * mine.total:
            print(f"seed {seed}: {mine.inside} of {mine.total} operators inside")
    for name in compilers:
        print(f"{count} random programs, {name}: {sums[name]}")
    return not sums["firesteel"].differing and not fewer and sums["firesteel"].share >= BAR


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="forms whose names contain this")
    parser.add_argument("--start", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=500, help="random programs")
    parser.add_argument("--torch", action="store_true", help="run torch.compile beside it")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    compilers = ["firesteel", *(["torch"] if arguments.torch else [])]
    well = forms(arguments.only, compilers)
    if arguments.count:
        well = programs(arguments.start, arguments.count, compilers) and well
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
