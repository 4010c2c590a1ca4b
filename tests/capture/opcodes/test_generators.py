"""Generators in compiled code: inlined while they are consumed, real ones where they leave the graph."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

import firesteel as fs
from capture.forced_breaks import compiled_run, observe


def same(function: Any, breaks: int | None = None) -> None:
    compiled_run(function, observe(function, function))
    if breaks is not None:
        assert fs.explain(function)(torch.tensor([1.0, -2.0, 3.0]), []).graph_break_count == breaks


def counting(x, log):
    log.append("start")
    received = []
    try:
        for i in range(3):
            received.append((yield x + i))
    finally:
        log.append(("end", received))
    return len(received)


def test_consumed_in_the_frame() -> None:
    def f(x, log):
        return sum(counting(x, log)), [t * 2 for t in counting(x, log)], tuple(counting(x, log))

    same(f, breaks=0)


def test_send_throw_close() -> None:
    def f(x, log):
        g = counting(x, log)
        first = next(g)
        second = g.send("a")
        g.close()
        h = counting(x, log)
        next(h)
        try:
            h.throw(KeyError("b"))
        except KeyError as error:
            log.append(error.args)
        return first, second

    same(f, breaks=0)


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_returned_in_the_middle(steps: int) -> None:
    def f(x):
        g = (x + i for i in range(3))
        for _ in range(steps):
            next(g)
        return g

    compiled = fs.compile(f, backend="eager")
    for _ in range(2):
        made = compiled(torch.ones(2))
        assert inspect.isgenerator(made)
        assert [t.tolist() for t in made] == [t.tolist() for t in f(torch.ones(2))]


def test_returned_generator_takes_sent_values_and_exceptions() -> None:
    def talk(x, log):
        while True:
            try:
                got = yield x
                log.append(got)
            except ValueError as error:
                log.append(error.args)

    def f(x, log):
        g = talk(x, log)
        next(g)
        g.send(1)
        return g

    for function in (f, fs.compile(f, backend="eager")):
        log: list[Any] = []
        g = function(torch.ones(1), log)
        g.send(2)
        g.throw(ValueError(3))
        g.close()
        assert log == [1, 2, (3,)]


def test_break_inside_a_generator() -> None:
    def values(x, log):
        for i in range(3):
            y = x * i
            log.append(y.sum().item())
            yield y + 1

    def f(x, log):
        out = []
        for value in values(x, log):
            out.append(value.cos())
            log.append("used")
        return out

    same(f)


def test_break_while_generators_are_suspended() -> None:
    def f(x, log):
        a, b = counting(x, log), counting(x * 2, log)
        out = [next(a), next(b)]
        for left, right in zip(a, b, strict=True):
            fs.graph_break()
            out.append(left + right)
        return out

    same(f)


def test_generator_expression_over_a_closure_that_changes() -> None:
    def f(x, log):
        factor = 1
        g = (t * factor for t in (x, x + 1, x + 2))
        out = [next(g)]
        factor = 10
        fs.graph_break()
        out.append(next(g))
        factor = 100
        return out, list(g)

    same(f)


def test_yield_from_and_its_value() -> None:
    def outer(x, log):
        n = yield from counting(x, log)
        log.append(n)
        return (yield n)

    def f(x, log):
        g = outer(x, log)
        out = [next(g), g.send("a"), g.send("b"), g.send("c")]
        fs.graph_break()
        try:
            g.send("last")
        except StopIteration as stop:
            out.append(stop.value)
        return out

    same(f)


def test_stop_iteration_inside_becomes_runtime_error() -> None:
    def broken(x):
        yield x
        next(iter(()))

    def f(x, log):
        try:
            return list(broken(x))
        except RuntimeError as error:
            log.append((error.args, error.__cause__, error.__suppress_context__))
        return x + 1

    same(f)


def test_generator_already_running() -> None:
    def f(x, log):
        def again():
            try:
                next(g)
            except ValueError as error:
                log.append(str(error))
            yield x + 1

        g = again()
        return list(g)

    same(f)


def test_compiled_consumer_of_a_generator_from_outside() -> None:
    def f(x, source):
        total = x
        for item in source:
            total = total * 2 + item
        return total, next(source, "empty")

    compiled = fs.compile(f, backend="eager")
    for n in (3, 3, 50):
        make = lambda n=n: (torch.ones(1) * i for i in range(n))  # noqa: E731
        assert str(compiled(torch.ones(1), make())) == str(f(torch.ones(1), make()))
    unit = compiled._firesteel_unit
    assert sum(len(part.entries) for part in (unit, *unit.continuations.values())) < 8
