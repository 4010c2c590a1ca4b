"""Breaks in callees of every form: all operators run in graphs, as they would if the callee stood in its caller."""

from __future__ import annotations

import collections
import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.fuzz.callees import FORMS, Form
from tests.fuzz.harness import check
from tests.fuzz.parts.nested_breaks import alone

import firesteel as fs

PLAIN = {
    "lru_cache": "the cache is written in C, and only it can put results into itself",
}


@pytest.mark.parametrize("form", [form for form in FORMS if form.name not in PLAIN], ids=lambda form: form.name)
def test_operators_around_a_break_in_a_callee_are_in_graphs(form: Form) -> None:
    report = check(alone(form, "marked"))
    assert not report.differences
    assert report.inside == report.total


def both(function: Callable[..., Any], *args: Any) -> Any:
    """What a function returns or raises, plain and compiled: the same."""
    def outcome(call: Callable[..., Any]) -> Any:
        try:
            return call(*args)
        except Exception as error:
            return type(error), str(error)

    expected = outcome(function)
    with fs.config.patch(raise_on_internal_error=True):
        actual = outcome(fs.compile(function, backend="eager"))
    torch.testing.assert_close(actual, expected) if isinstance(expected, torch.Tensor) else None
    if not isinstance(expected, torch.Tensor):
        assert actual == expected
    return expected


X = torch.ones(2)


class Left:
    def __add__(self, other: Any) -> Any:
        fs.graph_break()
        return NotImplemented

    def __lt__(self, other: Any) -> Any:
        fs.graph_break()
        return NotImplemented

    def __eq__(self, other: object) -> Any:
        fs.graph_break()
        return NotImplemented

    def __iadd__(self, other: Any) -> Any:
        fs.graph_break()
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]


class Right:
    def __radd__(self, other: Any) -> Any:
        fs.graph_break()
        return "right"

    def __gt__(self, other: Any) -> Any:
        fs.graph_break()
        return "greater"


class Derived(Left):
    def __radd__(self, other: Any) -> Any:
        fs.graph_break()
        return "derived"


def test_operands_are_asked_in_pythons_order() -> None:
    assert both(lambda: Left() + Right()) == "right"
    assert both(lambda: Left() + Derived()) == "derived"
    assert both(lambda: 1 + Right()) == "right"
    assert both(lambda: [1] + Right()) == "right"  # type: ignore[operator]
    assert both(lambda: X + Right()) == "right"  # type: ignore[operator]
    assert both(lambda: Left() < Right()) == "greater"
    assert both(lambda: Left() == 1) is False
    assert both(lambda: Left() != 1) is True
    box = Left()
    assert both(lambda: box == box) is True


@pytest.mark.parametrize("operation", [
    lambda: Left() + 1, lambda: Left() + Left(), lambda: Left() < 1, lambda: operator.iadd(Left(), 1),
    lambda: Derived() + Left(),
])  # fmt: skip
def test_what_operands_refuse_raises_pythons_error(operation: Callable[[], Any]) -> None:
    kind, message = both(operation)
    assert kind is TypeError and "Left" in message


class Wrong:
    def __bool__(self) -> Any:
        fs.graph_break()
        return 1

    def __len__(self) -> Any:
        fs.graph_break()
        return -1

    def __str__(self) -> Any:
        fs.graph_break()
        return 5

    def __iter__(self) -> Any:
        fs.graph_break()
        return 5

    def __init__(self, value: Any = None) -> Any:
        if value is not None:
            fs.graph_break()
            return value

    def __format__(self, spec: str) -> Any:
        fs.graph_break()
        return 5

    def __float__(self) -> Any:
        fs.graph_break()
        return "x"


@pytest.mark.parametrize("operation", [
    lambda: not Wrong(), lambda: 1 if Wrong() else 2, lambda: bool(Wrong()), lambda: len(Wrong()), lambda: str(Wrong()),
    lambda: list(Wrong()), lambda: [x for x in Wrong()], lambda: Wrong(3), lambda: f"{Wrong()}", lambda: float(Wrong()),
    lambda: f"{Wrong()!s}",
])  # fmt: skip
def test_results_of_special_methods_are_checked(operation: Callable[[], Any]) -> None:
    assert both(operation)[0] in (TypeError, ValueError)


class Lazy:
    def __init__(self) -> None:
        self.reads: list[str] = []

    @property
    def broken(self) -> Any:
        fs.graph_break()
        raise AttributeError("broken inside")

    @functools.cached_property
    def once(self) -> int:
        fs.graph_break()
        self.reads.append("once")
        return len(self.reads)

    def __getattr__(self, name: str) -> Any:
        fs.graph_break()
        if name == "absent":
            raise AttributeError(name)
        return f"{name} of {len(self.__dict__['reads'])}"


