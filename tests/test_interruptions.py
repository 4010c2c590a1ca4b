"""Signals and forks while something is compiled: exceptions of handlers reach the program, children can compile."""

from __future__ import annotations

import ctypes
import gc
import io
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import firesteel as fs
from firesteel import interruptions, torch_compat
from firesteel.interruptions import interruptible, raised_by_handler, safe_point, uninterrupted

X = torch.linspace(-1.0, 1.0, 12).reshape(3, 4)


class Stop(Exception):
    """Raised by a handler."""


def program(x: torch.Tensor, w: torch.Tensor, k: int) -> torch.Tensor:
    for i in range(3):
        x = torch.nn.functional.gelu(torch.nn.functional.layer_norm(x @ w, (4,))) + i * k
    if x.sum() > 1e9:
        return x - 1
    return x * 2


def state() -> Any:
    return (gc.isenabled(), torch.is_grad_enabled(), sys.getrecursionlimit(),
            torch_compat.torch_dispatch_stack_length(), torch_compat.torch_function_stack_length())


@pytest.fixture
def alarm() -> Iterator[Callable[[type[BaseException]], list[BaseException]]]:
    """Makes SIGALRM raise; returns the list of what it raised."""
    before = signal.getsignal(signal.SIGALRM)

    def install(kind: type[BaseException]) -> list[BaseException]:
        raised: list[BaseException] = []

        def handler(number: int, frame: Any) -> None:
            raised.append(kind("mine"))
            raise raised[-1]

        signal.signal(signal.SIGALRM, handler)
        return raised

    yield install
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", [TimeoutError, AttributeError, KeyboardInterrupt])
def test_an_exception_of_a_handler_reaches_the_program_whatever_is_being_compiled(alarm: Any, kind: Any) -> None:
    raised = alarm(kind)
    handler = signal.getsignal(signal.SIGALRM)
    w = torch.eye(4, requires_grad=True)
    expected = program(X, w, 1)
    [gradient] = torch.autograd.grad(expected.sum(), w)
    dice = random.Random(kind.__name__)
    arrived, whole = 0, 0.12
    for attempt in range(8):
        fs.reset()
        before = state()
        raised.clear()
        compiled = fs.compile(program)
        error: BaseException | None = None
        started = time.perf_counter()
        with warnings.catch_warnings(), fs.config.patch(disk_cache=bool(attempt % 2), raise_on_internal_error=False):
            warnings.simplefilter("error")
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + dice.random() * whole)
                try:
                    compiled(X, w, 1).sum().backward()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except kind as caught:
                error = caught
        if not raised:
            whole = time.perf_counter() - started
        assert error is (raised[-1] if raised else None)
        assert error is None or error.__context__ is None
        arrived += bool(raised)
        assert state() == before
        assert signal.getsignal(signal.SIGALRM) is handler
        w.grad = None
        result = compiled(X, w, 1)
        torch.testing.assert_close(result, expected)
        result.sum().backward()
        torch.testing.assert_close(w.grad, gradient)
        w.grad = None
    assert arrived


def test_an_exception_of_a_handler_while_compiled_code_runs(alarm: Any) -> None:
    raised = alarm(TimeoutError)
    compiled = fs.compile(lambda x: x.sin() + 1)
    x = torch.zeros(2)
    for _ in range(70):  # more calls than the guards stay Python for
        compiled(x)
    slow = fs.compile(lambda x: x + 1, backend=lambda gm, inputs: lambda *args: (time.sleep(0.02), gm(*args))[1])
    slow(x)
    for function, calls in ((compiled, 100_000), (slow, 100)):
        for seconds in (0.003, 0.0123, 0.0257):
            raised.clear()
            with warnings.catch_warnings(), pytest.raises(TimeoutError) as caught:
                warnings.simplefilter("error")
                signal.setitimer(signal.ITIMER_REAL, seconds)
                for _ in range(calls):
                    function(x)
            assert caught.value is raised[-1]
    assert len(compiled._firesteel_unit.entries) == len(slow._firesteel_unit.entries) == 1
    assert compiled._firesteel_unit.given_up is slow._firesteel_unit.given_up is None


