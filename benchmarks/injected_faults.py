"""Faults put into firesteel one by one: are the stage and the operator named, and how small is the script that remains?

    python -m benchmarks.injected_faults
    python -m benchmarks.injected_faults --only lowering_of_gelu_raises --show
    python -m benchmarks.injected_faults --jobs 2 --json faults.json

Each fault of `tests/repair/faults*.py` is put into processes that run a program of 20 to 50 lines. What ``firesteel
bisect`` does names a stage and an operator and makes a script small, with which plain python has to fail as well. A
fault is found when the stage is right and the first operator named is the one at fault (a place, for guards). Prints a
table; exits with 1 when more than three are not found.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from repair import faults  # noqa: E402


@dataclass
class Row:
    """What was found of a fault."""

    name: str
    stage: str = ""
    operator: str = ""
    lines: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    runs: int = 0
    named: bool = False
    fails_alone: bool = False
    text: str = ""


WORK = """
import json, sys
from firesteel.repair.bisect import bisect_text
from firesteel.repair.session import Session
path, out, limit = sys.argv[1], sys.argv[2], float(sys.argv[3])
session = Session(limit, 60.0, ".")
result = bisect_text(session, open(path).read(), out)
failure, small = result.failure, result.minified
print("RESULT " + json.dumps({
    "stage": failure.stage if failure else "", "operators": failure.operators[:3] if failure else [],
    "line": failure.line if failure else "", "message": str(failure), "lines": small.lines if small else 0,
    "runs": session.tried, "confirmed": bool(small and small.confirmed), "text": small.text if small else ""}))
"""


def measure(name: str, limit: float) -> Row:
    """Put one fault in and look for it."""
    fault = faults.FAULTS[name]
    row = Row(name)
    with tempfile.TemporaryDirectory() as folder:
        environment = faults.hooked_environment(name, Path(folder))
        path = os.path.join(folder, "program.py")
        Path(path).write_text(faults.PROGRAMS[fault.program])
        began, before = time.perf_counter(), _cpu()
        done = subprocess.run([sys.executable, "-c", WORK, path, os.path.join(folder, "small.py"), str(limit)],
                              env=environment, capture_output=True, text=True, cwd=folder, check=False)
        row.seconds, row.cpu_seconds = time.perf_counter() - began, _cpu() - before
    answer = next((line for line in done.stdout.splitlines() if line.startswith("RESULT ")), None)
    if answer is None:
        row.text = (done.stderr or done.stdout)[-2000:]
        return row
    found = json.loads(answer.removeprefix("RESULT "))
    row.stage, row.lines, row.runs = found["stage"], found["lines"], found["runs"]
    row.operator = ", ".join(found["operators"]) or found["line"]
    row.text, row.fails_alone = found["message"] + "\n" + found["text"], found["confirmed"]
    row.named = is_named(fault, row.stage, found["operators"], found["line"])
    return row


def is_named(fault: faults.Fault, stage: str, operators: list[str], line: str) -> bool:
    """Whether stage and operator are those at fault."""
    right_stage = any(stage == one or stage.startswith(f"{one} (") for one in fault.stages)
    first = operators[0] if operators else line
    return right_stage and bool(first) and any(one in first for one in fault.operators)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description="Put faults into firesteel and look whether they are found.")
    parser.add_argument("--only", nargs="*", help="names of faults")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one fault")
    parser.add_argument("--jobs", type=int, default=1, help="faults at a time")
    parser.add_argument("--json", help="a file for the rows")
    parser.add_argument("--show", action="store_true", help="print the scripts that remain")
    arguments = parser.parse_args()
    faults.load()
    names = arguments.only or list(faults.FAULTS)
    rows = []
    print(f"{'fault':44} {'named':5} {'alone':5} {'lines':>5} {'runs':>4} {'s':>6} {'CPU s':>6}  stage: operator")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for row in pool.map(lambda name: measure(name, arguments.limit), names):
            rows.append(row)
            named, alone = ("yes" if one else "NO" for one in (row.named, row.fails_alone))
            print(f"{row.name:44} {named:5} {alone:5} {row.lines:5} {row.runs:4} {row.seconds:6.1f} "
                  f"{row.cpu_seconds:6.1f}  {row.stage}: {row.operator[:60]}", flush=True)
            if arguments.show:
                print(row.text)
    named = sum(row.named for row in rows)
    lines = [row.lines for row in rows if row.lines]
    print(f"{named} of {len(rows)} named, {sum(row.fails_alone for row in rows)} scripts fail with plain python, "
          f"longest {max(lines, default=0)} lines, median {statistics.median(row.seconds for row in rows):.0f} s "
          f"({statistics.median(row.cpu_seconds for row in rows):.0f} s of CPU)")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 0 if len(rows) - named <= 3 else 1


if __name__ == "__main__":
    sys.exit(main())
