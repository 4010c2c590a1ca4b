"""What a program deletes behind a break goes away at once: nothing of firesteel holds it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

import firesteel as fs

pytestmark = pytest.mark.usefixtures("quick_collections")


class Thing:
    def __init__(self, name: str = "") -> None:
        self.name = name


def tensor_of_the_function(x: torch.Tensor) -> Any:
    y = x * 2
    reference = weakref.ref(y)
    fs.graph_break()
    del y
    return reference() is None, x + 1


def tensor_deleted_before_a_break(x: torch.Tensor) -> Any:
    y = x * 2
    reference = weakref.ref(y)
    del y
    fs.graph_break()
    return reference() is None, x + 1


def rebound_in_a_loop(x: torch.Tensor) -> Any:
    thing: Thing | None = Thing()
    reference = weakref.ref(thing)  # type: ignore[arg-type]
    alive = []
    for step in range(3):
        fs.graph_break()
        if step == 1:
            thing = None
        alive.append(reference() is thing and thing is not None)
    return alive, x + 1


def in_a_list(x: torch.Tensor) -> Any:
    items = [x + 1]
    reference = weakref.ref(items[0])
    fs.graph_break()
    items.clear()
    fs.graph_break()
    return reference() is None


def in_a_cycle(x: torch.Tensor) -> Any:
    thing: Any = Thing()
    thing.own = thing
    reference = weakref.ref(thing)
    fs.graph_break()
    del thing
    gc.collect()
    return reference() is None, x + 1


def with_a_finalizer(x: torch.Tensor) -> Any:
    thing, log = Thing(), []  # type: ignore[var-annotated]
    weakref.finalize(thing, log.append, "gone")
    fs.graph_break()
    del thing
    log.append("after")
    return log, x + 1


def still_held(x: torch.Tensor) -> Any:
    thing = Thing()
    other = thing
    reference = weakref.ref(thing)
    fs.graph_break()
    del thing
    return reference() is other, x + 1


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("function", [
    tensor_of_the_function, tensor_deleted_before_a_break, rebound_in_a_loop, in_a_list, in_a_cycle, with_a_finalizer,
    still_held,
], ids=lambda function: function.__name__ if callable(function) else None)
def test_same_as_plain(function: Any, backend: str) -> None:
    expected = repr(function(torch.ones(3)))
    compiled = fs.compile(function, backend=backend)
    for _ in range(3):
        assert repr(compiled(torch.ones(3))) == expected


def test_an_argument_that_only_the_call_holds() -> None:
    def function(thing: Thing, x: torch.Tensor) -> Any:
        reference = weakref.ref(thing)
        fs.graph_break()
        del thing
        return reference() is None, x + 1

    compiled = fs.compile(function, backend="eager")
    for target in (function, compiled, compiled):
        assert target(Thing(), torch.ones(2))[0]


def test_deleted_while_the_rest_runs_uncompiled() -> None:
    def function(x: torch.Tensor) -> Any:
        y = x * 2
        reference = weakref.ref(y)
        fs.graph_break()
        del y
        seen = locals()
        return reference() is None, "y" in seen, x + 1

    compiled = fs.compile(function, backend="eager")
    for target in (function, compiled, compiled):
        assert target(torch.ones(2))[:2] == (True, False)