def test_attributes_are_looked_up_as_python_does() -> None:
    assert both(lambda: Lazy().broken) == "broken of 0"
    assert both(lambda: Lazy().other) == "other of 0"
    assert both(lambda: getattr(Lazy(), "absent", 7)) == 7
    assert both(lambda: Lazy().absent) == (AttributeError, "absent")

    def twice() -> Any:
        lazy = Lazy()
        return lazy.once, lazy.once, lazy.reads

    assert both(twice) == (1, 1, ["once"])


def steps(x: torch.Tensor, log: list[str]) -> Iterator[Any]:
    try:
        sent = yield x * 2
        fs.graph_break()
        log.append(f"sent {sent}")
        try:
            yield x + 1
        except KeyError as error:
            fs.graph_break()
            log.append(f"caught {error}")
            yield x + 3
    finally:
        fs.graph_break()
        log.append("end")


def delegating(x: torch.Tensor, log: list[str]) -> Iterator[Any]:
    result = yield from steps(x, log)
    fs.graph_break()
    log.append(f"delegate gave {result}")
    yield x - 1


@pytest.mark.parametrize("generator", [steps, delegating])
def test_generators_are_sent_to_thrown_into_and_closed(generator: Callable[..., Any]) -> None:
    def driven(x: torch.Tensor) -> tuple[Any, ...]:
        log: list[str] = []
        running = generator(x, log)
        first = next(running)
        fs.graph_break()
        second = running.send(5)
        third = running.throw(KeyError("k"))
        rest = [float(item.sum()) for item in running]
        return float((first + second + third).sum()), rest, log

    def closed(x: torch.Tensor) -> list[str]:
        log: list[str] = []
        running = generator(x, log)
        next(running)
        fs.graph_break()
        running.close()
        return [*log, *map(str, running)]

    def thrown(x: torch.Tensor) -> Any:
        log: list[str] = []
        running = generator(x, log)
        next(running)
        fs.graph_break()
        try:
            running.throw(ValueError("v"))
        except ValueError as error:
            return log, str(error)

    for function in (driven, closed, thrown):
        both(function, X)


def test_generators_that_raise_stop_iteration() -> None:
    def wrong(x: torch.Tensor) -> Iterator[Any]:
        yield x
        fs.graph_break()
        raise StopIteration

    assert both(lambda x: list(wrong(x)), X) == (RuntimeError, "generator raised StopIteration")


def test_a_generator_has_its_name_and_gives_out_what_it_returns() -> None:
    def named(x: torch.Tensor) -> Any:
        fs.graph_break()
        yield x
        return 5

    def consuming(x: torch.Tensor) -> Any:
        running = named(x)
        next(running)
        fs.graph_break()
        try:
            next(running)
        except StopIteration as stop:
            return stop.value, running.__name__
        return None

    assert both(consuming, X) == (5, "named")


def test_consumers_step_through_what_is_compiled() -> None:
    class Countdown:
        def __init__(self, left: int) -> None:
            self.left = left

        def __iter__(self) -> Any:
            return self

        def __len__(self) -> int:
            return self.left

        def __next__(self) -> Any:
            fs.graph_break()
            if not self.left:
                raise StopIteration
            self.left -= 1
            return self.left

    for consume in (list, tuple, sorted, set, sum, max, any, all,
                    lambda items: list(enumerate(items)), lambda items: list(zip(items, [1, 2, 3], strict=False)),
                    lambda items: next(items), lambda items: list(itertools.accumulate(items)),
                    lambda items: collections.Counter(items)[1]):  # fmt: skip
        both(lambda consume=consume: consume(Countdown(3)))
    assert both(lambda: sum(Countdown(0), [])) == []
    assert both(lambda: sum(Countdown(2), "x"))[0] is TypeError


def test_an_exception_all_of_whose_frames_are_firesteels_is_caught() -> None:
    def caught(items: list[int]) -> list[int]:
        iterator = iter(items)
        taken = []
        while True:
            try:
                taken.append(functools.reduce(lambda a, b: a, [next(iterator)]))
                fs.graph_break()
            except StopIteration:
                return taken

    assert both(caught, [1, 2]) == [1, 2]


def test_forward_of_a_function_that_is_differentiated_breaks() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            fs.graph_break()
            ctx.save_for_backward(y)
            return y + 1

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            (y,) = ctx.saved_tensors
            return grad * y

    def run(x: torch.Tensor) -> torch.Tensor:
        return Doubled.apply(x).sum()  # type: ignore[no-any-return]

    gradients = []
    for function in (run, fs.compile(run, backend="eager")):
        x = torch.ones(3, requires_grad=True)
        result = function(x)
        assert result.grad_fn is not None
        result.backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)
