"""Processes that compile GPU kernels; no GPU is needed for that."""

from __future__ import annotations

import os
import signal
import sys

import pytest

pytest.importorskip("triton")

from firesteel import config
from firesteel.kernels.gpu import triton_compiler, workers
from firesteel.kernels.gpu.triton_compiler import Binary, Request, compile_all
from kernels.gpu.test_triton_printer import printed, sin_cos, softmax


@pytest.fixture
def two(monkeypatch):
    """Two processes, and none afterwards."""
    monkeypatch.setattr(workers, "_processors", lambda: 4)
    monkeypatch.setattr(workers, "MOST", 2)
    workers.start()
    yield workers.current()
    workers.end_all()


def requests(*programs):
    return [Request(kernel, 90, aligned) for program in programs for kernel in printed(program, False)[1]
            for aligned in (True, False)]


def test_the_same_code_as_here(two, monkeypatch):
    given = requests(sin_cos, softmax)
    processes = [worker.process for worker in two.all]
    assert len(processes) == 2
    with monkeypatch.context() as patch:
        patch.setattr(triton_compiler.triton_worker, "machine_code", None)
        there = compile_all(given)
    assert all(isinstance(binary, Binary) for binary in there)
    workers.end_all()
    assert all(process.returncode == 0 for process in processes) and workers.current() is None
    assert [binary.code for binary in compile_all(given)] == [binary.code for binary in there]


def test_failures_and_processes_that_die(two):
    [good, *_] = requests(sin_cos)
    bad = Request(triton_compiler.replace(good.kernel, source=good.kernel.source.replace("tl.store", "tl.shelve")), 90)
    found = compile_all([bad, good])
    assert isinstance(found[0], workers.CompilationFailed) and "shelve" in str(found[0])
    assert isinstance(found[1], Binary)
    for worker in list(two.all):
        os.kill(worker.process.pid, signal.SIGKILL)
    assert isinstance(compile_all([good])[0], Binary)  # here then
    assert workers.current() is None
    workers.start()
    assert workers.current() is not None


def test_where_there_are_none(monkeypatch):
    monkeypatch.setattr(workers, "_processors", lambda: 16)
    with config.patch(compile_processes=False):
        workers.start()
    monkeypatch.setattr(workers, "_processors", lambda: 2)
    workers.start()
    assert workers.current() is None


def test_small_graphs_do_without(monkeypatch):
    started = []
    monkeypatch.setattr(workers, "start", lambda: started.append(True))
    monkeypatch.delitem(sys.modules, "triton.compiler", raising=False)
    workers.expect(workers.LEAST_NODES - 1)
    workers.expect_kernels(workers.LEAST_KERNELS - 1)
    assert not started
    workers.expect(workers.LEAST_NODES)
    workers.expect_kernels(workers.LEAST_KERNELS)
    assert len(started) == 2
    monkeypatch.setitem(sys.modules, "triton.compiler", sys)
    workers.expect(workers.LEAST_NODES)
    assert len(started) == 2  # threads will do
