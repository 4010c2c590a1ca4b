"""A process that checks programs one after the other, so that a crash or an endless loop costs one program.

The parent asks for one program at a time. The process says what the program is, when the plain run is done and then
what came of both runs.
When it dies, the program it was at has crashed; when it says nothing for too long, also inside of machine code, where
no signal handler of Python ever runs, it is killed and the program hangs. The next program gets a fresh process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from .harness import Outcome, Report, check
from .parts import parts
from .program import Program

RECYCLED_AFTER = 300
"""Programs after which a process is replaced: what leaks must not pile up."""

# What programs need: imported once, in the process that the workers are forked from.
PRELOADED = [
    "tests.fuzz.worker",
    "torch.distributed.tensor",  # by torch.testing.assert_close
    "firesteel.compiled_functions",
    "firesteel.control",
    "firesteel.backends.native",
    "firesteel.functional.tracing",
    "firesteel.pipeline.compile",
    "firesteel.kernels.lowering.lower",
    "firesteel.kernels.scheduling.schedule",
    "firesteel.kernels.host.printer",
    "firesteel.kernels.cpu.engine",
    "firesteel.kernels.plan_cache",
    *(f"tests.fuzz.parts.{name}" for name in parts()),
]

MOST_MEMORY = 8 << 30
"""Bytes of addresses that a process may have: a program that asks for more gets an error, not the machine."""

START_S = 300.0
GRACE_S = 5.0
"""How long a killed process has to write where it was."""


@dataclass(frozen=True)
class Task:
    """A program to check with a compiler: given as it is, or as a generator's seed."""

    compiler: str
    part: str = ""
    seed: int = -1
    program: Program | None = None
    traces: bool = False

    def load(self) -> Program:
        return self.program if self.program is not None else parts()[self.part](self.seed)


@dataclass(frozen=True)
class Verdict:
    """What came of a task: `kind` is "equal", "mismatch", "crash" or "hang"."""

    task: Task
    kind: str
    differences: list[str] = field(default_factory=list)
    """What is different; of a crash or a hang, which it was and where."""
    report: Report | None = None
    raised: list[str] = field(default_factory=list)
    """Exceptions of the plain run."""
    plain: bool = False
    """Whether it was the plain run that crashed or hung."""
    seconds: float = 0.0
    program: Program | None = None
    """The program, unless the generator itself crashed or hung."""


class Worker:
    """The process, started when first needed and again after each of its deaths."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self._process: Any = None
        self._connection: Connection | None = None
        self._log = ""
        self._checked = 0

    def check(self, task: Task) -> Verdict:
        """Check one program; never raises, whatever the program does."""
        began = time.perf_counter()
        connection = self._ready()
        try:
            connection.send(task)
            verdict = self._wait(connection, task)
        except (EOFError, OSError):
            verdict = self._died(Verdict(task, "crash", plain=True))
        return replace(verdict, seconds=time.perf_counter() - began)

    def _wait(self, connection: Connection, task: Task) -> Verdict:
        """What the process says about the task, or what became of the process."""
        so_far = Verdict(task, "crash", plain=True)
        deadline = time.monotonic() + self.timeout
        try:
            while connection.poll(max(0.0, deadline - time.monotonic())):
                message = connection.recv()
                if isinstance(message, Report):
                    kind = "mismatch" if message.differences else "equal"
                    return replace(so_far, kind=kind, differences=message.differences, report=message,
                                   raised=message.raised, plain=False)
                if isinstance(message, Program):
                    so_far = replace(so_far, program=message)
                elif message is None:
                    so_far = replace(so_far, plain=True)
                else:
                    so_far = replace(so_far, plain=False, raised=message)
        except (EOFError, OSError):
            return self._died(so_far)
        self._kill(signal.SIGABRT)
        return self._died(replace(so_far, kind="hang"))

    def _died(self, verdict: Verdict) -> Verdict:
        """The verdict with what became of the process."""
        assert self._process is not None
        self._process.join(GRACE_S)
        status = self._process.exitcode
        if verdict.kind == "hang":
            what = f"no result after {self.timeout:g} s"
        elif status is not None and status < 0:
            what = f"killed by {signal.Signals(-status).name}"
        else:
            what = f"the process ended with status {status}"
        where = "generator" if verdict.program is None else "plain program" if verdict.plain else "compiled program"
        what = f"{verdict.kind} of the {where}: {what}"
        log = Path(self._log).read_text(errors="replace").splitlines()
        self.close()
        return replace(verdict, differences=[what, *_telling(log)])

    def _ready(self) -> Connection:
        if self._process is not None and (self._checked >= RECYCLED_AFTER or not self._process.is_alive()):
            self.close()
        if self._process is None:
            descriptor, self._log = tempfile.mkstemp(prefix="fuzz_worker_", suffix=".log")
            os.close(descriptor)
            self._connection, theirs = self._context.Pipe()
            self._process = self._context.Process(target=_serve, args=(theirs, self._log), daemon=True)
            self._process.start()
            theirs.close()
            self._checked = 0
            if not self._connection.poll(START_S):  # importing is not part of a program's time
                raise TimeoutError("a worker process does not start")
            self._connection.recv()
        self._checked += 1
        assert self._connection is not None
        return self._connection

    def _kill(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, number)
        self._process.join(GRACE_S)

    def close(self) -> None:
        """End the process."""
        if self._process is None:
            return
        assert self._connection is not None
        self._connection.close()  # it ends when it reads the next task
        self._process.join(0.2)
        if self._process.is_alive():
            self._kill(signal.SIGKILL)
        self._process = self._connection = None
        Path(self._log).unlink(missing_ok=True)


def _telling(log: list[str]) -> list[str]:
    """The part of a dead process's last words that says where it was: the C library's message and the innermost
    frames of its main thread."""
    start = next((at for at, line in enumerate(log) if line.startswith("Current thread")), None)
    if start is None:
        return log[-5:]
    return [*log[max(0, start - 3) : start], *(line.strip() for line in log[start + 1 : start + 9])]


@contextlib.contextmanager
def worker(timeout: float) -> Iterator[Worker]:
    """A worker that is ended with the block."""
    one = Worker(timeout)
    try:
        yield one
    finally:
        one.close()


# in the process


def _serve(connection: Connection, log: str) -> None:
    """Check what the parent sends until it closes the connection."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 2)  # what the C library says before it aborts is worth keeping
    faulthandler.enable(2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends everything
    torch.set_num_threads(1)
    connection.send("ready")
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return

        def after_plain(outcome: Outcome | None) -> None:
            connection.send(None if outcome is None else outcome.raised)

        connection.send(checked(task, connection.send, after_plain))


def checked(task: Task, after_loading: Callable[[Program], None] | None = None,
            after_plain: Callable[[Outcome | None], None] | None = None) -> Report:
    """Check a program here; what the generator, the program's own code around its calls or the harness raises counts
    as a difference."""
    program = Program(task.seed, "")
    try:
        program = task.load()  # generators may run what they draw, so never in the parent or in one of its threads
        if after_loading is not None:
            after_loading(program)
        return check(program, task.compiler, task.traces, after_plain)
    except Exception as error:
        text = str(error).partition("\n")[0]
        return Report(program, [f"harness: {type(error).__name__}: {text}"], 0, 0, 0, [])
