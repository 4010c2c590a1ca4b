"""Any number of random programs, plain against compiled, in several processes: what to run, what was found, sums."""

from __future__ import annotations

import argparse
import itertools
import queue
import re
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from .harness import COMPILERS
from .parts import parts
from .program import Program
from .shrinker import shrink
from .worker import Task, Verdict, Worker, worker

ALL_COMPILERS = ("firesteel", "firesteel-dynamic", "aot_eager", "native", "native-dynamic")
OUTCOMES = ("mismatch", "crash", "hang")


def tasks(arguments: argparse.Namespace) -> Iterator[Task]:
    """What to check: of each seed a program of every part, compilers taking turns."""
    if arguments.replay:
        for path, compiler in itertools.product(arguments.replay, arguments.compiler):
            program = Program(-1, Path(path).read_text())
            yield Task(compiler, Path(path).stem, program=program, traces=arguments.traces)
        return
    deadline = time.monotonic() + arguments.hours * 3600 if arguments.hours else None
    count = arguments.count or (2000 if deadline is None else None)
    for position in itertools.count() if count is None else range(count):
        for part in arguments.part:
            if deadline is not None and time.monotonic() > deadline:
                return
            seed = arguments.start + position
            yield Task(arguments.compiler[seed % len(arguments.compiler)], part, seed, traces=arguments.traces)


@dataclass(frozen=True)
class Finding:
    """A program that went wrong, cut down if that was asked for."""

    verdict: Verdict
    program: Program

    @property
    def name(self) -> str:
        task = self.verdict.task
        return f"{task.part}_{task.seed}_{task.compiler}" if task.seed >= 0 else f"{task.part}_{task.compiler}"

    def text(self) -> str:
        """The program as a file, with what is different in a docstring on top."""
        said = [self.name, "", *(line[:300] for line in self.verdict.differences)]
        quoted = "\n".join(said).replace("\\", "\\\\").replace('"""', "'''").rstrip('"')
        return f'"""{quoted}\n"""\n\n{self.program.source}'


def kind_of(verdict: Verdict) -> str:
    """What went wrong, roughly: how it died, which exceptions, or what kind of fact (`call 1: result[0].value: ...` is
    "result")."""
    if verdict.kind == "hang":
        return "hang"
    if verdict.kind == "crash":
        return verdict.differences[0]
    _, _, difference = verdict.differences[0].partition(": ")
    if difference.startswith("exception: "):
        return " ".join(difference.split()[:4])
    return re.split(r"[:.\[ ]", difference)[0]


def shrunk(mine: Worker, verdict: Verdict, program: Program) -> Program:
    """The smallest program found that goes wrong in the same way."""
    kind = kind_of(verdict)

    def still_fails(candidate: Program) -> bool:
        smaller = mine.check(replace(verdict.task, program=candidate))
        # A cut that makes the program itself fail would lead to another difference than the one looked for.
        same = smaller.kind == verdict.kind and set(smaller.raised) <= set(verdict.raised)
        return same and smaller.plain == verdict.plain and kind_of(smaller) == kind

    if verdict.kind == "hang":  # a good program takes nothing like that long, and most attempts hang
        mine.timeout = max(5.0, mine.timeout / 6)
    return shrink(program, still_fails)


