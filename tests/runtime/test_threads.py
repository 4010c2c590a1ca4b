"""Threads, forks, re-entrancy and interrupts: results stay right, and a failed compilation leaves no trace."""

from __future__ import annotations

import _thread
import collections
import ctypes
import gc
import multiprocessing
import multiprocessing.pool
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import firesteel as fs
from firesteel import torch_compat
from firesteel.errors import FiresteelWarning
from firesteel.runtime import units
from firesteel.runtime.explain_miss import FailedGuard

X = torch.arange(4.0)


def in_threads(count: int, body: Callable[[int], None]) -> None:
    """Run `body` in several threads at once and raise what any of them raised."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(index: int) -> None:
        try:
            barrier.wait(10)
            body(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if errors:
        raise errors[0]


def state() -> Any:
    """What an unfinished compilation could leave behind."""
    return (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"),
            sys.getrecursionlimit(), torch_compat.torch_dispatch_stack_length(),
            torch_compat.torch_function_stack_length(), gc.isenabled(), torch.get_default_dtype(),
            torch.random.get_rng_state().tolist()[:16])


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Any:
    before = state()
    yield
    assert state()[:-1] == before[:-1]


# Threads


def test_one_function_many_threads() -> None:
    compilations: list[int] = []

    def backend(gm: Any, inputs: Any) -> Any:
        compilations.append(1)
        return gm.forward

    @fs.compile(backend=backend)
    def f(x: torch.Tensor, log: list[Any], k: float) -> Any:
        y = x * k
        log.append(y)
        fs.graph_break()
        return y + len(log)

    def body(index: int) -> None:
        for step in range(30):
            log: list[Any] = []
            result = f(X + index, log, 2.5)
            assert torch.equal(result, (X + index) * 2.5 + 1), (index, step)
            assert len(log) == 1

    in_threads(6, body)
    assert len(compilations) == 2


def test_threads_with_different_guards() -> None:
    @fs.compile(backend="eager")
    def f(x: torch.Tensor, name: str) -> Any:
        y = x + len(name)
        fs.graph_break()
        return y * 2, name

    def body(index: int) -> None:
        name = "abcdefgh"[: index + 1]
        for _ in range(20):
            result, same = f(X, name)
            assert torch.equal(result, (X + len(name)) * 2)
            assert same == name

    in_threads(6, body)
    assert len(f._firesteel_unit.entries) <= 6


def test_grad_mode_belongs_to_the_thread() -> None:
    weight = torch.ones(4, requires_grad=True)

    @fs.compile(backend="eager")
    def f(x: torch.Tensor) -> Any:
        y = x * weight
        with torch.no_grad():
            z = y * 2
        return y, z

    def body(index: int) -> None:
        for _ in range(20):
            with torch.set_grad_enabled(index % 2 == 0):
                y, z = f(X)
                assert y.requires_grad is (index % 2 == 0)
                assert not z.requires_grad
                assert torch.is_grad_enabled() is (index % 2 == 0)

    in_threads(4, body)


def test_modules_and_many_functions() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    compiled = fs.compile(net, backend="eager")
    functions = [fs.compile(lambda x, k=k: torch.sin(x) * k, backend="eager") for k in range(4)]
    expected = net(X)

    def body(index: int) -> None:
        for _ in range(10):
            assert torch.equal(compiled(X), expected)
            assert torch.equal(functions[index % 4](X), torch.sin(X) * (index % 4))

    in_threads(6, body)


def test_reset_while_others_call() -> None:
    @fs.compile(backend="eager")
    def f(x: torch.Tensor) -> Any:
        y = x + 1
        fs.graph_break()
        return y * 2

    stop = time.monotonic() + 0.5

    def body(index: int) -> None:
        while time.monotonic() < stop:
            if index == 0:
                fs.reset()
            else:
                assert torch.equal(f(X), (X + 1) * 2)

    in_threads(3, body)


def test_a_slow_compilation_does_not_block_compiled_calls() -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(gm: Any, inputs: Any) -> Any:
        entered.set()
        assert leave.wait(10)
        return gm.forward

    ready = fs.compile(lambda x: x + 1, backend="eager")
    ready(X)
    waiting = fs.compile(lambda x: x + 2, backend=slow)
    thread = threading.Thread(target=waiting, args=(X,))
    thread.start()
    assert entered.wait(10)
    assert torch.equal(ready(X), X + 1)
    leave.set()
    thread.join(10)


# Re-entrancy


def test_compiled_calls_compiled() -> None:
    @fs.compile(backend="eager")
    def inner(x: torch.Tensor) -> Any:
        y = x + 1
        fs.graph_break()
        return y * 2

    @fs.compile(backend="eager")
    def outer(x: torch.Tensor) -> Any:
        return inner(inner(x)) + inner(x)

    def plain(x: torch.Tensor) -> Any:
        return (x + 1) * 2

    for _ in range(3):
        assert torch.equal(outer(X), plain(plain(X)) + plain(X))


def test_recursion_through_the_compiled_function() -> None:
    @fs.compile(backend="eager")
    def f(x: torch.Tensor, n: int) -> Any:
        if n == 0:
            return x
        fs.graph_break()
        return f(x + n, n - 1) * 2

    def plain(x: torch.Tensor, n: int) -> Any:
        return x if n == 0 else plain(x + n, n - 1) * 2

    assert torch.equal(f(X, 6), plain(X, 6))
    assert torch.equal(f(X, 9), plain(X, 9))


def test_backend_that_calls_a_compiled_function() -> None:
    helper = fs.compile(lambda x: x * 3, backend="eager")

    def backend(gm: Any, inputs: Any) -> Any:
        assert torch.equal(helper(X), X * 3)
        return lambda *args: [helper(result) for result in gm(*args)]

    f = fs.compile(lambda x: x + 1, backend=backend)
    assert torch.equal(f(X), (X + 1) * 3)
    assert torch.equal(f(X), (X + 1) * 3)


def test_opaque_step_calls_back_into_the_function() -> None:
    depth: list[int] = []

    @fs.disable
    def again(x: torch.Tensor) -> Any:
        depth.append(1)
        return f(x + 10) if len(depth) < 3 else x

    @fs.compile(backend="eager")
    def f(x: torch.Tensor) -> Any:
        y = x + 1
        return again(y) * 2

    assert torch.equal(f(X), (((X + 1 + 10) + 1 + 10) + 1) * 8)


# Forks


def forked(body: Callable[[], bool]) -> int:
    """The exit status of a child that runs `body`: 0 when it returns True."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if body() else 2
        finally:
            os._exit(status)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    raise AssertionError("the child hangs")


