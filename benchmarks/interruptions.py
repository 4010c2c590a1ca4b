"""Signals and forks at random moments of compilations:

    python -m benchmarks.interruptions --signals 200 --forks 100

A function is compiled, called and differentiated while an alarm raises; the exception has to reach the caller, nothing
may be left changed, and the next call has to be right. Then children are forked while a thread compiles; each has to
compile a function of its own. Exits with 1 when something was lost, hung or wrong.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import signal
import sys
import threading
import time
import types
import warnings
from typing import Any

import torch

import firesteel as fs

KINDS: tuple[type[BaseException], ...] = (
    TimeoutError, RuntimeError, AttributeError, ValueError, KeyError, TypeError, NotImplementedError, StopIteration,
    RecursionError, KeyboardInterrupt)  # fmt: skip


class Net(torch.nn.Module):
    """Layers, a loop, a branch on data."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(6, 6), torch.nn.LayerNorm(6)

    def forward(self, x: torch.Tensor, k: int) -> torch.Tensor:
        for i in range(4):
            x = torch.nn.functional.gelu(self.norm(self.linear(x))) + i * k
        if x.sum() > 1e9:
            return x - 1
        return x * 2


def _state() -> Any:
    return gc.isenabled(), torch.is_grad_enabled(), sys.getrecursionlimit(), signal.getsignal(signal.SIGALRM)


def signals(count: int, dice: random.Random) -> tuple[int, int]:
    """How many exceptions were raised, and how many of those did not arrive or left something wrong behind."""
    net, x = Net(), torch.randn(3, 6)
    expected = net(x, 1)
    [gradient] = torch.autograd.grad(expected.sum(), net.linear.weight)
    raised = failed = 0
    whole = 0.5
    for attempt in range(count):
        kind, last = KINDS[attempt % len(KINDS)], []

        def handler(number: int, frame: types.FrameType | None, kind: Any = kind, last: list[Any] = last) -> None:
            last.append(kind("from the handler"))
            raise last[-1]

        signal.signal(signal.SIGALRM, handler)
        fs.reset()
        before, caught, started = _state(), None, time.perf_counter()
        with fs.config.patch(disk_cache=bool(attempt % 2)), warnings.catch_warnings():
            warnings.simplefilter("error", fs.errors.FiresteelWarning)
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + dice.random() * whole)
                try:
                    compiled = fs.compile(net, dynamic=(None, True, False)[attempt % 3])
                    compiled(x, 1).sum().backward()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except BaseException as error:
                caught = error
        if not last:
            whole = 0.8 * whole + 0.2 * (time.perf_counter() - started)
        net.zero_grad()
        compiled = fs.compile(net) if caught is not None else compiled
        result = compiled(x, 1)
        result.sum().backward()
        right = torch.allclose(result, expected, atol=1e-5) and torch.allclose(
            net.linear.weight.grad, gradient, atol=1e-4)  # type: ignore[arg-type]
        net.zero_grad()
        raised += bool(last)
        if caught is not (last[-1] if last else None) or not right or _state() != before:
            failed += 1
            print(f"attempt {attempt}: {kind.__name__}, caught {caught!r}, right afterwards: {right}")
    return raised, failed


def _made(number: int) -> Any:
    names: dict[str, Any] = {}
    lines = [f"y = x * {number} + 1", "for k in range(6): y = torch.sin(y @ w) + k", "return y.sum(1)"]
    exec("\n    ".join(["def f(x, w):", *lines]), {"torch": torch}, names)
    return names["f"]


def _child(number: int) -> int:
    torch.set_num_threads(1)
    function, w, x = _made(number), torch.randn(5, 5, requires_grad=True), torch.randn(3, 5)
    with fs.config.patch(raise_on_internal_error=True):
        result = fs.compile(function)(x, w)
        result.sum().backward()
    return 0 if torch.allclose(result, function(x, w), atol=1e-5) else 2


def forks(count: int, dice: random.Random, seconds: float = 20) -> int:
    """How many of so many children hang, fail or compute something else."""
    ended = threading.Event()

    def work() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            size = 4 + number % 7
            w = torch.randn(size, size, requires_grad=bool(number % 2))
            result = fs.compile(_made(number))(torch.randn(3, size), w)
            if number % 2:
                result.sum().backward()

    thread = threading.Thread(target=work)
    thread.start()
    failed = 0
    for number in range(count):
        time.sleep(dice.random() * 0.2)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = _child(1000 + number)
            finally:
                os._exit(status)
        failed += _outcome(pid, seconds) != 0
    ended.set()
    thread.join()
    return failed


def _outcome(pid: int, seconds: float) -> int:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    print(f"child {pid} hangs")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -1


def main() -> int:
    parser = argparse.ArgumentParser(description="Interrupt compilations by signals and forks.")
    parser.add_argument("--signals", type=int, default=200, help="compilations during which an alarm is set")
    parser.add_argument("--forks", type=int, default=50, help="children that are forked while a thread compiles")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    dice = random.Random(arguments.seed)
    raised, lost = signals(arguments.signals, dice)
    print(f"{arguments.signals} compilations, {raised} exceptions of handlers, {lost} lost or wrong afterwards")
    failed = forks(arguments.forks, dice)
    print(f"{arguments.forks} children, {failed} hang, fail or compute something else")
    return 1 if lost or failed else 0


if __name__ == "__main__":
    sys.exit(main())
