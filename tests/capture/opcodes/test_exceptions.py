"""Exceptions in compiled code: raised, caught, chained, and raised by operations of a graph."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import pytest
import torch

import firesteel as fs
from capture.forced_breaks import compiled_run, observe


def same(function: Any) -> None:
    compiled_run(function, observe(function, function))


def test_caught_without_a_break() -> None:
    def f(x, log):
        try:
            log.append("try")
            raise KeyError("k")
        except KeyError as error:
            log.append(error.args)
            y = x + 1
        finally:
            log.append("finally")
        return y * 2

    same(f)
    assert fs.explain(f)(torch.ones(3), []).graph_break_count == 0


def test_traceback_of_an_exception_that_was_caught_while_capturing() -> None:
    def g(x):
        raise ValueError("in g")

    def f(x, log):
        try:
            g(x + 1)
        except ValueError as error:
            tb = error.__traceback__
            log.append([(s.name, s.lineno) for s in traceback.extract_tb(tb)])
            log.append("in g" in traceback.format_exc())
        return x

    same(f)


def test_handled_exception_is_seen_by_callees_after_a_break() -> None:
    def look(log):
        fs.graph_break()
        log.append(type(sys.exc_info()[1]))

    def f(x, log):
        look(log)
        try:
            raise KeyError(1)
        except KeyError:
            look(log)
            try:
                raise ValueError(2)
            except ValueError:
                look(log)
            look(log)
        look(log)
        return x + 1

    same(f)


def test_exc_info_depends_on_the_caller() -> None:
    def f(x):
        return x + 1, sys.exc_info()[0], sys.exception()

    compiled = fs.compile(f, backend="eager")
    assert compiled(torch.ones(1))[1:] == (None, None)
    error = KeyError()
    try:
        raise error
    except KeyError:
        assert compiled(torch.ones(1))[1:] == (KeyError, error)
    assert compiled(torch.ones(1))[1:] == (None, None)


def test_context_from_a_caller_that_handles_an_exception() -> None:
    def f(x, broken):
        y = x + 1
        try:
            raise ValueError("inner")
        except ValueError as error:
            if broken:
                fs.graph_break()
            raise TypeError("outer", y.shape[0]) from error

    compiled = fs.compile(f, backend="eager")
    for broken in (False, True, False):
        chains = []
        for function in (f, compiled):
            try:
                raise KeyError("caller")
            except KeyError:
                try:
                    function(torch.ones(1), broken)
                except TypeError as error:
                    chain: list[Any] = []
                    current: BaseException | None = error
                    while current is not None:
                        chain.append((type(current), type(current.__cause__), current.__suppress_context__))
                        current = current.__context__
                    chains.append(chain)
        assert chains[0] == chains[1] and len(chains[0]) == 3


@pytest.mark.parametrize("place", ["plain", "try", "with", "loop"])
def test_operation_that_fails_in_the_graph(place: str) -> None:
    def lookup(table, index):
        return torch.nn.functional.embedding(index, table)

    def f(x, log):
        table, index = torch.ones(2, 2), torch.full((1,), 5) + x.shape[0]
        log.append("before")
        if place == "plain":
            y = lookup(table, index)
            log.append("never")
            return y
        if place == "try":
            try:
                return lookup(table, index)
            except IndexError as error:
                log.append(type(error))
                return x * 2
        if place == "with":
            with torch.no_grad():
                return lookup(table, index)
        for i in range(3):
            log.append(i)
            y = lookup(table, index - 9 + i)
        return y

    same(f)


def test_failing_graph_does_not_change_its_inputs_twice() -> None:
    def f(x, log):
        x.add_(1)
        log.append("added")
        return torch.nn.functional.embedding(torch.full((1,), 7) * 1, torch.ones(2, 2))

    compiled = fs.compile(f, backend="eager")
    x = torch.zeros(2)
    with pytest.raises(IndexError):
        compiled(x, [])
    assert x.tolist() == [1, 1]


def test_grad_mode_after_an_exception_in_a_graph() -> None:
    def f(x, index):
        with torch.no_grad():
            return torch.nn.functional.embedding(index, x)

    compiled = fs.compile(f, backend="eager")
    compiled(torch.ones(2, 2), torch.tensor([1]))
    with pytest.raises(IndexError):
        compiled(torch.ones(2, 2), torch.tensor([3]))
    assert torch.is_grad_enabled()


def test_numbers_that_become_inputs_still_decide_branches() -> None:
    def f(x, n):
        out = [x * n]
        if n:
            out.append(1)
        if n % 2:
            out.append(2)
        out.append(not n)
        return out

    compiled = fs.compile(f, backend="eager")
    with fs.config.patch(recompile_limit=32):
        for n in (1, 2, 0, 3, 4, -1, -2, 0, 7):
            assert str(compiled(torch.ones(1), n)) == str(f(torch.ones(1), n))


def test_exception_groups() -> None:
    def f(x, log):
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* ValueError as group:
            log.append(len(group.exceptions))
        except* KeyError:
            log.append("key")
        return x + 1

    same(f)


def test_raising_what_is_no_exception() -> None:
    def f(x, log):
        try:
            raise 5  # type: ignore[misc]
        except TypeError as error:
            log.append(str(error))
        try:
            raise ValueError from 3  # type: ignore[misc]
        except TypeError as error:
            log.append(str(error))
        return x + 1

    same(f)


def test_bare_raise_with_nothing_to_raise() -> None:
    def f(x, log):
        y = x + 1
        try:
            raise  # noqa: PLE0704
        except RuntimeError as error:
            log.append(str(error))
        return y

    same(f)


@pytest.mark.parametrize("owner", [torch.ones(1), torch.nn.Linear(1, 1), print, dict, 3, "s", [1], torch])
def test_errors_about_attributes_say_which_and_where(owner: Any) -> None:
    def program(obj: Any, x: torch.Tensor) -> Any:
        try:
            obj.nope  # noqa: B018
        except AttributeError as error:
            return error.name, error.obj is obj, str(error), (x + 1).tolist()

    x = torch.ones(2)
    assert fs.compile(program, backend="eager")(owner, x) == program(owner, x)
