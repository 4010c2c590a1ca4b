"""Compiled entries keep nothing of the user's alive, and go away with the classes they depend on."""

from __future__ import annotations

import enum
import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import firesteel as fs

pytestmark = pytest.mark.usefixtures("quick_collections")

X = torch.arange(4.0)


class Plain:
    def __init__(self, value: Any = 1) -> None:
        self.value = value
        self.items = [torch.ones(3), {"a": 2}]

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.value + self.items[0].sum() + self.items[1]["a"]


class Items(list):  # type: ignore[type-arg]
    """A list that can be referred to weakly."""


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.LayerNorm(4)
        self.register_buffer("shift", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x)) + self.shift


def make_function() -> Any:
    table = Items([1.0, 2.0])

    def inner(x: torch.Tensor) -> torch.Tensor:
        return x * table[0]

    return inner


def make_instance_of_local_class() -> Any:
    class Local:
        scale = 3

        def scaled(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

    return Local()


def make_local_module() -> Any:
    class Local(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().__call__(x) if False else x * self.weight

    return Local()


def use(x: torch.Tensor, thing: Any) -> Any:
    if isinstance(thing, torch.Tensor):
        return x + thing
    if isinstance(thing, torch.nn.Module):
        return thing(x)
    if isinstance(thing, list):
        return x + len(thing) + thing[0]
    if hasattr(thing, "scaled"):
        return thing.scaled(x)
    return thing(x)


def use_with_break(x: torch.Tensor, thing: Any) -> Any:
    y = use(x, thing)
    fs.graph_break()
    return y + use(x, thing)


def use_in_place(x: torch.Tensor, thing: Any) -> Any:
    y = use(x, thing)
    if isinstance(thing, list):
        thing.append(5)
    elif isinstance(thing, torch.Tensor):
        thing.detach().add_(1)
    elif not isinstance(thing, torch.nn.Module) and hasattr(thing, "__dict__"):
        thing.seen = True
    return y


MAKERS: dict[str, Callable[[], Any]] = {
    "tensor": lambda: torch.ones(4),
    "leaf": lambda: torch.ones(4, requires_grad=True),
    "view": lambda: torch.ones(8)[:4],
    "instance": Plain,
    "list": lambda: Items([1.0, 2]),
    "module": Net,
    "function with a closure": make_function,
    "instance of a local class": make_instance_of_local_class,
    "module of a local class": make_local_module,
}


@pytest.mark.parametrize("function", [use, use_with_break, use_in_place], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", MAKERS)
def test_arguments_are_released(kind: str, function: Callable[..., Any]) -> None:
    compiled = fs.compile(function, backend="eager")
    thing = MAKERS[kind]()
    compiled(X, thing)
    compiled(X, thing)
    references = [weakref.ref(thing)]
    if isinstance(thing, torch.nn.Module):
        references.extend(weakref.ref(parameter) for parameter in thing.parameters())
    if "local class" in kind:
        references.append(weakref.ref(type(thing)))
    del thing
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)


def test_results_and_intermediates_are_released() -> None:
    @fs.compile(backend="eager")
    def f(x: torch.Tensor) -> Any:
        y = x + 1
        fs.graph_break()
        return [y, Plain(y * 2)]

    result = f(X)
    references = [weakref.ref(result[0]), weakref.ref(result[1])]
    del result
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_entries_go_with_the_class_they_are_for() -> None:
    compiled = fs.compile(use, backend="eager")
    unit = compiled._firesteel_unit
    kept = Plain()
    compiled(X, kept)
    for _ in range(20):  # far beyond the limit of 8
        compiled(X, make_instance_of_local_class())
        gc.collect()
    assert unit.given_up is None
    assert len(unit.entries) == len(unit.functions) == 1
    compiled(X, kept)
    assert len(unit.entries) == 1


def test_members_of_a_local_enum() -> None:
    def make() -> Any:
        class Mode(enum.Enum):
            A = 1
            B = 2

        return Mode.A

    @fs.compile(backend="eager")
    def f(x: torch.Tensor, mode: Any) -> Any:
        return x + mode.value, mode

    mode = make()
    assert f(X, mode)[1] is mode
    reference = weakref.ref(type(mode))
    del mode
    gc.collect()
    assert reference() is None
    assert not f._firesteel_unit.entries


def test_class_made_inside() -> None:
    def f(x: torch.Tensor) -> Any:
        class Inner:
            def value(self) -> int:
                return 2

        return x * Inner().value(), Inner

    compiled = fs.compile(f, backend="eager")
    for _ in range(3):
        result, cls = compiled(X)
        assert torch.equal(result, X * 2)
        reference = weakref.ref(cls)
        del cls
        gc.collect()
        assert reference() is None


def test_compiled_function_and_its_closure_are_released() -> None:
    big = torch.ones(10)

    def make() -> Any:
        weight = big.clone()

        @fs.compile(backend="eager")
        def f(x: torch.Tensor) -> torch.Tensor:
            return x * weight.sum()

        f(X)
        return f, weakref.ref(weight)

    compiled, reference = make()
    assert reference() is not None
    del compiled
    gc.collect()
    assert reference() is None


def test_compiled_module_is_released() -> None:
    net = Net()
    compiled = fs.compile(net, backend="eager")
    compiled(X)
    references = [weakref.ref(net), weakref.ref(compiled), weakref.ref(net.linear.weight)]
    del net, compiled
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]


def test_exceptions_do_not_keep_arguments() -> None:
    @fs.compile(backend="eager")
    def f(x: torch.Tensor, thing: Any) -> Any:
        y = x + 1
        try:
            raise ValueError(thing)
        except ValueError:
            pass
        fs.graph_break()
        return y.reshape(17)

    thing = Plain()
    reference = weakref.ref(thing)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            f(X, thing)
    del thing
    gc.collect()
    assert reference() is None


def test_graph_and_explanation_keep_no_real_tensor() -> None:
    captured: list[Any] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        captured.append((gm, inputs))
        return gm.forward

    net = Net()
    compiled = fs.compile(use, backend=backend)
    compiled(X, net)
    reference = weakref.ref(net.linear.weight)
    del net
    gc.collect()
    assert captured
    assert reference() is None


def test_a_frame_that_was_asked_for_keeps_nothing_alive() -> None:
    ended = []

    class Noticed:
        def __del__(self):
            ended.append(True)

    def function(x):
        thing = Noticed()
        line = sys._getframe(0).f_lineno
        return x * 2, line, thing is None

    compiled = fs.compile(function, backend="eager")
    gc.disable()
    try:
        compiled(torch.ones(2))
    finally:
        gc.enable()
    assert ended