def test_a_handler_that_raises_in_guards_is_no_failing_guard(alarm: Any) -> None:
    raised = alarm(Stop)

    def f(x: torch.Tensor, items: list[int]) -> torch.Tensor:
        return x + sum(items)

    with fs.config.patch(native_guards="never"):
        compiled = fs.compile(f, backend="eager")
        items = list(range(150))
        compiled(X, items)
        for _ in range(30):
            with pytest.raises(Stop):
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                for _ in range(100_000):
                    compiled(X, items)
    assert len(raised) == 30
    assert len(compiled._firesteel_unit.entries) == 1


def test_a_backend_of_the_user_is_interrupted_at_once(alarm: Any) -> None:
    raised = alarm(Stop)
    seen: list[str] = []

    def backend(gm: Any, inputs: Any) -> Any:
        if not seen:
            seen.append("began")
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            time.sleep(5)
            seen.append("slept to the end")
        return gm.forward

    f = fs.compile(lambda x: x + 1, backend=backend)
    with pytest.raises(Stop) as caught:
        f(X)
    assert caught.value is raised[0]
    assert seen == ["began"]
    assert torch.equal(f(X), X + 1)
    assert f._firesteel_unit.given_up is None


def test_handlers_that_raise_nothing_run_at_once_and_compilation_goes_on() -> None:
    ran: list[bool] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: ran.append(frame is not None))
    try:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGUSR1)
            assert ran == [True]
            safe_point()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_an_exception_waits_for_a_safe_point(alarm: Any) -> None:
    raised = alarm(Stop)
    steps: list[int] = []
    with pytest.raises(Stop) as caught, uninterrupted():
        signal.raise_signal(signal.SIGALRM)
        steps.append(1)
        with uninterrupted():
            steps.append(2)
        try:
            safe_point()
        except Exception:
            steps.append(3)  # a failure of the compiler would be taken care of here
    assert steps == [1, 2]
    assert caught.value is raised[0]


def test_nothing_stays_behind_wherever_an_exception_comes_in(alarm: Any) -> None:
    """A signal before each line of the module in turn, with a handler that raises and others that do not."""
    raised = alarm(Stop)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2)}
    handlers[signal.SIGUSR1] = handlers[signal.SIGUSR2] = lambda number, frame: None
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}

    def compilation() -> None:
        with uninterrupted():
            with interruptible(), uninterrupted():
                pass
            with uninterrupted():
                pass

    def lines_until_signal(line: int) -> int:
        passed = 0

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal passed
            if frame.f_code.co_filename != interruptions.__file__ or frame.f_code.co_name == "__call__":
                return None
            if event == "line":
                passed += 1
                if passed == line:
                    signal.raise_signal(signal.SIGALRM)
            return trace

        previous = sys.gettrace()
        sys.settrace(trace)
        try:
            compilation()
        finally:
            sys.settrace(previous)
        return passed

    try:
        lines = lines_until_signal(0)
        for line in range(1, lines + 1):
            raised.clear()
            with pytest.raises(Stop) as caught:
                lines_until_signal(line)
            assert caught.value is raised[0]
            held: list[int] = []
            with pytest.raises(Stop), uninterrupted():
                signal.raise_signal(signal.SIGALRM)
                held.append(line)
            assert held == [line]
            assert {number: signal.getsignal(number) for number in handlers} == handlers, line
        assert threading.get_ident() not in interruptions._FORKS.compiling  # forks of others would wait
        assert child_of(lambda: True) == "right"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.skipif(sys.platform != "linux", reason="where the flags are")
def test_restored_handlers_keep_the_settings_of_the_system() -> None:
    """`siginterrupt(False)` lets the system restart calls that a signal interrupts; a new handler would undo it."""
    def flags() -> bytes:
        settings = ctypes.create_string_buffer(512)
        assert ctypes.CDLL(None).sigaction(signal.SIGUSR1, None, settings) == 0
        return settings.raw[136:140]  # behind the handler and the mask, on 64-bit Linux

    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        signal.siginterrupt(signal.SIGUSR1, False)
        expected = flags()
        signal.signal(signal.SIGUSR1, lambda number, frame: None)
        assert flags() != expected
        signal.siginterrupt(signal.SIGUSR1, False)
        fs.compile(lambda x: x + 1, backend="eager")(X)
        assert flags() == expected
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_exceptions_of_handlers_are_told_from_others() -> None:
    def by_signal(handler: Any) -> BaseException:
        before = signal.signal(signal.SIGUSR1, handler)
        try:
            signal.raise_signal(signal.SIGUSR1)
        except Exception as error:
            return error
        finally:
            signal.signal(signal.SIGUSR1, before)
        raise AssertionError

    def fail(*given: Any) -> None:
        raise Stop

    def once(number: int, frame: Any) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        fail()

    class Handler:
        def __call__(self, number: int, frame: Any) -> None:
            fail(number)

    for handler in (fail, once, Handler(), Handler().__call__):
        assert raised_by_handler(by_signal(handler))
    with pytest.raises(Stop) as caught:
        fail(1, 2)
    assert not raised_by_handler(caught.value)


