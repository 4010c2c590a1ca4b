"""Operators and methods of builtin containers and of subclasses that override some, compiled against plain."""

from __future__ import annotations

import collections
import types
import weakref
from collections import OrderedDict, deque
from typing import Any, NamedTuple

import pytest
import torch

import firesteel as fs
from capture.differential import check


def x() -> torch.Tensor:
    return torch.arange(4.0)


def double(v: Any) -> Any:
    return v * 2


class Loud(tuple):
    def __add__(self, other: Any) -> Any:
        return ("added", tuple(other))

    def __len__(self) -> int:
        return 7

    def __iter__(self) -> Any:
        return iter(["i"])

    def __bool__(self) -> bool:
        return False

    def __contains__(self, item: Any) -> bool:
        return True


class Named(NamedTuple):
    a: int

    def __len__(self) -> int:
        return 5


class LoudNamed(Named):
    __add__, __len__, __iter__, __bool__, __contains__ = (
        Loud.__add__, Loud.__len__, Loud.__iter__, Loud.__bool__, Loud.__contains__)


class Members(set):
    pass


class Noting(set):
    """Its operators in place do something else, and one gives another object."""

    def __ior__(self, other: Any) -> Any:
        self.add(("or", len(other)))
        return self

    def __isub__(self, other: Any) -> Any:
        return Noting(["less", *other])

    def __iand__(self, other: Any) -> Any:
        return "and"

    def __ixor__(self, other: Any) -> Any:
        return NotImplemented


class Ordered(OrderedDict):
    pass


class Slotted:
    __slots__ = ("a",)


def test_functions_in_sets() -> None:
    def f(v, k):
        held = {k, len}
        return (v + 1, k in held, held & {k} == {k}, held | {k} == held, {k} <= held, held.isdisjoint([k]),
                (k, 1) in {(k, 1)}, {k} == {k})

    check(f, lambda: (x(), double), fullgraph=False)


def test_sets_of_functions_from_outside() -> None:
    def f(v, k, held):
        return v + 1, k in held, isinstance(held, set), held == {k}

    check(f, lambda: (x(), double, {double}), fullgraph=False)


def test_a_function_that_returns_itself_is_one_function() -> None:
    def f(v):
        def me():
            return me

        return v + 1, me

    _, me = fs.compile(f, backend="eager")(x())
    assert me() is me


def test_a_function_that_returns_itself() -> None:
    def f(v):
        def me():
            return me

        torch._dynamo.graph_break()
        return v + 1, me() is me, me() in {me}, {(me, 1): 2}[me(), 1]

    check(f, lambda: (x(),), fullgraph=False)


@pytest.mark.parametrize("made", ["inside", "outside"])
def test_tuples_with_methods_of_their_own(made: str) -> None:
    def f(v, loud, named):
        if made == "inside":
            loud, named = Loud([1, 2]), Named(3)
        return v + 1, loud + (3,), len(loud), list(loud), bool(loud), 9 in loud, len(named), named.a, tuple(named)

    check(f, lambda: (x(), Loud([1, 2]), Named(3)), fullgraph=False)


@pytest.mark.parametrize("made", ["inside", "outside"])
def test_named_tuples_with_methods_of_their_own(made: str) -> None:
    def f(v, named):
        if made == "inside":
            named = LoudNamed(3)
        first, = named
        return (v + 1, named + (3,), len(named), list(named), bool(named), 9 in named, named.a, named[0], first,
                [one for one in named], 1 if named else 2, named == (3,), named._replace(a=4).a)

    check(f, lambda: (x(), LoudNamed(3)), fullgraph=False)


def test_augmented_assignment_of_a_set_subclass() -> None:
    def f(v, members):
        before = members
        members |= {3}
        members &= {1, 3}
        return v + 1, members is before, members

    check(f, lambda: (x(), Members({1, 2})), fullgraph=False)


@pytest.mark.parametrize("made", ["inside", "outside"])
def test_operators_in_place_of_a_set_subclass(made: str) -> None:
    def f(v, members):
        if made == "inside":
            members = Noting([1])
        before = members
        members |= {3, 4}
        same = members is before
        members -= {5}
        other = members
        members &= {1}
        other ^= {5, 6}
        return v + 1, same, before, members, other, type(other)

    check(f, lambda: (x(), Noting([1])), fullgraph=False)


def test_deques_with_a_limit() -> None:
    def f(v):
        d = deque([1, 2], 3)
        return v + 1, d + deque([3, 4, 5]), d * 3, (d + d).maxlen

    check(f, lambda: (x(),), fullgraph=False)


def test_extending_sees_the_growing_list() -> None:
    def f(v):
        y = [1]
        y.extend(y[-1] + z for z in (1, 2, 3))
        y += (len(y) for _ in range(2))
        return v + 1, y

    check(f, lambda: (x(),), fullgraph=False)


def test_isdisjoint_does_not_ask_a_set_about_itself() -> None:
    asked: list[str] = []

    class Asked(set):
        def __iter__(self):
            asked.append("items")
            return super().__iter__()

    def function(x):
        one, other = Asked([1, 2]), Asked([3])
        return x + 1, [one.isdisjoint(one), Asked().isdisjoint(one), asked[:], one.isdisjoint(other), asked[:]]

    expected = function(torch.ones(2))[1]
    del asked[:]
    assert fs.compile(function, backend="eager", fullgraph=True)(torch.ones(2))[1] == expected


