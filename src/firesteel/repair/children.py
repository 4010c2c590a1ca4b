"""Work in child processes that may crash or hang: forked, so that nothing has to be imported again.

The parent only imports: it runs no operators, so that no threads of libraries are missing in a child.
"""

from __future__ import annotations

import contextlib
import faulthandler
import math
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import UserCodeError
from ..systems import kill_group, own_group, process_library

_SET_DEATH_SIGNAL = 1
_LENGTH = struct.Struct("!Q")
_LONGEST_SLEEP = 3600.0
Report = Callable[[Any], None]
"""What a child calls to say where it is, so that it is known when it crashes."""


@dataclass
class Ended:
    """How a child ended."""

    value: Any = None
    """What the work returned."""
    done: bool = False
    signal: int | None = None
    hangs: bool = False
    reports: list[Any] = field(default_factory=list)
    """What it has said, in order."""
    text: str = ""
    """The end of what it printed."""
    seconds: float = 0.0
    """How long it took, without the time in which other processes had its processor."""


@dataclass(frozen=True)
class Limits:
    """When a child hangs. What other processes take of the processor is not counted, but for ``left``."""

    seconds: float
    quiet: Callable[[Any], float] = lambda _: math.inf
    """Seconds without a report, given the last one."""
    left: float = math.inf
    """Seconds by the clock."""


def in_child(work: Callable[[Report], Any], limits: Limits, listen: Report | None = None) -> Ended:
    """Run something in a forked process. What it returns and reports is pickled."""
    if not hasattr(os, "fork"):
        raise UserCodeError("failures are made smaller in forked processes, which this system does not have",
                            "run it on Linux or macOS")
    began = time.monotonic()
    read, write = os.pipe()
    with tempfile.TemporaryFile() as printed:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            end_with_parent(parent)
            _child(work, read, write, printed.fileno())
        ended, status = Ended(), 0
        try:
            os.close(write)
            _listen(read, pid, ended, limits, listen)
        except BaseException:
            _kill(pid)  # before anything that a second Ctrl-C could interrupt
            raise
        finally:
            os.close(read)
            ended.seconds = time.monotonic() - began - _waited(pid)
            status = _reap(pid)
        if os.WIFSIGNALED(status) and not ended.hangs and not ended.done:
            ended.signal = os.WTERMSIG(status)
        size = printed.seek(0, os.SEEK_END)
        printed.seek(max(0, size - 4000))
        ended.text = printed.read().decode(errors="replace")
    return ended


def _waited(pid: int) -> float:
    """Seconds in which a process was ready to run and others had the processor, where the system says so (Linux)."""
    try:
        with open(f"/proc/{pid}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def end_with_parent(parent: int) -> None:
    """Have this process end when its parent does, however that ends, where the system can do so (Linux)."""
    prctl = getattr(process_library(), "prctl", None)
    if prctl is not None:
        prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _child(work: Callable[[Report], Any], read: int, write: int, printed: int) -> None:
    code = 1
    try:
        faulthandler.disable()  # what a crash prints would go to the parent's output
        os.close(read)
        os.setpgid(0, 0)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)

        def send(kind: str, value: Any) -> None:
            message = pickle.dumps((kind, value))
            os.write(write, _LENGTH.pack(len(message)))
            view = memoryview(message)
            while view:
                view = view[os.write(write, view):]

        send("done", work(lambda value: send("report", value)))
        code = 0
    except BaseException as error:  # nothing of the parent's may run in the child
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _listen(read: int, pid: int, ended: Ended, limits: Limits, listen: Report | None) -> None:
    received = b""
    began = time.monotonic()
    heard, last = 0.0, None
    while True:
        now = time.monotonic() - began
        own = now - _waited(pid)
        left = min(limits.seconds - own, limits.quiet(last) - (own - heard), limits.left - now)
        if left <= 0:
            ended.hangs = True
            return
        ready, _, _ = select.select([read], [], [], min(left, _LONGEST_SLEEP))
        if not ready:
            continue
        heard = own
        part = os.read(read, 1 << 16)
        if not part:
            return
        received += part
        while len(received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received)
            if len(received) < _LENGTH.size + length:
                break
            kind, value = pickle.loads(received[_LENGTH.size:_LENGTH.size + length])
            received = received[_LENGTH.size + length:]
            if kind == "done":
                ended.value, ended.done = value, True
                return
            ended.reports.append(value)
            last = value
            if listen is not None:
                listen(value)


def _kill(pid: int) -> None:
    """End a child with all that it has started."""
    kill_group(pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _reap(pid: int) -> int:
    """Wait for a child; one that goes on is ended, and what it has started in any case. Its exit status."""
    for _ in range(40):
        known, status = os.waitpid(pid, os.WNOHANG)
        if known:
            break
        time.sleep(0.005)
    else:
        _kill(pid)
        _, status = os.waitpid(pid, 0)
    kill_group(pid)
    return status


def run_python(arguments: Sequence[str], limit: float, folder: str) -> tuple[int | None, str]:
    """Run Python with these arguments in a folder, and end what it has started with it: the exit status, None where it
    did not end in time, and what it wrote on stderr. Modules are looked for where they would be here."""
    paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    with tempfile.TemporaryFile() as errors:  # a pipe would stay open as long as anything that was started goes on
        process = subprocess.Popen([sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=errors, cwd=folder, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                                   **own_group())
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            kill_group(process.pid)
            process.kill()
            process.wait()
        errors.seek(0)
        return status, errors.read().decode(errors="replace")