# Forks


def test_a_handler_computes_and_saves_while_something_is_compiled() -> None:
    found: list[Any] = []

    def handler(number: int, frame: Any) -> None:
        file = io.BytesIO()
        torch.save({"x": X}, file)
        file.seek(0)
        found.append((torch.arange(4.0).sum().item(), torch.load(file)["x"]))

    handler(0, None)  # imports what it needs, which it could not in the middle of the same import
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
        for number in range(6):
            w = torch.eye(4, requires_grad=bool(number % 2))
            result = fs.compile(made(number), dynamic=number > 3)(X, w)
            torch.testing.assert_close(result, made(number)(X, w))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(found) > 10
    assert all(type(total) is float and total == 6 and type(x) is torch.Tensor and x.equal(X) for total, x in found)


def child_of(body: Callable[[], bool], seconds: float = 20) -> str:
    """What became of a forked child that runs `body`."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(0)
            status = 0 if body() else 2
        finally:
            os._exit(status)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return "right" if code == 0 else f"exit status {code}"
        time.sleep(0.005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return "hangs"


def made(number: int) -> Any:
    names: dict[str, Any] = {}
    lines = [f"y = x * {number} + 1", "for k in range(4): y = torch.sin(y @ w) + k", "return y.sum(1)"]
    exec("\n    ".join(["def f(x, w):", *lines]), {"torch": torch}, names)
    return names["f"]


def test_children_forked_while_a_thread_compiles_can_compile() -> None:
    ended = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        number = 0
        try:
            while not ended.is_set():
                number += 1
                w = torch.eye(4, requires_grad=bool(number % 2))
                result = fs.compile(made(number))(X, w)
                if number % 2:
                    result.sum().backward()
        except BaseException as error:
            failures.append(error)

    def body() -> bool:
        torch.set_num_threads(1)
        # Where there are devices, autograd has threads, and a child that has lost them can compute no gradients.
        trains = not torch.accelerator.is_available()
        function, w = made(1000), torch.eye(4, requires_grad=trains)
        with fs.config.patch(raise_on_internal_error=True):
            result = fs.compile(function)(X, w)
            if trains:
                result.sum().backward()
        return torch.allclose(result, function(X, w), atol=1e-5)

    dice = random.Random(1)
    thread = threading.Thread(target=work)
    thread.start()
    try:
        outcomes = []
        for _ in range(8):
            time.sleep(dice.random() * 0.05)
            outcomes.append(child_of(body))
    finally:
        ended.set()
        thread.join(30)
    assert outcomes == ["right"] * 8
    assert not failures


def test_a_fork_waits_for_a_safe_point() -> None:
    inside, half, order = threading.Event(), threading.Event(), []

    def compile_something() -> None:
        with uninterrupted():
            inside.set()
            half.wait(10)
            time.sleep(0.05)
            order.append("half done")
            order.append("done")
            safe_point()
            order.append("goes on")

    thread = threading.Thread(target=compile_something)
    thread.start()
    assert inside.wait(10)
    half.set()
    assert child_of(lambda: order == ["half done", "done"]) == "right"
    thread.join(10)
    assert order == ["half done", "done", "goes on"]


def test_a_fork_inside_of_a_backend_goes_on_on_both_sides() -> None:
    outcomes: list[str] = []

    def backend(gm: Any, inputs: Any) -> Any:
        with interruptible():
            outcomes.append(child_of(lambda: torch.equal(fs.compile(lambda x: x * 2, backend="eager")(X), X * 2)))
        return gm.forward

    assert torch.equal(fs.compile(lambda x: x + 1, backend=backend)(X), X + 1)
    assert outcomes == ["right"]
