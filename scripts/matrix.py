"""The tests and random programs with every Python and torch that is supported, and one table of what came out.

A cell is a Python and a torch, such as 3.13/2.15. Its environment is made once and kept, outside of the checkout. What
runs in it is cut into steps, the tests of one folder or the random programs of one part. The result of a step is kept
until the sources change, so a run that was stopped goes on with the step that it was in. With --earlier, steps that
nothing failed in count also if they ran with earlier sources; the table says how many those are.

Needs nothing but Python's own library.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CELLS = ("3.11/2.13", "3.12/2.13", "3.13/2.13", "3.13/2.15")
PROGRAMS = 2000
PINNED = "2.13"
"""The torch of constraints.txt."""
FINDING = re.compile(r"^(\w+) (\w+_\d+_[\w-]+): ")
STEP_SECONDS = 3600


@dataclass(frozen=True)
class Cell:
    """A Python and a torch."""

    python: str
    torch: str

    @staticmethod
    def of(text: str) -> Cell:
        match = re.fullmatch(r"(3\.\d+)/(\d+\.\d+)", text)
        if match is None:
            raise SystemExit(f"matrix: {text!r} is not of the form 3.13/2.15")
        return Cell(match[1], match[2])

    def __str__(self) -> str:
        return f"{self.python}/{self.torch}"


@dataclass(frozen=True)
class Step:
    """Something to run in a cell."""

    name: str
    command: tuple[str, ...]
    programs: int = 0
    """How many random programs it runs; 0 for tests."""


@dataclass
class Result:
    """What came out of a step."""

    passed: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    """Reasons, and how many tests were skipped for them."""
    failed: list[str] = field(default_factory=list)
    programs: int = 0
    seconds: float = 0.0
    sources: str = ""
    """What it is a result of."""


# Environments


def find_python(version: str) -> str | None:
    """An interpreter of a version: $PYTHON3_13 and so on, one on the path, one that pyenv has."""
    named = os.environ.get(f"PYTHON{version.replace('.', '_')}")
    found = [named] if named else []
    found += [path for path in [shutil.which(f"python{version}")] if path]
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found += [str(path / "bin" / "python") for path in sorted(versions.glob(f"{version}.*"), reverse=True)]
    for python in found:
        try:
            done = subprocess.run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                                  capture_output=True, text=True)
        except OSError:
            continue
        if done.stdout.strip() == version:
            return python
    return None


def constraints(torch: str, text: str, triton_of_torch: bool) -> str:
    """The pinned versions without those that belong to another torch, or to one that names the triton it needs."""
    dropped = ("torch", "triton") if torch != PINNED else ("triton",) if triton_of_torch else ()
    return "".join(line + "\n" for line in text.splitlines() if line.partition("==")[0] not in dropped)


def carry_out(commands: Iterable[Sequence[str]]) -> str:
    """Run one command after the other; what the first that fails says, or an empty string."""
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            return f"`{' '.join(command[:6])} ...` failed: {last}"
    return ""


def make_environment(cell: Cell, folder: Path) -> str:
    """Make the environment of a cell if it is not there; what stands in the way, or an empty string."""
    stamp = folder / "complete"
    inputs = [(ROOT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
    wanted = hashlib.sha256(b"".join(inputs)).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return ""
    base = find_python(cell.python)
    if base is None:
        return f"there is no Python {cell.python}"
    print(f"{cell}: making {folder} ...", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    limits = folder / "constraints.txt"
    pinned = (ROOT / "constraints.txt").read_text()
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--constraint", str(limits)]
    limits.write_text(constraints(cell.torch, pinned, triton_of_torch=True))
    problem = carry_out([[base, "-m", "venv", str(folder)], [*pip, "setuptools"], [*pip, f"torch=={cell.torch}.*"]])
    if problem:
        return problem
    triton_of_torch = any(folder.glob("lib/*/site-packages/triton-*.dist-info"))
    limits.write_text(constraints(cell.torch, pinned, triton_of_torch))
    problem = carry_out([
        [*pip, "--no-build-isolation", "--editable", f"{ROOT}[test]"],
        [*pip, "--no-deps", "torchvision", "timm"],  # they ask for a torch build of their own
    ])
    if problem:
        return problem
    stamp.write_text(wanted)
    return ""


# Steps


def steps(selection: Sequence[str], programs: int, jobs: int) -> list[Step]:
    """What runs in every cell: the tests folder by folder, or those selected, and the random programs part by part."""
    run = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    parallel = ("-n", str(jobs)) if jobs > 1 else ()
    if selection:
        tests = [Step("selected tests", (*run, *parallel, *selection))]
    else:
        folders = sorted(path for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.rglob("test_*.py")))
        files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("test_*.py"))
        # the tests of fake tensor rules count, at the end, which rules they called: they need one process
        tests = [Step("examples", (*run, "--doctest-modules", "src", "tests/fake/rules/test_rules.py"))]
        tests += [Step(f"tests/{folder.name}", (*run, *parallel, f"tests/{folder.name}")) for folder in folders]
        tests.append(Step("tests", (*run, *parallel, *files)))
    parts = sorted(path.stem for path in (ROOT / "tests/fuzz/parts").glob("*.py") if path.stem != "__init__")
    each = math.ceil(programs / len(parts))
    return tests + [
        Step(f"programs/{part}", ("-m", "benchmarks.fuzz", "--part", part, "--compiler", "all", "--start", "900000",
                                  "--count", str(each), "--jobs", str(jobs)), each)
        for part in parts if each]


def run_step(step: Step, python: str, folder: Path, log: Path) -> Result:
    """Run a step; its output goes into a file."""
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [python, *step.command, *(() if step.programs else (f"--junitxml={report}",))]
    began = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            status = process.wait(STEP_SECONDS)
        except subprocess.TimeoutExpired:
            status = -1
        finally:
            if process.poll() is None:  # also when this run is stopped: it has processes of its own
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    text = log.read_text(errors="replace")
    result = read_programs(step, text, status) if step.programs else read_report(step, report, status)
    result.seconds = time.monotonic() - began
    return result


def read_programs(step: Step, text: str, status: int) -> Result:
    """The findings among random programs."""
    found = [f"{match[1]} {match[2]}" for line in text.splitlines() if (match := FINDING.match(line))]
    if status and not found:
        found = [f"{step.name} ended with status {status}"]
    return Result(failed=found, programs=step.programs)


def read_report(step: Step, report: Path, status: int) -> Result:
    """The outcomes of tests, from pytest's report."""
    result = Result()
    if report.exists():
        for case in ElementTree.parse(report).iter("testcase"):
            skip = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                result.failed.append(f"{case.get('classname')}::{case.get('name')}")
            elif skip is not None:
                reason = (skip.get("message") or "no reason").splitlines()[0]
                result.skipped[reason] = result.skipped.get(reason, 0) + 1
            else:
                result.passed += 1
    if status not in (0, 5) and not result.failed:  # 5: nothing was selected
        result.failed.append(f"{step.name} ended with status {status}")
    return result


