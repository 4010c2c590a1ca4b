"""Processes that check programs outlive what the programs do, and the command reports it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import campaign
from .program import Program
from .worker import RECYCLED_AFTER, Task, Worker, worker

PLANTED = """
import ctypes
import os
import sys
import torch

def make():
    # Every other run of a process is a compiled one.
    sys.planted_runs = getattr(sys, "planted_runs", 0) + 1
    def fn(x):
        unused = x * 2
        if {when}:
            {act}
        return x + 1
    calls = [((torch.ones(2),), {{}})]
    def before(index):
        pass
    def observe():
        return {{}}
    return fn, calls, before, observe
"""
# The plain run, the compiled one, and one that counts operators.
COMPILED = "sys.planted_runs % 3 == 2"
CRASH = "ctypes.string_at(0)"
ABORT = "ctypes.CDLL(None).abort()"
# Holds the interpreter's lock, as machine code does: no signal handler of Python runs.
HANG = "ctypes.PyDLL(None).pause()"
EXIT = "os._exit(3)"


def planted(act: str, when: str = COMPILED) -> Task:
    return Task("none", program=Program(-1, PLANTED.format(act=act, when=when)))


@pytest.fixture(scope="module")
def mine() -> Iterator[Worker]:
    with worker(timeout=30) as one:
        yield one


@pytest.mark.parametrize("act, said", [(CRASH, "SIGSEGV"), (ABORT, "SIGABRT"), (EXIT, "status 3")])
def test_a_crash_is_reported_and_the_next_program_runs(mine: Worker, act: str, said: str) -> None:
    verdict = mine.check(planted(act))
    assert verdict.kind == "crash"
    assert verdict.differences[0].startswith("crash of the compiled program") and said in verdict.differences[0]
    if act is CRASH:
        assert any('in fn' in line for line in verdict.differences[1:]), verdict.differences
    assert mine.check(planted("pass")).kind == "equal"


def test_a_hang_in_machine_code_is_killed() -> None:
    with worker(timeout=4) as one:
        verdict = one.check(planted(HANG))
        assert verdict.kind == "hang"
        assert any("in fn" in line for line in verdict.differences[1:]), verdict.differences
        one.timeout = 30
        assert one.check(planted("pass")).kind == "equal"


@pytest.mark.parametrize("when", ["True", "sys.planted_runs % 3 == 0"])
def test_a_crash_of_the_plain_run_is_told_apart(mine: Worker, when: str) -> None:
    verdict = mine.check(planted(CRASH, when=when))
    assert verdict.kind == "crash" and verdict.plain
    assert verdict.differences[0].startswith("crash of the plain program")


def test_differences_and_errors_of_the_harness_are_mismatches(mine: Worker) -> None:
    # What differs is compared once more without counting operators, behind the run that counts them.
    compiled = "sys.planted_runs - sys.__dict__.setdefault('planted_first', sys.planted_runs) in (1, 3)"
    verdict = mine.check(planted("return x + 2", compiled))
    assert verdict.kind == "mismatch" and "result" in verdict.differences[0]
    broken = mine.check(Task("none", program=Program(-1, "def make():\n    raise KeyError('here')\n")))
    assert broken.differences == ["harness: KeyError: 'here'"]
    assert mine.check(Task("none", "language", 3)).kind == "equal"


def test_processes_are_replaced_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[Worker.__module__], "RECYCLED_AFTER", 2)
    assert RECYCLED_AFTER > 2
    with worker(timeout=30) as one:
        verdicts = [one.check(planted("raise ValueError", when="sys.planted_runs > 4")) for _ in range(5)]
    assert [verdict.raised for verdict in verdicts] == [[]] * 5


# The command


def _run(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    status = campaign.main(["--timeout", "30", *options])
    return status, capsys.readouterr().out


def test_command_reports_shrinks_and_saves_a_crash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "planted.py"
    path.write_text(PLANTED.format(act=CRASH, when=COMPILED))
    saved = tmp_path / "saved"
    status, text = _run(capsys, "--replay", str(path), "--compiler", "none", "--shrink", "--save", str(saved))
    assert status == 1
    assert "crash planted_none" in text and "SIGSEGV" in text
    small = (saved / "planted_none.py").read_text()
    assert small.startswith('"""planted_none\n\ncrash of the compiled program: killed by SIGSEGV')
    assert CRASH in small and "unused" not in small
    compile(small, "small", "exec")


def test_command_sums_up_parts_and_compilers(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--part", "language", "--compiler", "none", "firesteel", "--count", "5", "--start", "8", "--jobs", "2")
    status, text = _run(capsys, *options)
    assert status == 0
    rows = [line.split()[:7] for line in text.splitlines() if line.startswith("language")]
    assert [row[:3] + row[4:] for row in rows] == [
        ["language", "firesteel", "2", "0", "0", "0"],
        ["language", "none", "3", "0", "0", "0"],
    ]


def test_hours_end_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = _run(capsys, "--compiler", "none", "--hours", "0.00005")
    assert status == 0 and "all" in text


def test_all_means_every_part_and_the_usual_compilers() -> None:
    arguments = campaign.parsed(["--part", "all", "--compiler", "all"])
    assert "language" in arguments.part and len(arguments.compiler) == 5
