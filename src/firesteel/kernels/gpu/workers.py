"""Processes that compile GPU kernels: half of that is Python, of which a process runs one thread at a time.

They run `triton_worker` as a program, which loads Triton and nothing else, so they are ready soon, and they start while
the graph is still being traced. They end when this process does, or when they have had nothing to do for a while. Where
there are none, as on machines with few processors, kernels are compiled by threads.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import sys
import time
from typing import Any

from ... import config
from ...locks import new_lock
from ...logs import log
from ...systems import at_fork
from . import triton_worker
from .triton_worker import LENGTH, LENGTHS, Code, read_exactly

LEAST_PROCESSORS = 4
LEAST_NODES = 100
"""Graphs of so many operators have enough kernels to make up for the start of processes."""
LEAST_KERNELS = 8
"""So many kernels are worth it as well."""
MOST = 12
PATIENCE = 1.0
"""Seconds that processes have to end."""


class CompilationFailed(Exception):
    """Triton refused a kernel, in another process."""


class Worker:
    """One process."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self.process = subprocess.Popen([sys.executable, "-P", triton_worker.__file__], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)

    def compile(self, request: dict[str, Any]) -> Code:
        """Machine code. Raises `CompilationFailed`, or `EOFError` or `OSError` when the process is gone."""
        given, answers = self.process.stdin, self.process.stdout
        assert given is not None and answers is not None
        data = json.dumps(request).encode()
        given.write(LENGTH.pack(len(data)) + data)
        given.flush()
        size, length = LENGTHS.unpack(read_exactly(answers, LENGTHS.size))
        head = json.loads(read_exactly(answers, size))
        code = read_exactly(answers, length)
        if "error" in head:
            raise CompilationFailed(head["error"])
        return Code(code, head["name"], head["shared"])

    def close(self) -> None:
        """Tell it to go."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.close()
        except OSError:
            pass
        self.process.stdout.close()

    def end(self, deadline: float) -> None:
        """See that it has gone by then."""
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Workers:
    """The processes of this process."""

    def __init__(self, count: int) -> None:
        self.all = [Worker() for _ in range(count)]
        self.free: queue.SimpleQueue[Worker | None] = queue.SimpleQueue()
        for worker in self.all:
            self.free.put(worker)

    def compile(self, request: dict[str, Any]) -> Code | None:
        """Machine code by the next process that is free; None when none is left. Raises `CompilationFailed`."""
        while True:
            worker = self.free.get()
            if worker is None:
                self.free.put(None)  # for the others who wait
                return None
            try:
                answer = worker.compile(request)
            except CompilationFailed:
                self.free.put(worker)
                raise
            except (EOFError, OSError, ValueError) as error:
                log("kernels", "a process that compiles kernels is gone: %s", type(error).__name__)
                self.drop(worker)
                continue
            self.free.put(worker)
            return answer

    def drop(self, worker: Worker) -> None:
        with _lock:
            if worker in self.all:
                self.all.remove(worker)
            gone = not self.all
        worker.close()
        worker.end(time.monotonic() + PATIENCE)
        if gone:
            self.free.put(None)

    def end(self) -> None:
        deadline = time.monotonic() + PATIENCE
        for worker in self.all:
            worker.close()
        for worker in self.all:
            worker.end(deadline)
        self.all.clear()


_lock = new_lock()
_workers: Workers | None = None


def expect(nodes: int) -> None:
    """Be told that a graph of so many operators will be compiled. Once Triton is here, threads will do."""
    if nodes >= LEAST_NODES and "triton.compiler" not in sys.modules:
        start()


def expect_kernels(count: int) -> None:
    """Be told that so many kernels are compiled now."""
    if count >= LEAST_KERNELS and "triton.compiler" not in sys.modules:
        start()


def start() -> None:
    """Have processes that compile, if there are none, and if this machine has processors for them."""
    global _workers
    processors = _processors()
    if not config.compile_processes or processors < LEAST_PROCESSORS or not sys.executable:
        return
    with _lock:
        if _workers is not None and any(worker.process.poll() is None for worker in _workers.all):
            return
        try:
            _workers = Workers(min(MOST, processors * 3 // 4))
        except OSError as error:
            log("kernels", "no processes to compile kernels: %s", error)
            _workers = None


def current() -> Workers | None:
    """The processes that there are."""
    workers = _workers
    return workers if workers is not None and workers.all else None


def _processors() -> int:
    """How many processors there are for this process: others that `torchrun` has started have as many."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return count // max(int(ranks), 1) if ranks.isdigit() else count


def end_all() -> None:
    """End the processes."""
    global _workers
    ended, _workers = _workers, None
    if ended is not None:
        ended.end()


def _forget() -> None:
    """A forked child has no claim to its parent's processes."""
    global _workers
    _workers = None


atexit.register(end_all)
at_fork(after_in_child=_forget)
