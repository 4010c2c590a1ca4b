"""Faults that random programs have found, each as a small program of its own."""

from __future__ import annotations

import functools
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch

import firesteel as fs
from capture.differential import assert_same_facts, observe

# What a case makes afresh for each run: the function, the arguments of its calls, and the state it may change.
Made = tuple[Callable[..., Any], list[tuple[Any, ...]], Callable[[], Any]]
Case = Callable[[], Made]
CASES: dict[str, Case] = {}


def case(make: Case) -> Case:
    CASES[make.__name__] = make
    return make


@pytest.mark.parametrize("name", CASES)
def test_plain_and_compiled_agree(name: str) -> None:
    runs = []
    for compiled in (False, True):
        function, calls, state = CASES[name]()
        called = fs.compile(function, backend="eager") if compiled else function
        runs.append([observe(called, args, state) for args in calls])
    for plain, compiled_run in zip(*runs, strict=True):
        assert_same_facts(plain, compiled_run)


def ones() -> torch.Tensor:
    return torch.ones(4)


class Note:
    def __init__(self) -> None:
        self.first = 1
        self.second = 2


# Attributes


@case
def attribute_set_and_deleted() -> Made:
    note = Note()

    def f(x: torch.Tensor) -> torch.Tensor:
        note.extra = x  # type: ignore[attr-defined]
        del note.extra  # type: ignore[attr-defined]
        return x + 1

    return f, [(ones(),), (ones(),)], lambda: note


@case
def attribute_deleted_and_set_goes_to_the_end() -> Made:
    note = Note()

    def f(x: torch.Tensor) -> tuple[torch.Tensor, Note]:
        del note.first
        note.first = 3
        made = Note()
        del made.first
        made.first = 4
        return x + 1, made

    return f, [(ones(),)], lambda: (note, list(vars(note)))


class Limited:
    limit = 1

    @classmethod
    def raised(cls) -> int:
        cls.limit += 1
        return cls.limit


class Sublimited(Limited):
    pass


@case
def class_attribute_set_and_read_elsewhere() -> Made:
    Limited.limit = 1

    def f(x: torch.Tensor) -> tuple[torch.Tensor, int, int]:
        before = Sublimited().limit
        Limited.raised()
        return x * Sublimited.limit, Sublimited().limit, before

    return f, [(ones(),), (ones(),)], lambda: Limited.limit


class Clamped:
    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        return getattr(obj, self.name, 0)

    def __set__(self, obj: Any, value: int) -> None:
        setattr(obj, self.name, min(value, 5))

    def __delete__(self, obj: Any) -> None:
        delattr(obj, self.name)


class Gauge:
    level = Clamped()


