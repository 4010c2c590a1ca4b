"""Functions and modules that run as plain Python until compiling them may pay."""

from __future__ import annotations

import copy
import gc
import inspect
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
import warnings
import weakref

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import firesteel as fs
from firesteel import paying
from firesteel.errors import UserCodeError
from firesteel.function_marks import COMPILED, END_WAITING, UNIT

pytestmark = pytest.mark.usefixtures("quick_collections")

X = torch.arange(4.0)


@pytest.fixture(autouse=True)
def long_wait():
    with fs.config.patch(compile_after=1000.0):
        yield


def is_compiled(function) -> bool:
    return hasattr(function, UNIT) or hasattr(type(function), "_firesteel_compiler")


def is_plain(function) -> bool:
    return hasattr(function, END_WAITING) and not is_compiled(function)


def spend(function, seconds: float) -> None:
    """As if calls had taken that long."""
    getattr(function, END_WAITING).__self__.seconds = seconds


def work(seconds: float) -> None:
    """Keep this thread busy."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def several(a, b=2, /, c=3, *rest, d, e=5, **more):
    return a * b + c + sum(rest) + d - e + sum(more.values())


CALLS = [((X,), {"d": 1}), ((X, 3), {"d": 1, "e": 2}), ((X, 3, 4, 5, 6), {"d": 1, "z": 8}), ((X,), {"c": 7, "d": X})]


def test_the_same_object_goes_from_plain_to_compiled():
    compiled = fs.compile(several)
    for args, kwargs in CALLS:
        assert torch.equal(compiled(*args, **kwargs), several(*args, **kwargs))
    assert is_plain(compiled)
    spend(compiled, 1000.0)
    for args, kwargs in CALLS:
        assert torch.equal(compiled(*args, **kwargs), several(*args, **kwargs))
    assert is_compiled(compiled) and len(getattr(compiled, UNIT).entries) >= 1
    assert getattr(compiled, COMPILED) is several
    assert inspect.signature(compiled) == inspect.signature(several)
    assert compiled.__defaults__ == several.__defaults__ and compiled.__kwdefaults__ == several.__kwdefaults__


@pytest.mark.parametrize("args, kwargs", [((), {}), ((X,), {}), ((X, 1, 2), {"c": 1, "d": 1})])
def test_wrong_calls_raise_what_the_function_raises(args, kwargs):
    compiled = fs.compile(several)
    with pytest.raises(TypeError) as plain:
        several(*args, **kwargs)
    with pytest.raises(TypeError) as raised:
        compiled(*args, **kwargs)
    assert str(raised.value) == str(plain.value)


def test_a_function_that_was_changed_meanwhile():
    def f(x, n=1):
        return x + n

    compiled = fs.compile(f)
    assert torch.equal(compiled(X), X + 1)
    f.__defaults__ = (5,)
    assert torch.equal(compiled(X), X + 5)
    f.__code__ = (lambda x, n: x - n).__code__
    assert torch.equal(compiled(X), X - 5) and torch.equal(compiled(X, 2), X - 2)


def test_once_the_compiler_is_loaded_half_is_enough():
    compiled = fs.compile(lambda x: x + 1)
    spend(compiled, 1000.0 * paying.ONCE_LOADED)
    compiled(X)
    assert is_compiled(compiled)


def test_long_calls_are_compiled_in_the_third():
    with fs.config.patch(compile_after=1e6):
        def slow(x):
            work(0.11)
            return x + 1

        compiled = fs.compile(slow)
        number = 0
        while number < 3:
            assert is_compiled(compiled) == (number > 2)
            compiled(X)
            number += 1
        assert is_compiled(compiled)


@pytest.mark.parametrize("rounds, is_long", [(30, False), (100_000, True)])
def test_the_loop_around_says_how_long_calls_go_on(rounds, is_long):
    compiled = fs.compile(lambda x: work(0.02) or x + 1)
    with fs.config.patch(compile_after=200.0):
        for number in range(rounds):
            compiled(X)
            if number == 8:
                break
    assert is_compiled(compiled) == is_long


def test_where_the_loop_around_ends_soon_calls_wait_longer():
    compiled = fs.compile(lambda x: x + 1)
    for number, seconds in enumerate((0.0, 100.0, 300.0, 501.0, 1001.0)):  # 500 once the compiler is loaded
        spend(compiled, seconds)
        compiled(X)
        assert is_compiled(compiled) == (seconds > 1000.0)


def test_time_of_calls_inside_of_calls_counts_once():
    def down(x, n):
        work(0.005)
        return x if n == 0 else compiled(x, n - 1)

    compiled = fs.compile(down)
    compiled(X, 4)
    before = getattr(compiled, END_WAITING).__self__.seconds
    assert before >= 0.025
    began = time.thread_time()
    compiled(X, 4)
    once = time.thread_time() - began
    assert getattr(compiled, END_WAITING).__self__.seconds <= before + once + 0.002  # counted twice, it would be 0.02


def test_calls_that_raise_count_too_and_show_no_frame_of_ours_inside():
    def raises(x):
        raise ValueError("no")

    compiled = fs.compile(raises)
    with pytest.raises(ValueError) as raised:
        compiled(X)
    assert getattr(compiled, END_WAITING).__self__.seconds > 0
    files = [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert files[0] == files[-1] == __file__ and len(files) == 3  # the caller, the call, the function


def test_warnings_point_to_the_caller():
    def warns(x):
        warnings.warn("careful", stacklevel=2)
        return x

    compiled = fs.compile(warns)
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        compiled(X)
    assert issued[0].filename == __file__


def test_what_varied_meanwhile_is_a_symbol_at_once():
    compiled = fs.compile(lambda x, n: x * n + x.shape[0])
    compiled(torch.ones(3), 2)
    spend(compiled, 1000.0)
    for size in (4, 5, 6):
        assert torch.equal(compiled(torch.ones(size), size), torch.full((size,), 2.0 * size))
    assert len(getattr(compiled, UNIT).entries) == 1


def test_sizes_that_varied_before_a_module_was_compiled():
    module = torch.nn.Linear(4, 2)
    compiled = fs.compile(module)
    for size in (3, 5, 5):
        compiled(torch.ones(size, 4))
    spend(type(compiled), 1000.0)
    for size in (5, 6, 7):
        torch.testing.assert_close(compiled(torch.ones(size, 4)), module(torch.ones(size, 4)))
    (unit,) = [unit for units in type(compiled)._firesteel_compiler.units.values() for unit in units]
    assert len(unit.entries) == 1


def test_arguments_are_freed_when_the_function_deletes_them():
    seen = []

    def f(x):
        ref = weakref.ref(x)
        del x
        seen.append(ref() is None)

    compiled = fs.compile(f)
    compiled(torch.ones(3))
    assert seen == [True] and is_plain(compiled)


@pytest.mark.parametrize("given", [
    {"fullgraph": True}, {"backend": "eager"}, {"mode": "max-autotune"}, {"options": {}}, {"tier": "wait"},
    {"isolate_recompiles": False}, {"dynamic_shapes": {"x": None}}], ids=lambda given: next(iter(given)))
def test_who_asks_for_something_does_not_wait(given):
    def f(x):
        return x + 1

    assert is_compiled(fs.compile(f, **given))
    if "fullgraph" in given or "backend" in given:
        assert is_plain(fs.compile(f, **given, tier="auto"))


def test_unknown_tier():
    with pytest.raises(UserCodeError, match="unknown tier 'later'"):
        fs.compile(several, tier="later")


def test_who_asks_what_is_compiled_does_not_wait(tmp_path):
    assert fs.explain(lambda x: x + 1)(X).graph_count == 1
    compiled = fs.compile(lambda x: x + 1)
    compiled(X)
    fs.set_logs(graph_breaks=True)
    compiled(X)
    assert is_compiled(compiled)
    fs.set_logs()
    compiled = fs.compile(lambda x: x + 2)
    with fs.config.patch(debug_dir=str(tmp_path)):
        compiled(X)
    assert is_compiled(compiled)


def test_stances():
    compiled = fs.compile(lambda x: x + 1)
    with fs.set_stance("force_eager"):
        spend(compiled, 1e9)
        compiled(X)
        assert is_plain(compiled)
    other = fs.compile(lambda x: x + 1)
    with fs.set_stance("fail_on_recompile"), pytest.raises(fs.errors.RecompileError):
        other(X)


def test_run_and_reset_and_disable():
    compiled = fs.compile(lambda x: x + 1)
    assert torch.equal(fs.run(compiled)(X), X + 1) and not getattr(compiled, UNIT).entries
    fs.reset()
    assert torch.equal(compiled(X), X + 1)
    assert fs.disable(fs.compile(several)).__wrapped__ is several


def test_methods_partials_and_decorators():
    import functools

    class Doubler:
        @fs.compile
        def double(self, x):
            return x * 2

        @fs.compile
        @staticmethod
        def triple(x):
            return x * 3

    made = Doubler()
    assert torch.equal(made.double(X), X * 2) and torch.equal(made.triple(X), X * 3)
    assert is_plain(Doubler.double) and is_plain(Doubler.triple)
    bound = fs.compile(made.double)
    assert torch.equal(bound(X), X * 2) and is_plain(bound)
    part = fs.compile(functools.partial(several, d=4))
    assert torch.equal(part(X), several(X, d=4)) and is_plain(part.func)


def test_a_compiled_function_follows_one_that_waits():
    inner = fs.compile(lambda x: x.sin())
    outer = fs.compile(lambda x: inner(x) + 1, fullgraph=True)
    assert torch.equal(outer(X), X.sin() + 1) and is_plain(inner)


def test_inner_functions_wait_longer():
    inner = fs.compile(lambda x: x.sin())
    outer = fs.compile(lambda x: inner(x) + 1)
    spend(inner, 1000.0 * paying.ONCE_LOADED)
    outer(X)
    assert is_plain(inner) and is_plain(outer)
    spend(inner, 1001.0 * paying.ONCE_LOADED * paying.INSIDE_ANOTHER)
    outer(X)
    assert is_compiled(inner) and is_plain(outer)


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_forward_pre_hook(lambda module, args: (args[0] * 2,))

    def forward(self, x, *, scale=1.0):
        return self.linear(x) * scale


def test_modules():
    module = Scaled()
    compiled = fs.compile(module)
    assert isinstance(compiled, Scaled) and compiled.linear is module.linear and dict(compiled.named_parameters())
    torch.testing.assert_close(compiled(X, scale=3.0), module(X, scale=3.0))
    torch.testing.assert_close(compiled.forward(X), module.forward(X))
    compiled(X).sum().backward()
    assert module.linear.weight.grad is not None and not is_compiled(compiled)
    spend(type(compiled), 1000.0)
    torch.testing.assert_close(compiled(X, scale=3.0), module(X, scale=3.0))
    torch.testing.assert_close(compiled.forward(X), module.forward(X))
    assert is_compiled(compiled)
    assert not hasattr(module, "_firesteel_compiler")


def test_copies_of_modules_wait_for_themselves():
    module = fs.compile(torch.nn.Linear(4, 4), name="head")
    spend(type(module), 1000.0)
    module(X)
    assert is_compiled(module)
    for other in (copy.deepcopy(module), copy.copy(module), pickle.loads(pickle.dumps(module))):
        torch.testing.assert_close(other(X), module(X))
        assert not is_compiled(other)
        spend(type(other), 1000.0)
        torch.testing.assert_close(other(X), module(X))
        assert type(other)._firesteel_compiler.name == "head"


def test_checkpoints_do_not_wait():
    compiled = fs.compile(lambda x: x.sin().cos() * x)
    x = X.clone().requires_grad_()
    loss = checkpoint(compiled, x, use_reentrant=False).sum()
    assert is_compiled(compiled)
    loss.backward()
    expected = X.clone().requires_grad_()
    (expected.sin().cos() * expected).sum().backward()
    torch.testing.assert_close(x.grad, expected.grad)


def test_checkpoints_inside_of_functions_that_wait():
    weight = torch.randn(4, 4, requires_grad=True)
    block = fs.compile(lambda x: (x @ weight).relu())
    model = fs.compile(lambda x: checkpoint(block, x, use_reentrant=False))
    given = torch.randn(3, 4)
    for _ in range(3):
        x = given.clone().requires_grad_()
        model(x).sum().backward()
        plain = given.clone().requires_grad_()
        (plain @ weight).relu().sum().backward()
        torch.testing.assert_close(x.grad, plain.grad)
    assert is_compiled(block)


def test_compile_times_say_that_something_waits():
    from firesteel.stage_times import TIMES

    TIMES.clear()
    compiled = fs.compile(lambda x: x + 1)
    compiled(X)
    assert "as plain Python until compiling pays" in fs.compile_times() and 'tier="wait"' in fs.compile_times()


def test_whole_numbers_of_seconds():
    with fs.config.patch(compile_after=0):
        assert is_compiled(fs.compile(lambda x: x + 1)) and fs.config.compile_after == 0.0


def test_threads_go_over_together():
    compiled = fs.compile(lambda x: x * 2 + 1)
    results: list[bool] = []

    def call():
        for number in range(200):
            if number == 50:
                spend(compiled, 1000.0)
            results.append(torch.equal(compiled(X), X * 2 + 1))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 800 and is_compiled(compiled)


def test_a_compiler_that_cannot_be_started_leaves_the_program_alone(monkeypatch):
    compiled = fs.compile(lambda x: x + 1)
    state = getattr(compiled, END_WAITING).__self__
    spend(compiled, 1000.0)
    monkeypatch.setattr(state, "_compile_it", lambda waiting: 1 / 0)
    with fs.config.patch(raise_on_internal_error=False), \
            pytest.warns(fs.errors.FiresteelWarning, match="could not be started.*ZeroDivisionError"):
        assert torch.equal(compiled(X), X + 1)
    assert torch.equal(compiled(X), X + 1) and is_plain(compiled)


def test_functions_that_wait_can_be_collected():
    def make():
        big = torch.ones(3)
        return fs.compile(lambda x: x + big), weakref.ref(big)

    compiled, ref = make()
    compiled(torch.ones(3))
    del compiled
    gc.collect()
    assert ref() is None


SHORT = """
import sys, types, torch
import firesteel as fs
sys.modules["torch.distributed.fsdp"] = types.ModuleType("torch.distributed.fsdp")  # optimizers load it
f = fs.compile(lambda x: x.sin() + 1)
m = fs.compile(torch.nn.Linear(3, 3))
for _ in range(10):
    f(torch.ones(3)), m(torch.ones(3))
print([name for name in sys.modules if name.startswith(("firesteel.kernels", "firesteel.torch_compat", "llvmlite",
    "firesteel.errors", "firesteel.config", "firesteel.support"))])
"""


def test_a_short_program_loads_nothing_of_the_compiler():
    plain = {name: value for name, value in os.environ.items() if not name.startswith("FIRESTEEL_")}
    done = subprocess.run([sys.executable, "-c", SHORT], capture_output=True, text=True, env=plain)
    assert done.stdout == "[]\n", done.stdout + done.stderr
