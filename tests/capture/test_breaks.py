"""Graph breaks: at every kind of instruction, in every kind of block, with the same effects as plain Python."""

from __future__ import annotations

import gc
import os
import sys
import warnings
import weakref
from typing import Any

import pytest
import torch

import firesteel as fs
from capture.break_programs import PROGRAMS
from capture.forced_breaks import check_everywhere, compiled_run, observe
from firesteel.errors import FiresteelWarning, GraphBreakError

# Each program is broken at every n-th of its instructions; FIRESTEEL_BREAK_AT_EVERY=1 tries all of them.
EVERY = int(os.environ.get("FIRESTEEL_BREAK_AT_EVERY", "9"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_breaks_at_instructions(program: Any) -> None:
    check_everywhere(program, seeds=2, every=EVERY)


def entries_of(compiled: Any) -> list[Any]:
    unit = compiled._firesteel_unit
    return [entry for part in (unit, *unit.continuations.values()) for entry in part.entries]


def operations_of(compiled: Any) -> list[int]:
    return [sum(node.op.startswith("call") for node in entry.graph.module.graph.nodes)
            for entry in entries_of(compiled) if entry.graph is not None]


def test_loop_with_a_break_stays_flat() -> None:
    depths = []

    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        for i in range(n):
            x = x * 0.5 + i
            fs.graph_break()
            x = x - 1
            if i % 500 == 0:
                depths.append(stack_depth())
        return x

    compiled = fs.compile(f, backend="eager")
    torch.testing.assert_close(compiled(torch.ones(2), 2000), f(torch.ones(2), 2000), rtol=0, atol=0)
    assert max(depths[:4]) - min(depths[:4]) <= 2  # the first call of a unit also compiles it
    assert len(entries_of(compiled)) < 12
    # the body of the loop runs compiled: what is before and after the break is in graphs
    assert sum(operations_of(compiled)) >= 3


@fs.disable
def stack_depth() -> int:
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None and frame.f_back.f_code.co_name != "test_loop_with_a_break_stays_flat":
        frame, depth = frame.f_back, depth + 1
    return depth


def test_while_on_data_does_not_recompile() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        while x.sum() < 1000:
            x = x + 1
            y = x * 2
        return y

    compiled = fs.compile(f, backend="eager")
    assert torch.equal(compiled(torch.zeros(2)), f(torch.zeros(2)))
    assert len(entries_of(compiled)) <= 4


def test_branch_on_data_gives_two_continuations() -> None:
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        x = a / (torch.abs(a) + 1)
        if b.sum() < 0:
            b = b * -1
        return x * b

    compiled = fs.compile(f, backend="eager")
    for sign in (1, -1, 1):
        b = sign * torch.ones(3)
        assert torch.equal(compiled(torch.ones(3), b), f(torch.ones(3), b))
    assert len([entry for entry in entries_of(compiled) if entry.graph is not None]) == 3


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_callee_with_a_break_is_compiled_in_its_own_right(depth: int) -> None:
    def innermost(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() + 1
        fs.graph_break()
        return y.cos() + 2

    def call(x: torch.Tensor, n: int) -> torch.Tensor:
        x = x * 2
        result = innermost(x) if n == 0 else call(x, n - 1)
        return result - 1

    def f(x: torch.Tensor) -> torch.Tensor:
        return call(x, depth - 1) + 1

    ran = []

    def counting(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            ran.extend(node for node in gm.graph.nodes if node.op.startswith("call"))
            return gm(*args)

        return run

    compiled = fs.compile(f, backend=counting)
    for _ in range(2):
        ran.clear()
        assert torch.equal(compiled(torch.ones(3)), f(torch.ones(3)))
        assert len(ran) == 4 + 2 * depth + 1


def test_fullgraph_names_the_place() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x * x.detach().numpy().sum()

    def f(x: torch.Tensor) -> torch.Tensor:
        return inner(x + 1)

    with pytest.raises(GraphBreakError) as caught:
        fs.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
    text = str(caught.value)
    assert __file__ in text and "x * x.detach().numpy().sum()" in text and "in inner" in text
    assert f"line {inner.__code__.co_firstlineno + 1}" in text


def test_fullgraph_lets_the_programs_own_exceptions_through() -> None:
    def f(x: torch.Tensor, log: list[str]) -> torch.Tensor:
        log.append("before")
        raise ValueError(x.shape[0])

    log: list[str] = []
    with pytest.raises(ValueError, match="3"):
        fs.compile(f, backend="eager", fullgraph=True)(torch.ones(3), log)
    assert log == ["before"]


def test_over_the_limit_continuations_run_plain() -> None:
    def f(x: torch.Tensor, key: str, log: list[Any]) -> Any:
        out = []
        for i, letter in enumerate(key):
            y = x + i
            fs.graph_break()
            try:
                log.append(letter)
                if letter == "c":
                    raise ValueError(letter)
                out.append(y * len(key))
            except ValueError as error:
                log.append(error.args)
        return out

    with fs.config.patch(recompile_limit=1):
        compiled = fs.compile(f, backend="eager")
        for key in ("ab", "abc", "cab", ""):
            logs: tuple[list[Any], list[Any]] = ([], [])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FiresteelWarning)
                result = compiled(torch.ones(2), key, logs[0])
            assert str(result) == str(f(torch.ones(2), key, logs[1])) and logs[0] == logs[1]


def test_stance_changed_in_the_middle() -> None:
    def f(x: torch.Tensor, log: list[Any]) -> torch.Tensor:
        y = x + 1
        with fs.set_stance("force_eager"):
            fs.graph_break()
            log.append(fs.is_compiling())
            y = y * 2
        fs.graph_break()
        return y - 1

    plain = observe(f, f)
    compiled_run(f, plain)


def test_what_a_call_used_can_die_without_garbage_collection() -> None:
    class Thing:
        pass

    def helper(x: torch.Tensor) -> torch.Tensor:
        fs.graph_break()
        return x * 2

    def f(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.value = x + 1
        try:
            raise ValueError("caught")
        except ValueError:
            pass
        return helper(x)

    compiled = fs.compile(f, backend="eager")
    gc.disable()
    try:
        for _ in range(2):
            x, thing = torch.ones(3), Thing()
            dead = weakref.ref(x), weakref.ref(thing)
            compiled(x, thing)
            del x, thing
            assert dead[0]() is None and dead[1]() is None
    finally:
        gc.enable()


def test_scipy_between_two_graphs() -> None:
    fft = pytest.importorskip("scipy.fft")

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2 + 1
        z = torch.from_numpy(fft.dct(y.numpy()))
        return z.sin() + y

    explanation = fs.explain(f)(torch.ones(4))
    assert explanation.graph_count == 2 and explanation.op_count >= 4
    assert torch.equal(fs.compile(f, backend="eager")(torch.ones(4)), f(torch.ones(4)))


def _truth_of(test):
    scope = {}
    exec(f"def function(x, seen):\n    try:\n        {test}\n    except RuntimeError as error:\n"
         "        seen.append(str(error))\n    finally:\n        x.add_(1)\n    return seen\n", scope)
    return scope["function"]


@pytest.mark.parametrize("test", [
    "assert x > 0", "seen.append(1 if x > 0 or x < 5 else 3)", "seen.append(x == 2 or 5)", "seen.append(x == 1 and 5)",
    "if not x > 0: seen.append(1)", "if x > 0: seen.append(1)", "while x > 0: x = x - 1", "seen.append(not x > 0)",
])
def test_handlers_take_what_asking_for_the_truth_raises(test):
    function = _truth_of(test)
    compiled = fs.compile(function)
    for x in torch.ones(3), torch.ones(1), torch.ones(0):
        other = x.clone()
        assert str(compiled(x, [])) == str(function(other, [])) and torch.equal(x, other)