class Campaign:
    """Threads that each drive one process, and what they found."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.results: queue.Queue[tuple[Verdict, Program | None] | BaseException | None] = queue.Queue()
        self.stopped = False
        self._tasks = tasks(arguments)
        self._lock = threading.Lock()
        self._shown: Counter[str] = Counter()

    def run(self) -> Iterator[tuple[Verdict, Program | None]]:
        """Every verdict, with the program where it went wrong."""
        threads = [threading.Thread(target=self._drive, daemon=True) for _ in range(self.arguments.jobs)]
        for thread in threads:
            thread.start()
        try:
            for _ in threads:
                while (result := self.results.get()) is not None:
                    if isinstance(result, BaseException):
                        raise result
                    yield result
        finally:
            self.stopped = True

    def _drive(self) -> None:
        try:
            with worker(self.arguments.timeout) as mine:
                while not self.stopped:
                    with self._lock:
                        task = next(self._tasks, None)
                    if task is None:
                        return
                    verdict = mine.check(task)
                    program = None if verdict.kind == "equal" else self._program(mine, verdict)
                    mine.timeout = self.arguments.timeout
                    self.results.put((verdict, program))
        except BaseException as error:
            self.results.put(error)
        finally:
            self.results.put(None)

    def _program(self, mine: Worker, verdict: Verdict) -> Program:
        """The program of a finding, cut down unless there are enough of its kind."""
        program = verdict.program
        if program is None:  # the generator itself is at fault, which the verdict says
            return Program(verdict.task.seed, "")
        kind = f"{verdict.task.part} {kind_of(verdict)}"
        with self._lock:
            self._shown[kind] += 1
            enough = self._shown[kind] > self.arguments.show
        if enough or not self.arguments.shrink or verdict.differences[0].startswith("harness: "):
            return program
        return shrunk(mine, verdict, program)


@dataclass
class Row:
    """Sums over the programs of one part with one compiler."""

    programs: int = 0
    seconds: float = 0.0
    raised: int = 0
    inside: int = 0
    total: int = 0

    def add(self, verdict: Verdict) -> None:
        self.programs += 1
        self.seconds += verdict.seconds
        self.raised += bool(verdict.raised)
        if verdict.report is not None:
            self.inside += verdict.report.inside
            self.total += verdict.report.total


def table(rows: dict[tuple[str, str], Row], outcomes: Counter[tuple[str, str, str]]) -> str:
    """The sums as text, a line for each part and compiler."""
    head = ("part", "compiler", "programs", "raise", "mismatches", "crashes", "hangs", "programs/s", "in graphs")
    lines = [head]
    for (part, compiler), row in sorted(rows.items()):
        found = [str(outcomes[part, compiler, kind]) for kind in OUTCOMES]
        inside = f"{row.inside / row.total:.1%}" if row.inside else ""
        rate = f"{row.programs / max(row.seconds, 1e-9):.1f}"
        lines.append((part, compiler, str(row.programs), str(row.raised), *found, rate, inside))
    found = [str(sum(outcomes[part, compiler, kind] for part, compiler in rows)) for kind in OUTCOMES]
    lines.append(("all", "", str(sum(row.programs for row in rows.values())), "", *found, "", ""))
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) if at < 2 else cell.rjust(width)
                  for at, (cell, width) in enumerate(zip(line, widths, strict=True))).rstrip()
        for line in lines
    )


def parsed(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare random programs plain and compiled.")
    known = sorted(parts())
    parser.add_argument("--part", nargs="+", choices=[*known, "all"], default=["language"], help="which generators")
    parser.add_argument("--compiler", nargs="+", choices=[*COMPILERS, "all"], default=["firesteel"],
                        help=f"taking turns from seed to seed; all: {', '.join(ALL_COMPILERS)}")
    parser.add_argument("--start", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, help="programs of each part (2000 unless --hours is given)")
    parser.add_argument("--hours", type=float, help="stop after this time")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--shrink", action="store_true", help="cut failing programs down")
    parser.add_argument("--save", type=Path, metavar="DIR", help="write each finding into a file")
    parser.add_argument("--replay", nargs="+", type=Path, metavar="FILE", help="check these programs instead")
    parser.add_argument("--traces", action="store_true", help="compare the lines of uncaught exceptions too")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one program")
    parser.add_argument("--show", type=int, default=5, help="print and cut down at most this many findings of a kind")
    parser.add_argument("--print", type=int, metavar="SEED", help="print the program of this seed and stop")
    arguments = parser.parse_args(argv)
    missing = [str(path) for path in arguments.replay or () if not path.is_file()]
    if missing:
        parser.error(f"no such file: {', '.join(missing)}")
    if "all" in arguments.part:
        arguments.part = known
    if "all" in arguments.compiler:
        arguments.compiler = list(ALL_COMPILERS)
    return arguments


def main(argv: list[str] | None = None) -> int:
    """The command ``python -m benchmarks.fuzz``: 1 when anything was found."""
    arguments = parsed(argv)
    if arguments.print is not None:
        print(parts()[arguments.part[0]](arguments.print).source)
        return 0
    if arguments.save:
        arguments.save.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    rows: dict[tuple[str, str], Row] = defaultdict(Row)
    outcomes: Counter[tuple[str, str, str]] = Counter()
    kinds: Counter[str] = Counter()
    try:
        for verdict, program in Campaign(arguments).run():
            place = verdict.task.part, verdict.task.compiler
            rows[place].add(verdict)
            if program is None:
                continue
            outcomes[*place, verdict.kind] += 1
            finding = Finding(verdict, program)
            kind = f"{verdict.task.part}: {kind_of(verdict)}"
            kinds[kind] += 1
            print(f"{verdict.kind} {finding.name}: {len(verdict.differences)} differences")
            for difference in verdict.differences[:5 if verdict.kind == "mismatch" else 12]:
                print(f"    {difference[:300]}")
            if kinds[kind] <= arguments.show and arguments.shrink:
                print(program.source)
            if arguments.save:
                (arguments.save / f"{finding.name}.py").write_text(finding.text())
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("stopped")
    for kind, times in kinds.most_common(30):
        print(f"{times:5} {kind}")
    print(table(rows, outcomes))
    print(f"{time.perf_counter() - began:.0f} s")
    return 1 if outcomes else 0
