"""Whole programs, eager and compiled, each in processes of their own: one row each, and the bars.

    OMP_NUM_THREADS=1 python -m benchmarks.programs                        # all of them, 1, 10 and 100 calls
    python -m benchmarks.programs --only gan,vae --calls 1 10 1000
    python -m benchmarks.programs --torch                                  # with torch.compile's totals beside
    python -m benchmarks.programs --only gan --reasons                     # every break, recompilation and warning

A call is one round of the program's own loop. Seconds are totals from the first call on, with importing and calling
the compiler, in a process with empty caches; those of both sides are the least of `--rounds` processes. `equal` is
"exact", or how far the first ten results are from the plain run's. `inside` is the share of operators that ran in
graphs, of the operators that ran inside of what is compiled, in the calls after the fifth; those of backward passes
outside of it are not counted. `breaks` are places, `compilations` graphs and the pieces between them.

Programs run as users run them: uncompiled until compiling pays (``config.compile_after``). With `--wait` their first
calls are compiled.
"""

from __future__ import annotations

import argparse
import compileall
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from tests.whole_programs.program import PROGRAMS

from benchmarks import report
from benchmarks.programs.comparing import difference
from benchmarks.programs.registry import load_all

SHORT_BAR, LONG_BAR = 1.15, 0.9
SOURCES = Path(__file__).resolve().parents[2] / "src" / "firesteel"
FRESH = [False]
"""Whether each run has a new interpreter."""
KEPT_VARIABLE = "FIRESTEEL_COMPILE_AFTER"
LONGEST = 900
"""Seconds that a run may take."""


def in_process(name: str, side: str, calls: list[int], threads: int, clock: str) -> dict[str, Any]:
    """What one run of a program says, in a process of its own with empty caches.

    It is forked from this one, which has imported torch and nothing of any compiler. With `FRESH` it is a new one: what
    a forked process touches first is copied, which takes milliseconds that no user sees.
    """
    import torch

    with tempfile.TemporaryDirectory() as folder:
        target, errors = Path(folder) / "result.pt", Path(folder) / "errors.txt"
        if FRESH[0]:
            given = [name, side, ",".join(map(str, calls)), str(threads), clock, folder]
            process = subprocess.Popen([sys.executable, "-m", "benchmarks.programs", "--child", *given]).pid
        elif (process := os.fork()) == 0:
            _child(name, side, calls, threads, clock, folder)
        started = time.monotonic()
        while not (ended := os.waitpid(process, os.WNOHANG))[0]:
            if time.monotonic() - started > LONGEST:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                return {"error": f"no result after {LONGEST} s"}
            time.sleep(0.02)
        if not target.exists():
            lines = errors.read_text(encoding="utf-8").strip().splitlines() or [f"ended with {ended[1]}"]
            return {"error": lines[-1][:300]}
        run: dict[str, Any] = torch.load(target, weights_only=False)
        return run