def test_fork_after_compiling() -> None:
    @fs.compile(backend="eager")
    def f(x: torch.Tensor, name: str) -> Any:
        y = x + len(name)
        fs.graph_break()
        return y * 2

    f(X, "a")

    def child() -> bool:
        return torch.equal(f(X, "a"), (X + 1) * 2) and torch.equal(f(X, "bb"), (X + 2) * 2)

    assert forked(child) == 0
    assert torch.equal(f(X, "bb"), (X + 2) * 2)


def test_fork_while_another_thread_compiles() -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(gm: Any, inputs: Any) -> Any:
        entered.set()
        leave.wait(30)
        return gm.forward

    f = fs.compile(lambda x: x + 1, backend="eager")
    waiting = fs.compile(lambda x: x + 2, backend=slow)
    thread = threading.Thread(target=waiting, args=(X,))
    thread.start()
    assert entered.wait(10)
    try:
        # the child has no thread that could release what the compiling thread holds
        assert forked(lambda: torch.equal(f(X), X + 1)) == 0
    finally:
        leave.set()
        thread.join(10)


def _in_child(queue: Any) -> None:
    queue.put(FORKED(X).tolist())


FORKED = fs.compile(lambda x: torch.cos(x) + 1, backend="eager")


def test_multiprocessing_fork() -> None:
    FORKED(X)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_in_child, args=(queue,))
    process.start()
    try:
        assert queue.get(timeout=30) == (torch.cos(X) + 1).tolist()
    finally:
        process.join(10)
    assert process.exitcode == 0


# Interrupts


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_interrupt_in_the_backend(error: type[BaseException]) -> None:
    attempts: list[int] = []

    def backend(gm: Any, inputs: Any) -> Any:
        attempts.append(1)
        if len(attempts) == 1:
            raise error
        return gm.forward

    @fs.compile(backend=backend)
    def f(x: torch.Tensor) -> Any:
        with torch.no_grad():
            y = x + 1
        with torch.autocast("cpu"):
            return y @ y

    before = state()
    with pytest.raises(error):
        f(X)
    assert state() == before
    assert not f._firesteel_unit.entries
    assert f._firesteel_unit.given_up is None
    assert torch.equal(f(X), torch.autocast("cpu")(lambda y: y @ y)(X + 1))
    assert len(attempts) == 2


def test_interrupt_in_another_thread_does_not_lock_others_out() -> None:
    def backend(gm: Any, inputs: Any) -> Any:
        raise KeyboardInterrupt

    f = fs.compile(lambda x: x + 1, backend=backend)

    def body() -> None:
        with pytest.raises(KeyboardInterrupt):
            f(X)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(10)
    g = fs.compile(lambda x: x + 2, backend="eager")
    done: list[Any] = []
    other = threading.Thread(target=lambda: done.append(g(X)), daemon=True)
    other.start()
    other.join(10)
    assert done
    assert torch.equal(done[0], X + 2)


