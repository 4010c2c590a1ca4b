"""Faults put into firesteel one by one: are the stage and the operator named, and how small is the script that remains?

    python -m benchmarks.injected_faults
    python -m benchmarks.injected_faults --only lowering_of_gelu_raises --show
    python -m benchmarks.injected_faults --jobs 16 --seconds 500 --json faults.json

Each fault of `tests/repair/faults*.py` is put into processes that run a program of 20 to 50 lines. What ``firesteel
bisect`` does names a stage and an operator and makes a script small, with which plain python has to fail as well. A
fault is found when the stage is right and the first operator named is the one at fault (a place, for guards). Prints a
row as each fault is done, and a table; exits with 1 when more than three of all are not found. ``--seconds`` ends what
is still running then: it counts as not found. No GPU is used.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import signal
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
import json, resource, sys
from firesteel.repair.bisect import bisect_text
from firesteel.repair.session import Session
path, out, limit = sys.argv[1], sys.argv[2], float(sys.argv[3])
session = Session(limit, 60.0, ".")
result = bisect_text(session, open(path).read(), out)
failure, small = result.failure, result.minified
used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print("RESULT " + json.dumps({
    "stage": failure.stage if failure else "", "operators": failure.operators[:3] if failure else [],
    "line": failure.line if failure else "", "message": str(failure), "lines": small.lines if small else 0,
    "runs": session.tried, "confirmed": bool(small and small.confirmed), "text": small.text if small else "",
    "cpu": sum(one.ru_utime + one.ru_stime for one in used)}))
"""
SLOW = ("_hangs", "_crash", "_crashes", "_aborts", "_is_lost")
LONGER = 60.0
"""Seconds that a process has beyond its limit, for what it does not count."""


class Runs:
    """Processes that look for faults. ``end``: when all of them are ended."""

    def __init__(self, limit: float, end: float) -> None:
        self.limit = limit
        self.end = end
        self.open: set[subprocess.Popen[str]] = set()

    def stop(self) -> None:
        """End what is still running."""
        for process in tuple(self.open):
            _end(process)

    def measure(self, name: str) -> Row:
        """Put one fault in and look for it."""
        row = Row(name)
        limit = min(self.limit, self.end - time.monotonic())
        if limit <= 1:
            row.text = "the time was up before it began"
            return row
        fault = faults.FAULTS[name]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            environment = {**faults.hooked_environment(name, Path(folder)), "CUDA_VISIBLE_DEVICES": ""}
            path = os.path.join(folder, "program.py")
            Path(path).write_text(faults.PROGRAMS[fault.program])
            began = time.perf_counter()
            process = subprocess.Popen([sys.executable, "-c", WORK, path, os.path.join(folder, "small.py"), str(limit)],
                                       env=environment, cwd=folder, process_group=0, text=True, errors="replace",
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.open.add(process)
            try:
                written, errors = process.communicate(timeout=max(1.0, min(limit + LONGER,
                                                                           self.end - time.monotonic())))
            except subprocess.TimeoutExpired:
                written, errors = "", "it did not end in time"
            finally:
                _end(process)
                self.open.discard(process)
            row.seconds = time.perf_counter() - began
        _read(row, fault, written, errors)
        return row


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and what it has started. Its children have groups of their own and end with it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _read(row: Row, fault: faults.Fault, written: str, errors: str) -> None:
    answer = next((line for line in written.splitlines() if line.startswith("RESULT ")), None)
    if answer is None:
        row.text = (errors or written)[-2000:]
        return
    found = json.loads(answer.removeprefix("RESULT "))
    row.stage, row.lines, row.runs, row.cpu_seconds = found["stage"], found["lines"], found["runs"], found["cpu"]
    row.operator = ", ".join(found["operators"]) or found["line"]
    row.text, row.fails_alone = found["message"] + "\n" + found["text"], found["confirmed"]
    row.named = is_named(fault, row.stage, found["operators"], found["line"])


def is_named(fault: faults.Fault, stage: str, operators: list[str], line: str) -> bool:
    """Whether stage and operator are those at fault."""
    right_stage = any(stage == one or stage.startswith(f"{one} (") for one in fault.stages)
    first = operators[0] if operators else line
    return right_stage and bool(first) and any(one in first for one in fault.operators)


def table(rows: list[Row], count: int) -> str:
    """The last lines: how many are named, how long scripts are, how long it takes."""
    named, alone = [row for row in rows if row.named], sum(row.fails_alone for row in rows)
    lines = [row.lines for row in rows if row.lines]
    text = [f"named: {len(named)} of {count}", f"scripts that fail with plain python: {alone}",
            f"{'':20} {'median':>8} {'90%':>8} {'most':>8}"]
    for title, numbers in (("lines of a script", lines), ("seconds", [row.seconds for row in rows]),
                           ("seconds of CPU", [row.cpu_seconds for row in rows if row.cpu_seconds])):
        if numbers:
            high = sorted(numbers)[min(len(numbers) - 1, int(0.9 * len(numbers)))]
            text.append(f"{title:20} {statistics.median(numbers):8.0f} {high:8.0f} {max(numbers):8.0f}")
    missing = [row.name for row in rows if not row.named]
    return "\n".join(text + [f"not named: {', '.join(missing)}"][:bool(missing)])


def main() -> int:
    parser = argparse.ArgumentParser(description="Put faults into firesteel and look whether they are found.")
    parser.add_argument("--only", nargs="*", help="names of faults")
    parser.add_argument("--list", action="store_true", help="only print the names")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one fault")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="seconds for all of them")
    parser.add_argument("--jobs", type=int, default=1, help="faults at a time")
    parser.add_argument("--json", help="a file for the rows")
    parser.add_argument("--show", action="store_true", help="print the scripts that remain")
    arguments = parser.parse_args()
    faults.load()
    names = arguments.only or list(faults.FAULTS)
    unknown = [name for name in names if name not in faults.FAULTS]
    if unknown:
        parser.error(f"there is no fault {', '.join(unknown)}; --list names them")
    if arguments.list:
        print("\n".join(names))
        return 0
    names.sort(key=lambda name: not name.endswith(SLOW))  # what takes longest begins first
    runs = Runs(arguments.limit, time.monotonic() + arguments.seconds)
    rows: list[Row] = []
    print(f"{'fault':44} {'named':5} {'alone':5} {'lines':>5} {'runs':>4} {'s':>6} {'CPU s':>6}  stage: operator")
    try:
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for done in concurrent.futures.as_completed([pool.submit(runs.measure, name) for name in names]):
                row = done.result()
                rows.append(row)
                named, alone = ("yes" if one else "NO" for one in (row.named, row.fails_alone))
                print(f"{row.name:44} {named:5} {alone:5} {row.lines:5} {row.runs:4} {row.seconds:6.1f} "
                      f"{row.cpu_seconds:6.1f}  {row.stage}: {row.operator[:60]}", flush=True)
                if arguments.show or not row.stage:
                    print(row.text, flush=True)
                if arguments.json:
                    Path(arguments.json).write_text(json.dumps([asdict(one) for one in rows], indent=1))
    except KeyboardInterrupt:
        runs.end = 0.0
        runs.stop()
    print(table(rows, len(names)))
    return 0 if sum(not row.named for row in rows) + len(names) - len(rows) <= 3 else 1


if __name__ == "__main__":
    sys.exit(main())