@case
def descriptor_deletes() -> Made:
    gauge = Gauge()

    def f(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        gauge.level = 9
        high = gauge.level
        del gauge.level
        return x * high, gauge.level

    return f, [(ones(),)], lambda: gauge


class Registry(dict[str, int]):
    def __missing__(self, key: str) -> int:
        self[key] = value = len(key)
        return value

    def __setitem__(self, key: str, value: int) -> None:
        super().__setitem__(key, value + 1)


@case
def dict_subclass_with_own_methods() -> Made:
    registry = Registry(a=1)

    def f(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        registry["b"] = 5
        return x * registry["abc"], len(registry)

    return f, [(ones(),), (ones(),)], lambda: registry


class Dying:
    ends: list[str] = []

    def __del__(self) -> None:
        self.ends.append("end")


@case
def object_that_ends_with_the_call() -> Made:
    Dying.ends.clear()

    def f(x: torch.Tensor) -> torch.Tensor:
        made = Dying()
        return x + len(made.ends)

    return f, [(ones(),), (ones(),)], lambda: Dying.ends


@case
def attributes_of_builtin_exceptions() -> Made:
    def f(x: torch.Tensor, note: Note) -> tuple[Any, ...]:
        try:
            note.missing  # type: ignore[attr-defined]  # noqa: B018
        except AttributeError as error:
            first = error.name, error.obj is note
            kept = error
        try:
            undefined_name  # type: ignore[name-defined]  # noqa: B018, F821
        except NameError as error:
            second = error.name
        fs.graph_break()
        return x + 1, first, second, kept.name

    return f, [(ones(), Note())], lambda: None


# Iteration


@case
def ordered_dict_changes_during_iteration() -> Made:
    def f(x: torch.Tensor, *keys: str) -> tuple[torch.Tensor, str]:
        table = OrderedDict.fromkeys(keys)
        try:
            for key in table:
                table[key + "x"] = None
        except RuntimeError as error:
            return x + 1, str(error)
        return x + 2, ""  # behind the last key it does not look again

    return f, [(ones(), "a"), (ones(), "a", "b")], lambda: None


@case
def iterator_over_a_list_that_grew_before_the_break() -> Made:
    items = [1]

    def f(x: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
        iterator = iter(items)
        items.extend([2, 3, 4])
        seen = [next(iterator), next(iterator), next(iterator)]
        fs.graph_break()
        return x + 1, seen + list(iterator)

    return f, [(ones(),)], lambda: items


@case
def small_numbers_are_identical() -> Made:
    def f(x: torch.Tensor, n: int, m: int) -> tuple[torch.Tensor, bool]:
        return x * n, n is m

    return f, [(ones(), 5, 3), (ones(), 6, 4), (ones(), 7, 7), (ones(), 8, 7)], lambda: None


# Breaks


@case
def regular_expressions_in_a_loop() -> Made:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, list[str]]:
        found = []
        for index, word in enumerate(["a1", "b", "c3"]):
            match = re.match(f"[a-z]{index}?\\d", word)
            if match:
                found.append(match.group())
                x = x * 2
        return x, found

    return f, [(ones(),), (ones(),)], lambda: None


@case
def partial_of_a_method_that_breaks() -> Made:
    note = Note()

    def run(self: Note, x: torch.Tensor, by: int = 1) -> torch.Tensor:
        self.first += by
        fs.graph_break()
        return x * self.first

    return functools.partial(run, note, by=3), [(ones(),), (ones(),)], lambda: note


# Exceptions that only the data decides about


@case
def late_error_keeps_the_effects_before_it() -> Made:
    log: list[str] = []

    def f(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        log.append("before")
        y = x[index]
        log.append("after")
        return y

    return f, [(ones(), torch.tensor([i])) for i in (1, 9, 2)], lambda: log


@case
def late_error_is_caught() -> Made:
    log: list[str] = []

    def f(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        try:
            y = torch.rand(4)[index] * x
        except IndexError as error:
            log.append(str(error))
            y = x - torch.rand(4)
        finally:
            log.append("finally")
        return y

    torch.manual_seed(0)
    return f, [(ones(), torch.tensor([i])) for i in (1, 9)], lambda: (log, torch.get_rng_state())


@case
def late_error_after_a_change_in_place() -> Made:
    log: list[str] = []
    total = torch.zeros(4)

    def f(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        log.append("before")
        total.add_(x)
        y = x[index]
        total.add_(1)
        log.append("after")
        return y

    return f, [(ones(), torch.tensor([i])) for i in (1, 9, 2)], lambda: (log, total)


@case
def late_error_after_a_change_of_history() -> Made:
    leaf = torch.ones(4, requires_grad=True)

    def f(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        try:
            return x[index]
        except IndexError:
            return x

    return f, [(leaf * 1, torch.tensor([i])) for i in (1, 9)], lambda: None


def test_a_backend_that_fails_at_run_time_is_not_hidden() -> None:
    def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        def fail(*args: Any) -> Any:
            raise ZeroDivisionError("in the backend")

        return fail

    with pytest.raises(ZeroDivisionError, match="in the backend"):
        fs.compile(lambda x: x + 1, backend=backend)(ones())
    fs.reset()
    warned = pytest.warns(fs.errors.FiresteelWarning, match="in the backend")
    with fs.config.patch(raise_on_internal_error=False), warned:
        result = fs.compile(lambda x: x + 1, backend=backend)(ones())
    assert torch.equal(result, ones() + 1)


def test_locals_and_eval_see_the_users_variables() -> None:
    def f(x):
        y = x + 1
        z = 3
        if x.sum() > 0:
            z = 4
        return sorted(locals()), eval("y * z")

    plain, compiled = f(torch.ones(3)), fs.compile(f, backend="eager")(torch.ones(3))
    assert plain[0] == compiled[0] == ["x", "y", "z"]
    assert torch.equal(plain[1], compiled[1])


def test_locals_in_a_callee() -> None:
    def inner(t):
        u = t * 2
        return sorted(locals()), u

    def f(x):
        return inner(x + 1)

    names, value = fs.compile(f, backend="eager")(torch.ones(3))
    assert names == ["t", "u"] and torch.equal(value, torch.full((3,), 4.0))


def test_deep_recursion_stays_within_pythons_limit() -> None:
    def count(x, n):
        return x if n == 0 else count(x + 1, n - 1)

    def broken(x, n):
        if n == 0:
            return x
        if x.sum() > 1e9:  # a break on every level
            return x
        return broken(x + 1, n - 1)

    for f in (count, broken):
        assert torch.equal(fs.compile(f, backend="eager")(torch.zeros(2), 250), torch.full((2,), 250.0))