class Stop(BaseException):
    """Raised asynchronously."""


def test_asynchronous_interrupts_during_capture() -> None:
    def f(x: torch.Tensor) -> Any:
        for i in range(60):
            with torch.no_grad():
                x = torch.nn.functional.layer_norm(x + i, (4,)) * 2
        with torch.autocast("cpu"):
            return x @ x

    expected = f(X)
    interrupted = 0
    for attempt in range(25):
        fs.reset()
        compiled = fs.compile(f, backend="eager")
        before = state()
        outcome: list[Any] = []
        started = threading.Event()

        def run(compiled: Any = compiled, outcome: list[Any] = outcome, started: threading.Event = started) -> None:
            inside = state()
            try:
                started.set()
                try:
                    outcome.append(compiled(X))
                except Stop:
                    outcome.append(Stop)
                after = state()
                outcome.append(inside[:-1] == after[:-1] or (inside, after))
            except Stop:
                outcome.append("late")

        thread = threading.Thread(target=run)
        thread.start()
        started.wait(10)
        time.sleep(0.0004 * attempt)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Stop))
        thread.join(20)
        assert not thread.is_alive()
        if outcome and outcome[0] is Stop:
            interrupted += 1
            assert outcome[1] is True, outcome[1]
        assert state()[:-1] == before[:-1]
        assert torch.equal(compiled(X), expected)
    assert interrupted >= 3


