"""Locks, thread locals, context variables and warnings in captured programs."""

from __future__ import annotations

import contextvars
import threading
import warnings
from typing import Any

import pytest
import torch

import firesteel as fs
from capture.differential import check

LOCK = threading.Lock()
LOCAL = threading.local()
VARIABLE: contextvars.ContextVar[Any] = contextvars.ContextVar("VARIABLE")
DEFAULTED: contextvars.ContextVar[Any] = contextvars.ContextVar("DEFAULTED", default=1.5)


def test_lock_is_held_while_effects_are_applied() -> None:
    def f(x, log):
        with LOCK:
            log.append(x.shape[0])
            y = x + 1
        return y, LOCK.locked()

    log: list[Any] = []
    compiled = fs.compile(f, backend="eager", fullgraph=True)
    compiled(torch.ones(2), log)
    assert compiled(torch.ones(2), log)[1] is False
    assert log == [2, 2]
    assert not LOCK.locked()


def test_lock_that_an_exception_leaves() -> None:
    def f(x):
        with LOCK:
            raise KeyError("k")

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        with pytest.raises(KeyError):
            compiled(torch.ones(2))
        assert not LOCK.locked()


def test_lock_made_inside_and_returned() -> None:
    def f(x):
        lock, again = threading.Lock(), threading.RLock()
        lock.acquire()
        with again:
            return x, lock, again

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        _, lock, again = compiled(torch.ones(2))
        assert lock.locked() and type(again) is type(threading.RLock())


def test_thread_local() -> None:
    def f(x):
        LOCAL.count = getattr(LOCAL, "count", 0) + 1
        return x * LOCAL.count

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    results = [compiled(torch.ones(1)).item() for _ in range(3)]
    other: list[float] = []
    thread = threading.Thread(target=lambda: other.append(compiled(torch.ones(1)).item()))
    thread.start()
    thread.join()
    assert (results, other, LOCAL.count) == ([1.0, 2.0, 3.0], [1.0], 3)
    del LOCAL.count


def test_context_variables() -> None:
    def f(x):
        token = DEFAULTED.set(3)
        y = x * DEFAULTED.get() * VARIABLE.get(2)
        DEFAULTED.reset(token)
        VARIABLE.set(5)
        return y, DEFAULTED.get()

    compiled = fs.compile(f, backend="eager", fullgraph=True)

    def calls(function: Any) -> list[Any]:
        def run() -> list[Any]:
            return [function(torch.ones(1)), VARIABLE.get(), function(torch.ones(1))]

        return contextvars.Context().run(run)

    assert str(calls(compiled)) == str(calls(f)) == str(calls(compiled))


def test_warnings_are_issued_at_their_lines() -> None:
    def inner(x, level):
        warnings.warn(f"of {x.shape[0]}", DeprecationWarning, stacklevel=level)
        return x + 1

    def f(x, level):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("not this one")
        return inner(x, level)

    def issued(function: Any) -> list[Any]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for level in (1, 2, 3):
                for _ in range(2):
                    function(torch.ones(2), level)
        return [(str(one.message), one.category, one.filename, one.lineno) for one in caught]

    plain = issued(f)
    assert len(plain) == 6
    assert issued(fs.compile(f, backend="eager", fullgraph=True)) == plain


def test_warnings_that_are_errors() -> None:
    def f(x):
        try:
            warnings.warn("now an error")
        except UserWarning:
            return x + 1
        return x

    compiled = fs.compile(f, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert compiled(torch.zeros(1)).item() == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(torch.zeros(1)).item() == 1


def test_attributes_of_new_tensors() -> None:
    def f(x):
        y = x + 1
        y.tag = [1]
        z = y * 2
        z.tag = y.tag
        return y, y.tag, hasattr(x, "tag"), hasattr(z.view(-1), "tag"), z

    compiled = check(f)
    y, tag, _, _, z = compiled(torch.ones(2, 3))
    assert y.tag is tag is z.tag
