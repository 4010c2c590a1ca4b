"""with statements in compiled code: user context managers, contextlib, and PyTorch's modes, with and without breaks."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

import firesteel as fs
from capture.break_programs import CM, managed
from capture.forced_breaks import compiled_run, observe


def same(function: Any, breaks: int | None = None) -> None:
    compiled_run(function, observe(function, function))
    if breaks is not None:
        assert fs.explain(function)(torch.tensor([1.0, -2.0, 3.0]), []).graph_break_count == breaks


@pytest.mark.parametrize("fails", [False, True])
def test_user_managers_without_a_break(fails: bool) -> None:
    def f(x, log):
        y = x
        with CM(log, "a", swallow=True), managed(log, "b"):
            y = y + 1
            if fails:
                raise ValueError("inside")
            log.append("end")
        return y * 2

    same(f, breaks=0)


def test_break_in_enter_and_exit() -> None:
    class Breaking:
        def __init__(self, log):
            self.log = log

        def __enter__(self):
            self.log.append("enter")
            fs.graph_break()
            return 5

        def __exit__(self, *exc):
            fs.graph_break()
            self.log.append(exc[0])

    def f(x, log):
        with Breaking(log) as five:
            y = x + five
        try:
            with Breaking(log):
                y = y * 2
                raise KeyError("k")
        except KeyError:
            y = y + 1
        return y

    same(f)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode,
                                  lambda: torch.set_grad_enabled(False), lambda: torch.autocast("cpu", torch.bfloat16)])
@pytest.mark.parametrize("way", ["falls through", "returns", "raises", "caught"])
def test_modes_around_a_break(mode: Any, way: str) -> None:
    def f(x, log):
        w = torch.ones(3, 3, requires_grad=True)
        try:
            with mode():
                a = w @ w
                log.append(modes())
                fs.graph_break()
                log.append(modes())
                b = a.detach() @ torch.ones(3, 3)
                log.append((a.requires_grad, str(a.dtype), str(b.dtype)))
                if way == "returns":
                    return b.float().sum().tolist()
                if way in ("raises", "caught"):
                    raise ValueError(way)
        except ValueError:
            if way == "raises":
                raise
        c = w @ w
        log.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), c.requires_grad, str(c.dtype)))
        return c.tolist()

    same(f)
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


def test_break_in_a_callee_inside_a_mode() -> None:
    def callee(w, log):
        y = w * 2
        fs.graph_break()
        log.append((y.requires_grad, (w * 3).requires_grad))
        return y

    def f(x, log):
        w = torch.ones(3, requires_grad=True)
        with torch.no_grad():
            a = callee(w, log)
        b = callee(w, log)
        return a, b

    same(f)


def test_contextlib_managers_around_breaks() -> None:
    def f(x, log):
        y = x
        with contextlib.ExitStack() as stack:
            for i in range(2):
                stack.enter_context(CM(log, i))
            fs.graph_break()
            stack.callback(log.append, "callback")
            y = y + 1
        with contextlib.suppress(KeyError), contextlib.nullcontext(3) as three:
            y = y * three
            fs.graph_break()
            {}["missing"]
        with contextlib.closing(CountedClose(log)) as counted:
            fs.graph_break()
            y = y + counted.number
        return y

    same(f)


def modes():
    return torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled()


class CountedClose:
    number = 4

    def __init__(self, log):
        self.log = log

    def close(self):
        self.log.append("closed")


def test_contextmanager_function_as_a_decorator() -> None:
    def f(x, log):
        @managed(log, "decorated")
        def inner(t):
            log.append("inner")
            return t * 2

        a = inner(x)
        fs.graph_break()
        return a + inner(x)

    same(f)


def test_not_a_context_manager() -> None:
    def f(x, log):
        try:
            with x.shape:
                log.append("never")
        except TypeError as error:
            log.append(str(error))
        return x + 1

    same(f)


def test_manager_that_suppresses_depending_on_data() -> None:
    class Suppress:
        def __init__(self, x):
            self.x = x

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            return bool(self.x.sum() > 0)

    def f(x, log, sign):
        with Suppress(x * sign):
            log.append("in")
            raise ValueError(sign)
        log.append("suppressed")
        return x + 1

    for sign in (1, -1):
        def program(x, log, sign=sign):
            return f(x, log, sign)

        same(program)
