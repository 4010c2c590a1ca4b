"""Faults put into firesteel one by one: are the stage and the operator named, and how small is the script that remains?

    python -m benchmarks.injected_faults
    python -m benchmarks.injected_faults --only lowering_of_gelu_raises --show
    python -m benchmarks.injected_faults --jobs 8 --seconds 330 --json faults.json
    python -m benchmarks.injected_faults --share 1/4

Each fault of `tests/repair/faults*.py` is put into processes that run a program of 20 to 50 lines. What ``firesteel
bisect`` does names a stage and an operator and makes a script small, with which plain python has to fail as well. A
fault is found when the stage is right and the first operator named is the one at fault (a place, for guards). Prints a
row as each fault is done, and a table; exits with 1 when fewer than 95% of those asked for are found. After
``--seconds`` no further fault begins, and what runs still has a minute; what did not end is told apart from what was
not found. ``--json`` is whole after each fault. No GPU is used.
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
    ended: bool = False
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
"""Seconds that a process has beyond its limit, for what it does not count, and beyond the time of all of them."""
SHARE = 0.95
"""How many of the faults have to be named."""


class Runs:
    """Processes that look for faults. ``end``: when none begins any more."""

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
        left = self.end - time.monotonic()
        if left <= 0:
            return row
        fault = faults.FAULTS[name]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            environment = {**faults.hooked_environment(name, Path(folder)), "CUDA_VISIBLE_DEVICES": ""}
            Path(folder, "program.py").write_text(faults.PROGRAMS[fault.program])
            command = [sys.executable, "-c", WORK, "program.py", "small.py", str(self.limit)]
            began = time.perf_counter()
            process = subprocess.Popen(command, env=environment, cwd=folder, process_group=0, text=True,
                                       errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            self.open.add(process)
            try:
                written, errors = process.communicate(timeout=min(self.limit, left) + LONGER)
                row.ended = True
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


def table(rows: list[Row], names: list[str]) -> str:
    """The last lines: how many are named, how long scripts are, how long it takes, what is missing."""
    ended = [row for row in rows if row.ended]
    named, alone = sum(row.named for row in ended), sum(row.fails_alone for row in ended)
    lines = [row.lines for row in ended if row.lines]
    text = [f"named: {named} of {len(ended)} that ended, of {len(names)}",
            f"scripts that fail with plain python: {alone}",
            f"{'':20} {'median':>8} {'90%':>8} {'most':>8}"]
    for title, numbers in (("lines of a script", lines), ("seconds", [row.seconds for row in ended]),
                           ("seconds of CPU", [row.cpu_seconds for row in ended if row.cpu_seconds])):
        if numbers:
            high = sorted(numbers)[min(len(numbers) - 1, int(0.9 * len(numbers)))]
            text.append(f"{title:20} {statistics.median(numbers):8.0f} {high:8.0f} {max(numbers):8.0f}")
    done = {row.name for row in ended}
    for title, missing in (("not named", [row.name for row in ended if not row.named]),
                           ("more than 40 lines", [row.name for row in ended if row.lines > 40]),
                           ("did not end", [name for name in names if name not in done])):
        if missing:
            text.append(f"{title}: {', '.join(sorted(missing))}")
    return "\n".join(text)


def _asked_for() -> tuple[argparse.Namespace, list[str]]:
    """The options, and the names of the faults to put in."""
    parser = argparse.ArgumentParser(description="Put faults into firesteel and look whether they are found.")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="names of faults")
    parser.add_argument("--share", metavar="K/N", help="one part of the faults, such as 2/4")
    parser.add_argument("--list", action="store_true", help="only print the names")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one fault")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="seconds after which no fault begins")
    parser.add_argument("--jobs", type=int, default=1, help="faults at a time")
    parser.add_argument("--json", help="a file for the rows")
    parser.add_argument("--show", action="store_true", help="print the scripts that remain")
    arguments = parser.parse_args()
    faults.load()
    names = arguments.only or list(faults.FAULTS)
    unknown = [name for name in names if name not in faults.FAULTS]
    if unknown:
        parser.error(f"there is no fault {', '.join(unknown)}; --list names them")
    names.sort(key=lambda name: not name.endswith(SLOW))  # what takes longest begins first
    if arguments.share:
        part, _, parts = arguments.share.partition("/")
        if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
            parser.error("--share takes K/N, such as 2/4")
        names = names[int(part) - 1::int(parts)]
    return arguments, names


def _write(rows: list[Row], path: str) -> None:
    """Write the rows of all that is done; the file is whole at any moment."""
    partial = Path(f"{path}.partial")
    partial.write_text(json.dumps([asdict(one) for one in rows], indent=1))
    partial.replace(path)


def _print(row: Row, show: bool) -> None:
    named, alone = ("yes" if one else "NO" for one in (row.named, row.fails_alone))
    print(f"{row.name:44} {named:5} {alone:5} {row.lines:5} {row.runs:4} {row.seconds:6.1f} "
          f"{row.cpu_seconds:6.1f}  {row.stage}: {row.operator[:60]}", flush=True)
    if show or not row.stage:
        print(row.text, flush=True)


def main() -> int:
    arguments, names = _asked_for()
    if arguments.list:
        print("\n".join(names))
        return 0
    runs = Runs(arguments.limit, time.monotonic() + arguments.seconds)
    rows: list[Row] = []
    print(f"{'fault':44} {'named':5} {'alone':5} {'lines':>5} {'runs':>4} {'s':>6} {'CPU s':>6}  stage: operator")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        try:
            for done in concurrent.futures.as_completed([pool.submit(runs.measure, name) for name in names]):
                row = done.result()
                if not row.seconds:
                    continue  # the time was up before it began
                rows.append(row)
                _print(row, arguments.show)
                if arguments.json:
                    _write(rows, arguments.json)
        except KeyboardInterrupt:
            runs.end = 0.0
            runs.stop()
    print(table(rows, names))
    return 0 if sum(row.named for row in rows) >= SHARE * len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