def test_isdisjoint_stops_early() -> None:
    def f(v):
        rest = iter([1, 2, 3])
        answer = {1}.isdisjoint(rest)
        return v + 1, answer, list(rest)

    check(f, lambda: (x(),), fullgraph=False)


def test_order_after_move_to_end() -> None:
    def moved():
        ordered = Ordered(a=1, b=2, c=3)
        ordered.move_to_end("a")
        return ordered

    def f(v, ordered):
        before = list(ordered)
        ordered.move_to_end("b", last=False)
        return v + 1, before, list(ordered.items())

    check(f, lambda: (x(), moved()), fullgraph=False)


def test_hooks_that_come_first() -> None:
    order = []
    module = torch.nn.Linear(4, 4)
    module.register_forward_hook(lambda *a: order.append("second"))
    module.register_forward_hook(lambda *a: order.append("first"), prepend=True)
    compiled = fs.compile(module, backend="eager")
    with fs.config.patch(raise_on_internal_error=True):
        assert torch.equal(compiled(x()), torch.nn.functional.linear(x(), module.weight, module.bias))
    assert order == ["first", "second"]


def test_weak_key_dictionary() -> None:
    class Key:
        pass

    key, other = Key(), Key()

    def f(v, table):
        return v + 1, table[key], key in table, other in table, table.get(other, 5)

    check(f, lambda: (x(), weakref.WeakKeyDictionary({key: "held"})), fullgraph=False)


@pytest.mark.parametrize("key", [torch.ones(3), torch.ones(1), torch.full((), torch.nan)],
                         ids=["several", "one", "nan"])
def test_weak_references_to_tensors_are_compared(key: torch.Tensor) -> None:
    table = weakref.WeakKeyDictionary({key: "held"})

    def f(v):
        found, made = [], weakref.WeakKeyDictionary()
        mine = v * 2
        made[mine] = 1
        for look in (lambda: table[key], lambda: key in table, lambda: table.get(v, 5), lambda: made[mine]):
            try:
                found.append(look())
            except Exception as error:
                found.append((type(error), str(error)))
        return v + 1, found

    check(f, lambda: (x(),), fullgraph=False)


def test_nan_as_a_key() -> None:
    def f(v, nan):
        return v + 1, table.get(nan), nan in table, table.get(float("nan")), nan in [nan]

    table = {}
    compiled = fs.compile(f, backend="eager")
    for _ in range(2):
        nan = float("nan")
        table[nan] = len(table)
        assert compiled(x(), nan)[1:] == f(x(), nan)[1:]


def test_slots_have_no_dictionary() -> None:
    def f(v, slotted):
        return v + 1, hasattr(slotted, "__dict__"), hasattr(Slotted(), "__dict__"), getattr(slotted, "a", 3)

    check(f, lambda: (x(), Slotted()), fullgraph=False)


def test_unions_of_dictionaries() -> None:
    def f(v):
        default = collections.defaultdict(list, z=1)
        return v + 1, {"a": 1} | OrderedDict(b=2), OrderedDict(b=2) | {"a": 1}, {"a": 1} | default, default | {"a": 1}

    check(f, lambda: (x(),), fullgraph=False)


def test_copies_of_frozen_sets() -> None:
    def f(v, frozen):
        return v + 1, frozen.copy() is frozen, frozenset(frozen) is frozen

    check(f, lambda: (x(), frozenset({1, 2})), fullgraph=False)


def test_views_of_a_dictionary_are_live() -> None:
    def f(v, table):
        proxy, mapping = types.MappingProxyType(table), table.keys().mapping
        table["b"] = 2
        return v + 1, "b" in proxy, len(proxy), list(mapping), mapping["b"]

    check(f, lambda: (x(), {"a": 1}), fullgraph=False)


def test_fromkeys_of_a_subclass() -> None:
    class Local(dict):
        pass

    def f(v):
        made = Local.fromkeys("ab", 1)
        return v + 1, type(made) is Local, list(made), Ordered.fromkeys("ba")

    check(f, lambda: (x(),), fullgraph=False)


def test_fromkeys_of_a_class_made_inside() -> None:
    def f(v):
        class Local(dict):
            factor = 3

            def __setitem__(self, key: Any, value: Any) -> None:
                super().__setitem__(key, (value, self.factor))

        return v + 1, [*Local.fromkeys("ab", 1).items()]

    assert fs.compile(f, backend="eager")(x())[1] == f(x())[1]


@pytest.mark.parametrize("container", [{1: 1, 2: 2}, {1, 2}, Members({1, 2}), OrderedDict({1: 1, 2: 2})])
def test_containers_changed_while_iterated(container: Any) -> None:
    def f(v, held):
        try:
            for key in held:
                if isinstance(held, dict):
                    held[key + 10] = v
                else:
                    held.add(key + 10)
        except RuntimeError as error:
            return v + 1, str(error), len(held)

    check(f, lambda: (x(), container.copy() if type(container) is not Members else Members(container)), fullgraph=False)
