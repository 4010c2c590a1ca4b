"""Protocols of Python objects: descriptors, `yield from`, function attributes, buffers, replaced builtins."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import firesteel as fs
from capture.differential import check, x


class WithBuffers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.marked = nn.Buffer(torch.ones(3))
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("plain", torch.ones(3))


def test_a_buffer_is_known_by_its_mark() -> None:
    module = WithBuffers()
    check(lambda x: (
        isinstance(module.marked, nn.Buffer), isinstance(module.weight, nn.Buffer), isinstance(module.plain, nn.Buffer),
        isinstance(x, nn.Buffer), isinstance(module.marked, nn.Parameter), x + 1))

    def made_inside(x: torch.Tensor) -> Any:
        buffer = nn.Buffer(x + 1)
        return isinstance(buffer, nn.Buffer), buffer.persistent, x * 2

    check(made_inside, fullgraph=False)


class Counted:
    """A property over the instance's dictionary whose setter is not idempotent."""

    def __init__(self) -> None:
        self.__dict__["value"] = 1

    @property
    def value(self) -> Any:
        return self.__dict__["value"]

    @value.setter
    def value(self, new: Any) -> None:
        self.__dict__["value"] = new * 2


class OnlySet:
    def __set__(self, obj: Any, value: Any) -> None:
        obj.__dict__["doubled"] = value * 2

    def __delete__(self, obj: Any) -> None:
        del obj.__dict__["doubled"]


class Doubling:
    doubled: Any = OnlySet()


def test_descriptors_that_store_in_the_instance() -> None:
    def through_property(x: torch.Tensor, obj: Counted) -> Any:
        before = obj.value
        obj.value = 5
        return before, obj.value, dict(vars(obj)), x + 1

    check(through_property, lambda: (x(), Counted()))

    def only_set(x: torch.Tensor, obj: Doubling) -> Any:
        unset = obj.doubled is Doubling.__dict__["doubled"]
        obj.doubled = 4
        return unset, obj.doubled, dict(vars(obj)), x + 1

    check(only_set, lambda: (x(), Doubling()))
    check(lambda x: (only_set(x, Doubling()), through_property(x, Counted())))

    def deleted(x: torch.Tensor, obj: Doubling) -> Any:
        obj.doubled = 4
        del obj.doubled
        return dict(vars(obj)), x + 1

    check(deleted, lambda: (x(), Doubling()))


def test_a_constant_result_may_be_a_tensor() -> None:
    calls: list[int] = []

    @fs.assume_constant_result
    def table(n: int) -> torch.Tensor:
        calls.append(n)
        return torch.arange(3.0) * n

    compiled = fs.compile(lambda x: x + table(2), fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(x()), x() + torch.arange(3.0) * 2)
    assert calls == [2]


class Ending:
    """An iterator that ends with a value."""

    def __init__(self) -> None:
        self.count = 0

    def __iter__(self) -> Ending:
        return self

    def __next__(self) -> int:
        self.count += 1
        if self.count > 2:
            raise StopIteration("the end")
        return self.count


def delegating() -> Iterator[Any]:
    value = yield from Ending()
    yield "ended with", value


def test_the_value_of_a_user_iterators_end() -> None:
    check(lambda x: (list(delegating()), x + 1))

    def by_hand(x: torch.Tensor) -> Any:
        iterator = Ending()
        try:
            while True:
                next(iterator)
        except StopIteration as stop:
            return stop.value, stop.args, x + 1

    check(by_hand)


def wrapped(function: Any) -> Any:
    @functools.wraps(function)
    def inner(*args: Any) -> Any:
        return function(*args)

    return inner


def test_wraps_copies_attributes() -> None:
    def inside(x: torch.Tensor) -> Any:
        def local(value: Any) -> Any:
            return value

        local.tag = 3  # type: ignore[attr-defined]
        made = wrapped(local)
        made.__dict__["more"] = 4
        return made.tag, made.more, sorted(made.__dict__), made.__name__, made.__qualname__, x + 1

    check(inside)

    def returned(x: torch.Tensor) -> Any:
        def local(value: Any) -> Any:
            return value

        local.tag = 3  # type: ignore[attr-defined]
        return wrapped(local), x + 1

    function = fs.compile(returned)(x())[0]
    assert function.tag == 3 and sorted(vars(function)) == ["__wrapped__", "tag"]


@pytest.mark.parametrize("name", ["len", "isinstance", "range", "hasattr", "getattr", "zip", "sorted", "type"])
@pytest.mark.parametrize("first", ["plain", "replaced"])
def test_a_builtin_that_the_user_has_replaced(name: str, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: torch.Tensor, items: list[int]) -> Any:
        names = [n for n in range(2) if isinstance(n, int) and not hasattr(n, "missing")]
        return x * len(items) + sum(names), getattr(items, "pop", None) is None, sorted(items), list(zip(items, names))

    compiled = fs.compile(function)
    original, seen = getattr(builtins, name), []

    def replacement(*args: Any, **kwargs: Any) -> Any:
        seen.append(name)
        result = original(*args, **kwargs)
        return result + 100 if name == "len" else result

    if first == "plain":
        compiled(x(), [2, 1])
    with monkeypatch.context() as patch:
        patch.setattr(builtins, name, replacement)
        expected = function(x(), [2, 1])
        plainly = list(seen)
        found = compiled(x(), [2, 1])
        assert builtins.__dict__[name] is replacement
    assert repr(found) == repr(expected)
    assert not plainly or len(seen) > len(plainly)
    assert repr(compiled(x(), [2, 1])) == repr(function(x(), [2, 1]))