# Results


def sources_digest() -> str:
    """What the results of steps depend on: everything that is not ignored, as it is now."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--",
               "src", "tests", "benchmarks", "pyproject.toml", "constraints.txt"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    digest = hashlib.sha256()
    for name in sorted(listed.stdout.split(b"\0")):
        path = ROOT / os.fsdecode(name)
        if name and path.is_file():
            digest.update(name + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


class Kept:
    """The results of a cell on disk, each with the sources that it is of."""

    def __init__(self, path: Path, sources: str) -> None:
        self.path, self.sources = path, sources
        self.results: dict[str, Result] = {}
        try:
            data = json.loads(path.read_text())
            self.results = {key: Result(**value) for key, value in data.items()}
        except (OSError, ValueError, TypeError):
            pass  # none yet, or damaged

    @staticmethod
    def key(step: Step) -> str:
        return " ".join((step.name, *step.command))

    def get(self, step: Step, earlier: bool = False) -> Result | None:
        """The result of a step with these sources, or, if wanted, one with earlier sources in which nothing failed."""
        result = self.results.get(self.key(step))
        if result is not None and (result.sources == self.sources or (earlier and not result.failed)):
            return result
        return None

    def put(self, step: Step, result: Result) -> None:
        result.sources = self.sources
        self.results[self.key(step)] = result
        data = {key: asdict(value) for key, value in self.results.items()}
        written = self.path.with_suffix(".new")
        written.write_text(json.dumps(data, indent=1))
        written.replace(self.path)


def table(rows: dict[Cell, list[Result] | str], sources: str, steps_of_each: int) -> str:
    """The outcomes of all cells; a cell that could not be made has the reason in place of its results."""
    lines = ["| Python | torch | tests passed | failed | skipped | random programs | findings | minutes |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    notes: list[str] = []
    for cell, results in rows.items():
        if isinstance(results, str):
            lines.append(f"| {cell.python} | {cell.torch} | not run: {results} | | | | | |")
            continue
        tests = [result for result in results if not result.programs]
        programs = [result for result in results if result.programs]
        skipped: dict[str, int] = {}
        for result in tests:
            for reason, count in result.skipped.items():
                skipped[reason] = skipped.get(reason, 0) + count
        lines.append(
            f"| {cell.python} | {cell.torch} | {sum(result.passed for result in tests)} | "
            f"{sum(len(result.failed) for result in tests)} | {sum(skipped.values())} | "
            f"{sum(result.programs for result in programs)} | {sum(len(result.failed) for result in programs)} | "
            f"{sum(result.seconds for result in results) / 60:.0f} |")
        if len(results) < steps_of_each:
            notes.append(f"{cell}: {steps_of_each - len(results)} of {steps_of_each} steps were not run")
        earlier = sum(result.sources != sources for result in results)
        if earlier:
            notes.append(f"{cell}: {earlier} of {steps_of_each} steps ran with earlier sources")
        notes += [f"{cell}: failed: {name}" for result in results for name in result.failed]
        notes += [f"{cell}: skipped {count}: {reason}" for reason, count in sorted(skipped.items())]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def existing_environments(given: Iterable[str]) -> dict[Cell, Path]:
    """Environments that the user has made: 3.13/2.15=/some/folder."""
    found = {}
    for text in given:
        cell, _, folder = text.partition("=")
        found[Cell.of(cell)] = Path(folder)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/matrix", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", help="run only these tests: arguments of pytest, after --")
    parser.add_argument("--cells", nargs="+", default=list(CELLS), metavar="PYTHON/TORCH",
                        help=f"which (default: {' '.join(CELLS)})")
    parser.add_argument("--folder", type=Path,
                        help="where environments and results are kept (default: $FIRESTEEL_MATRIX, or firesteel-matrix "
                             "in the user's cache directory)")
    parser.add_argument("--environment", action="append", default=[], metavar="PYTHON/TORCH=FOLDER",
                        help="use an environment that exists, with torch and what the tests need")
    parser.add_argument("--programs", type=int, default=PROGRAMS, help=f"random programs a cell (default: {PROGRAMS})")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--again", action="store_true", help="run what was run before, too")
    parser.add_argument("--earlier", action="store_true",
                        help="do not run again what had no failures with earlier sources")
    parser.add_argument("--table", action="store_true", help="only print the table of what was run")
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the step that runs is ended as well
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder: Path = arguments.folder or Path(os.environ.get("FIRESTEEL_MATRIX", cache / "firesteel-matrix"))
    if ROOT in (folder.resolve(), *folder.resolve().parents):
        parser.error(f"{folder} is inside of the checkout")
    existing = existing_environments(arguments.environment)
    sources = sources_digest()
    rows: dict[Cell, list[Result] | str] = {}
    todo = steps(arguments.tests, arguments.programs, arguments.jobs)
    for cell in map(Cell.of, arguments.cells):
        home = folder / f"py{cell.python}-torch{cell.torch}"
        (home / "logs").mkdir(parents=True, exist_ok=True)
        environment = existing.get(cell, home / "environment")
        if not arguments.table and cell not in existing:
            problem = make_environment(cell, environment)
            if problem:
                rows[cell] = problem
                print(f"{cell}: {problem}", flush=True)
                continue
        kept = Kept(home / "results.json", sources)
        results: list[Result] = []
        for step in todo:
            result = None if arguments.again else kept.get(step, arguments.earlier)
            if result is None:
                if arguments.table:
                    continue
                log = home / "logs" / (step.name.replace("/", "_").replace(" ", "_") + ".txt")
                result = run_step(step, str(environment / "bin" / "python"), home, log)
                kept.put(step, result)
                print(f"{cell}: {step.name}: {len(result.failed)} failed, {result.seconds:.0f} s ({log})", flush=True)
            results.append(result)
        rows[cell] = results or "nothing was run"
    print(table(rows, sources, len(todo)))
    return 1 if any(isinstance(results, str) or any(result.failed for result in results)
                    for results in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