def _child(name: str, side: str, calls: list[int], threads: int, clock: str, folder: str) -> NoReturn:
    """The other process: it writes its result, or its error."""
    import torch

    from benchmarks.programs.one_run import run_side

    # caches are empty; no variable is ours, as with most users, for any of them has settings imported
    for variable in [name for name in os.environ if name.startswith("FIRESTEEL_") and name != KEPT_VARIABLE]:
        del os.environ[variable]
    os.environ |= {"XDG_CACHE_HOME": folder, "TORCHINDUCTOR_CACHE_DIR": folder}
    gc.collect()  # copies the memory that is shared with the other process, which would be counted below
    if side == "inside":
        os.environ["FIRESTEEL_COMPILE_AFTER"] = "0"
    errors = os.open(f"{folder}/errors.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    try:
        torch.set_num_threads(threads)
        torch.save(run_side(name, side, calls, clock), f"{folder}/result.pt")
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def best(name: str, side: str, calls: list[int], rounds: int, threads: int, clock: str) -> dict[str, Any]:
    """The longest run of one side, with the least of its totals over several processes for each number of calls.

    A program of ten calls is not the beginning of one of a thousand: when to compile depends on what is left.
    """
    seconds, run = {}, {}
    for number in calls:
        runs = [in_process(name, side, [number], threads, clock) for _ in range(rounds)]
        for run in runs:
            if "error" in run:
                return run
        seconds[number] = min(run["seconds"][number] for run in runs)
        run = {**runs[0], "warm": min(run["warm"] for run in runs)}
    return {**run, "seconds": seconds}


def measure(name: str, calls: list[int], rounds: int, threads: int, clock: str, with_torch: bool) -> dict[str, Any]:
    """One row."""
    row: dict[str, Any] = {"program": name}
    calls = [number for number in calls if number <= PROGRAMS[name].most_calls]
    plain = best(name, "eager", calls, rounds, threads, clock)
    compiled = best(name, "firesteel", calls, rounds, threads, clock)
    inside = in_process(name, "inside", [8], threads, clock)
    for side, run in (("eager", plain), ("firesteel", compiled)):
        if "error" in run:
            return {**row, "equal": f"{side} failed: {run['error']}"}
    row["equal"] = difference(plain["results"], compiled["results"], PROGRAMS[name].tolerance)
    row["internal"] = len([text for text in compiled["warnings"] if "firesteel failed" in text])
    row["warnings"] = compiled["warnings"]
    row["breaks"], row["compilations"] = len(compiled["breaks"]), compiled["compilations"]
    row["reasons"] = {name: compiled[name] for name in ("breaks", "recompiled", "skipped", "warnings")}
    row["inside"] = inside.get("inside") if "error" not in inside else None
    row["eager ms"] = plain["warm"] * 1e3
    row["first ms"] = compiled["seconds"][calls[0]] * 1e3
    for number in calls:
        row[f"total {number}"] = compiled["seconds"][number] / plain["seconds"][number]
    row["warm"] = compiled["warm"] / plain["warm"]
    if with_torch:
        other = best(name, "torch", calls, 1, threads, clock)
        for number in calls:
            row[f"torch {number}"] = None if "error" in other else other["seconds"][number] / plain["seconds"][number]
        row["torch warm"] = None if "error" in other else other["warm"] / plain["warm"]
        row["torch error"] = other.get("error")
    return row


def shown(row: dict[str, Any], columns: list[str]) -> list[str]:
    """A row as the table has it."""
    cells = []
    for column in columns:
        value = row.get(column)
        if column == "inside" and value is not None:
            cells.append(f"{value:.0%}")
        elif isinstance(value, float) and (column.startswith(("total", "torch")) or column == "warm"):
            cells.append(f"{value:.2f}×")
        else:
            cells.append(report.cell(value))
    return cells


def summary(rows: list[dict[str, Any]], calls: list[int]) -> list[str]:
    """The bars of whole programs."""
    wrong = [row["program"] for row in rows if row["equal"] != "exact" and not row["equal"].startswith("close")]
    internal = [row["program"] for row in rows if row.get("internal")]
    lines = [f"equal: {len(rows) - len(wrong)} of {len(rows)}" + (f", not {', '.join(wrong)}" if wrong else ""),
             f"internal errors: {len(internal)}" + (f", in {', '.join(internal)}" if internal else "")]
    timed = [row for row in rows if "warm" in row]
    for number in calls:
        totals = {row["program"]: row[f"total {number}"] for row in timed if f"total {number}" in row}
        if not totals:
            continue
        bar = SHORT_BAR if number <= 10 else 1.0
        above = sorted((name for name, ratio in totals.items() if ratio > bar), key=lambda name: -totals[name])
        lines.append(f"total of {number} calls: geometric mean {report.geometric_mean(totals.values()):.2f}× eager; "
                     f"{len(above)} above {bar}×")
    if timed:
        warm = {row["program"]: row["warm"] for row in timed}
        slow = sorted((name for name, ratio in warm.items() if ratio > 1.0), key=lambda name: -warm[name])
        lines.append(f"warm: geometric mean {report.geometric_mean(warm.values()):.2f}× eager (bar at 1,000 calls: "
                     f"{LONG_BAR}×); {len(slow)} slower than eager" + (f": {', '.join(slow)}" if slow else ""))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="names, with commas between them")
    parser.add_argument("--calls", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--rounds", type=int, default=1, help="processes of each side; the least total counts")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: where others use the machine")
    parser.add_argument("--torch", action="store_true", help="torch.compile too, which takes minutes")
    parser.add_argument("--wait", action="store_true", help="compile in the first call")
    parser.add_argument("--reasons", action="store_true", help="print breaks, recompilations and warnings")
    parser.add_argument("--json", type=Path, help="write all rows there")
    parser.add_argument("--fresh", action="store_true",
                        help="new interpreters, which take seconds to start: for few calls")
    parser.add_argument("--child", nargs=6, help=argparse.SUPPRESS)
    given = parser.parse_args()
    FRESH[0] = given.fresh
    if not given.wait:
        os.environ.pop("FIRESTEEL_COMPILE_AFTER", None)
    load_all()
    if given.child:
        name, side, numbers, threads, clock, folder = given.child
        _child(name, side, [int(number) for number in numbers.split(",")], int(threads), clock, folder)
    compileall.compile_dir(SOURCES, quiet=1)  # as in an installed package, so that importing is not compiling
    names = given.only.split(",") if given.only else list(PROGRAMS)
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        parser.error(f"there is no program {unknown[0]!r}; there are {', '.join(PROGRAMS)}")
    calls = sorted(given.calls)
    columns = ["program", "equal", "internal", "breaks", "compilations", "inside", "eager ms", "first ms",
               *[f"total {number}" for number in calls], "warm"]
    if given.torch:
        columns += [*[f"torch {number}" for number in calls], "torch warm"]
    print(" | ".join(columns), flush=True)
    rows = []
    for name in names:
        row = measure(name, calls, given.rounds, given.threads, given.clock, given.torch)
        rows.append(row)
        print(" | ".join(shown(row, columns)), flush=True)
        if given.reasons and "reasons" in row:
            for kind, texts in row["reasons"].items():
                for text in texts:
                    print(f"    {kind}: " + text.replace("\n", "\n        "), flush=True)
        if given.json:
            given.json.write_text(json.dumps(rows, indent=1, default=str), encoding="utf-8")
    print()
    for line in summary(rows, calls):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