def test_the_program_may_wait_for_other_threads_that_compile() -> None:
    lock, together, seen = threading.Lock(), threading.Barrier(3, timeout=20), []

    @fs.compile(backend="eager")
    def locked(x: torch.Tensor) -> torch.Tensor:
        if not lock.acquire(timeout=20):
            raise TimeoutError
        seen.append(1)
        y = x * 2
        lock.release()
        return y

    @fs.compile(backend="eager")
    def meeting(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        together.wait()
        return y + 1

    def body(index: int) -> None:
        for _ in range(20):
            assert torch.equal(locked(X), X * 2)
        for _ in range(3):
            assert torch.equal(meeting(X), X * 2 + 1)

    in_threads(3, body)
    assert len(seen) == 60


def test_writes_of_several_threads_to_one_dictionary_stay() -> None:
    table: dict[Any, int] = {}

    @fs.compile(backend="eager")
    def write(x: torch.Tensor, key: int, number: int) -> torch.Tensor:
        table[key, number] = number
        return x * 2

    def body(index: int) -> None:
        for number in range(60):
            write(X, index, number)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(4, body)
    finally:
        sys.setswitchinterval(interval)
    assert len(table) == 240


def test_only_what_changed_of_a_dictionary_is_written() -> None:
    class Watching(dict[Any, Any]):
        pass

    def change(table: dict[Any, Any], x: torch.Tensor) -> torch.Tensor:
        table[1, 2] = 3
        del table["b"]
        table["a"] = table.pop("a") + 1
        return x * len(table)

    for kind in (dict, Watching):
        plain, compiled = (kind({"b": 1, "a": 2, (0, 0): 5}) for _ in range(2))
        assert torch.equal(change(plain, X), fs.compile(change, backend="eager")(compiled, X))
        assert list(plain.items()) == list(compiled.items())


def test_a_function_whose_guards_refuse_what_they_are_made_from_says_so_beside_other_threads(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may have changed what the guards read, a few times. Then it is told, once."""
    monkeypatch.setattr(units, "first_failure", lambda entry, unit, args: FailedGuard("x is wrong", "x", ""))
    compile_unit = units.Unit.compile

    def compile_refusing(unit: units.Unit, args: tuple[Any, ...]) -> Any:
        entry = compile_unit(unit, args)
        assert entry is not None
        entry.function = lambda *args: units.MISS
        unit.functions = (entry.function,)
        return entry

    monkeypatch.setattr(units.Unit, "compile", compile_refusing)
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, args=(60,))
    thread.start()
    try:
        with pytest.warns(FiresteelWarning) as said:
            compiled = fs.compile(lambda x: x + 1, backend="eager")
            for _ in range(8):
                assert torch.equal(compiled(X), X + 1)
    finally:
        ended.set()
        thread.join(10)
    assert ["refuse what they are made from: x is wrong" in str(warning.message) for warning in said] == [True]


def slow(module: Any, inputs: Any) -> Any:
    """A backend whose graphs leave other threads time for theirs."""
    return lambda *args: (time.sleep(0.003), module(*args))[1]


def test_of_several_threads_only_one_gets_an_item() -> None:
    """Reading and changing a container is one step in Python, also where compiled code has a graph in between."""
    work, queue, table = list(range(12)), collections.deque(range(12)), {number: number for number in range(12)}
    lists: dict[int, list[int]] = {}
    more: dict[int, list[int]] = collections.defaultdict(list)
    taken: list[tuple[int, int, tuple[int, int]]] = []

    @fs.compile(backend=slow)
    def take(x: torch.Tensor, index: int, number: int) -> Any:
        y = x + 1
        found = work.pop(), queue.popleft(), table.popitem()
        lists.setdefault(number, []).append(index)
        more[number].append(index)
        return y, found

    def body(index: int) -> None:
        for number in range(3):
            y, found = take(X, index, number)
            assert torch.equal(y, X + 1)
            taken.append(found)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FiresteelWarning)
        in_threads(4, body)
    for kind in range(3):
        assert len({found[kind] for found in taken}) == 12
    assert not work and not queue and not table
    assert [sorted(lists[number]) for number in range(3)] == [sorted(more[number]) for number in range(3)] \
        == [[0, 1, 2, 3]] * 3


def test_containers_are_captured_while_there_is_one_thread() -> None:
    work = list(range(6))

    @fs.compile(backend=slow)
    def take(x: torch.Tensor) -> Any:
        return x + work.pop()

    assert torch.equal(take(X), X + 5)
    assert len(take._firesteel_unit.entries) == 1 and not take._firesteel_unit.continuations
    in_threads(2, lambda index: take(X))
    assert len(work) == 3


class Housekeeping(threading.Thread):
    """A thread as progress bars, notebooks and data loaders have them."""

    def __init__(self, module: str) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        type(self).__module__ = module

    def run(self) -> None:
        self.ended.wait(60)


def running(module: str) -> Housekeeping:
    thread = type("Housekeeping", (Housekeeping,), {})(module)
    thread.start()
    return thread


@pytest.mark.parametrize("module", ["tqdm._monitor", "ipykernel.heartbeat", "__main__"])
def test_threads_of_libraries_do_not_take_items(module: str) -> None:
    work = list(range(4))

    @fs.compile(backend=slow)
    def take(x: torch.Tensor) -> Any:
        return x + work.pop()

    before = running("tqdm._monitor")
    assert torch.equal(take(X), X + 3)
    later = running(module)
    try:
        assert torch.equal(take(X), X + 2)
        assert len(take._firesteel_unit.continuations) == (module == "__main__")
    finally:
        for thread in (before, later):
            thread.ended.set()
            thread.join()


def test_first_steps_of_optimizers_are_one_graph_beside_threads() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([parameter])
    parameter.grad = torch.ones(3)

    def step() -> None:
        optimizer.step()

    thread = running("__main__")
    try:
        explained = fs.explain(step)()
        assert explained.graph_count == 1 and not explained.break_reasons
        assert optimizer.state[parameter]["step"] == 1
    finally:
        thread.ended.set()
        thread.join()


def test_threads_of_pools_take_items() -> None:
    """Their class and their target are Python's own; the functions that they are given are the program's."""
    work = list(range(4))

    @fs.compile(backend=slow)
    def take(x: torch.Tensor) -> Any:
        return x + work.pop()

    with multiprocessing.pool.ThreadPool(1) as pool:
        assert torch.equal(take(X), X + 3)
        assert take._firesteel_unit.continuations
        assert torch.equal(pool.apply(take, (X,)), X + 2) and work == [0, 1]


def test_threads_that_python_did_not_start_count_while_they_run() -> None:
    """Such as those in which autograd runs hooks: `threading` keeps them in its list when they are in C++ again."""
    work = list(range(4))
    seen, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    stays_in_the_list: list[threading.Thread] = []

    @fs.compile(backend=slow)
    def take(x: torch.Tensor) -> Any:
        return x + work.pop()

    def foreign() -> None:
        stays_in_the_list.append(threading.current_thread())
        seen.set()
        go_on.wait(60)
        ended.set()

    _thread.start_new_thread(foreign, ())
    seen.wait(60)
    assert torch.equal(take(X), X + 3) and take._firesteel_unit.continuations
    go_on.set()
    ended.wait(60)
    while stays_in_the_list[0].ident in sys._current_frames():
        time.sleep(0.001)
    threading._active[stays_in_the_list[0].ident] = stays_in_the_list[0]  # as before Python 3.13
    try:
        fs.reset()
        assert torch.equal(take(X), X + 2) and not take._firesteel_unit.continuations
    finally:
        del threading._active[stays_in_the_list[0].ident]
