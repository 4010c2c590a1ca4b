"""Guards on constants, containers and identity: change the thing, see the right result and a recompilation."""

from __future__ import annotations

import collections
import types
from typing import Any, NamedTuple

import numpy
import pytest
import torch

from capture.guard_probe import NAN, Point, Probe, same

X = torch.arange(4.0)


# Constants and types


@pytest.mark.parametrize(("first", "second"), [
    (True, 1), (1, True), (0.0, -0.0), (-0.0, 0.0), (NAN, 1.5), (2.5, NAN), (2, 2.0), (False, 0), ("a", "b"),
    ("a", b"a"),
    (None, 0), (None, False), (..., None), (1j, 2j), (0j, -0j), (complex(0.0, 1.0), complex(-0.0, 1.0)),
    (b"x", b"y"), (torch.float32, torch.float64), (range(3), range(4)), (range(0, 3, 2), range(0, 4, 2)),
    (slice(1), slice(2)), (slice(0, True), slice(0, 1)), (numpy.float32(1), numpy.float64(1)),
    (numpy.int64(1), numpy.int64(2)), (1.0, numpy.float64(1.0)),
    (numpy.float64(0.0), numpy.float64(-0.0)), (numpy.float64(NAN), numpy.float64(1)),
    (torch.device("cpu"), torch.device("meta")), (frozenset({1}), frozenset({2})), (frozenset({1}), frozenset({True})),
    (torch.Size([1, 2]), torch.Size([2, 1])), (torch.Size([1]), (1,)), (torch.contiguous_format, torch.channels_last),
    (torch.strided, torch.sparse_coo), (numpy.dtype("float32"), numpy.dtype("int8")),
], ids=lambda value: f"{type(value).__name__}-{value!r}")
def test_constants(first: Any, second: Any) -> None:
    def f(x: torch.Tensor, value: Any) -> Any:
        return x + 1, repr(value), type(value).__name__

    probe = Probe(f)
    assert probe(X, first) >= 1
    assert probe(X, first) == 0
    assert probe(X, second) >= 1
    assert probe(X, second) == 0
    assert probe(X, first) == 0


def test_unused_arguments_are_not_guarded() -> None:
    def f(x: torch.Tensor, value: Any) -> Any:
        return x * 2, value

    probe = Probe(f)
    assert probe(X, 1) == 1
    for value in (2, "a", None, [1], {"a": 1}, 2.5, X):
        assert probe(X, value) == 0


def test_nan_does_not_recompile_forever() -> None:
    def f(x: torch.Tensor, value: float) -> Any:
        return x + value

    probe = Probe(f)
    assert probe(X, NAN) == 1
    assert probe(X, float("nan")) == 0


def test_type_of_an_argument() -> None:
    class A:
        def value(self) -> int:
            return 1

    class B(A):
        def value(self) -> int:
            return 2

    def f(x: torch.Tensor, a: A) -> Any:
        return x + a.value()

    probe = Probe(f)
    assert probe(X, A()) == 1
    assert probe(X, A()) == 0
    assert probe(X, B()) == 1


def test_class_of_an_instance_reassigned() -> None:
    class A:
        def value(self) -> int:
            return 1

    class B:
        def value(self) -> int:
            return 2

    def f(x: torch.Tensor, a: Any) -> Any:
        return x + a.value()

    probe, a = Probe(f), A()
    assert probe(X, a) == 1
    a.__class__ = B  # type: ignore[assignment]
    assert probe(X, a) == 1


def test_isinstance_and_callable() -> None:
    def f(x: torch.Tensor, a: Any) -> Any:
        return (x + 1 if isinstance(a, (list, tuple)) else x - 1), callable(a), hasattr(a, "append")

    probe = Probe(f)
    assert probe(X, []) == 1
    assert probe(X, ()) == 1
    assert probe(X, len) == 1
    assert probe(X, []) == 0


# Containers


@pytest.mark.parametrize(("first", "second"), [
    ([1, 2], [1, 2, 3]), ([1, 2], [2, 1]), ((1, 2), (1, 2, 3)), ((1, 2), [1, 2]),
    ({"a": 1}, {"a": 2}), ({"a": 1}, {"b": 1}), ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": 1}, collections.OrderedDict(a=1)),
    ({1: 1}, {True: 1}), ({1: 1}, {1.0: 1}), ({(1, 2): 1}, {(1, 3): 1}), ({None: 1}, {0: 1}),
    ({1, 2}, {1, 3}), (set(), {0}), ({1}, frozenset({1})),
    (collections.deque([1]), collections.deque([1, 2])), (collections.deque([1], 3), collections.deque([1], 4)),
    (collections.deque([1]), collections.deque([2])), (collections.deque([1]), [1]),
    ([[1], [2]], [[1], [3]]), ({"a": {"b": 1}}, {"a": {"b": 2}}), ([1], [1.0]), ([0.0], [-0.0]), ([True], [1]),
    (collections.Counter("ab"), collections.Counter("abb")),
    (collections.defaultdict(int, a=1), collections.defaultdict(int, a=2)),
    (types.MappingProxyType({"a": 1}), types.MappingProxyType({"b": 1})),
], ids=repr)
def test_container_contents(first: Any, second: Any) -> None:
    def f(x: torch.Tensor, value: Any) -> Any:
        total = [repr(item) for item in value]
        if isinstance(value, dict):
            total += [repr(item) for item in value.values()]
        return x + 1, total, len(value), type(value).__name__, getattr(value, "maxlen", None)

    probe = Probe(f)
    assert probe(X, first) >= 1
    assert probe(X, first) == 0
    assert probe(X, second) >= 1
    assert probe(X, second) == 0


def test_only_the_keys_that_are_read_are_guarded() -> None:
    def f(x: torch.Tensor, options: dict[str, Any]) -> Any:
        return x * options["scale"] + options.get("shift", 0)

    probe = Probe(f)
    assert probe(X, {"scale": 2.0}) == 1
    assert probe(X, {"scale": 2.0, "other": 3}) == 0
    assert probe(X, {"other": [1], "scale": 2.0}) == 0
    assert probe(X, {"scale": 2.0, "shift": 3}) == 1


def test_appending_does_not_guard_the_length() -> None:
    def f(x: torch.Tensor, log: list[Any]) -> Any:
        log.append(x + 1)
        return x * 2

    probe = Probe(f, copies=True)
    assert probe(X, []) == 1
    assert probe(X, [1, 2, 3]) == 0


def test_emptiness_and_membership() -> None:
    def f(x: torch.Tensor, items: Any, table: dict[str, int]) -> Any:
        if items and "k" in table:
            return x + 1
        return x - 1

    probe = Probe(f)
    assert probe(X, [1], {"k": 1}) == 1
    assert probe(X, [1], {}) == 1
    assert probe(X, [], {"k": 1}) == 1
    assert probe(X, [], {}) == 0


def test_default_factory() -> None:
    def f(x: torch.Tensor, table: collections.defaultdict[str, Any]) -> Any:
        return x + table["missing"]

    probe = Probe(f, copies=True)
    assert probe(X, collections.defaultdict(int)) == 1
    assert probe(X, collections.defaultdict(float)) >= 1
    assert probe(X, collections.defaultdict(None)) >= 1


def test_named_tuple_and_its_class() -> None:
    class P(NamedTuple):
        a: Any
        b: Any

    class Q(NamedTuple):
        b: Any
        a: Any

    def f(x: torch.Tensor, p: Any) -> Any:
        return x * p.a

    probe = Probe(f)
    assert probe(X, P(2, 3)) == 1
    assert probe(X, P(2, 4)) == 0
    assert probe(X, Q(2, 3)) == 1


def test_list_subclass_contents() -> None:
    class Items(list):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 100

    def f(x: torch.Tensor, items: Items) -> Any:
        return [x + item for item in items]

    probe = Probe(f)
    assert probe(X, Items([1, 2])) == 1
    assert probe(X, Items([1, 2, 3])) >= 1
    assert probe(X, Items([1, 5, 3])) >= 1


def test_dict_subclass_contents() -> None:
    class Table(dict):  # type: ignore[type-arg]
        pass

    def f(x: torch.Tensor, table: Table) -> Any:
        return {key: x + value for key, value in table.items()}

    probe = Probe(f)
    assert probe(X, Table(a=1)) == 1
    assert probe(X, Table(b=1)) >= 1
    assert probe(X, Table(a=1, b=2)) >= 1


# Identity and aliasing


def test_identity_of_arguments() -> None:
    def f(x: torch.Tensor, a: Any, b: Any) -> Any:
        return x + 1 if a is b else x - 1

    probe = Probe(f)
    one, two = object(), object()
    assert probe(X, one, two) == 1
    assert probe(X, one, one) >= 1
    for make in (list, dict, Point, lambda: torch.ones(2), lambda: (lambda: 1)):
        probe = Probe(f)
        one, two = make(), make()
        probe(X, one, two)
        probe(X, one, one)
        probe(X, two, one)


def test_identity_with_a_global_object() -> None:
    marker = Point()

    def f(x: torch.Tensor, a: Any = marker) -> Any:
        return x + 1 if a is marker else x - 1

    probe = Probe(f)
    assert probe(X) == 1
    assert probe(X, Point()) == 1
    assert probe(X, marker) == 0


@pytest.mark.parametrize("kind", ["list", "dict", "object", "set", "deque", "cell list", "nested"])
def test_mutation_through_one_name_is_seen_through_the_other(kind: str) -> None:
    def f(x: torch.Tensor, a: Any, b: Any) -> Any:
        if kind == "list":
            a.append(x + 1)
            return len(b), b[-1] * 2
        if kind == "dict":
            a["k"] = x + 1
            return b["k"] * 2
        if kind == "object":
            a.value = x + 1
            return b.value * 2
        if kind == "set":
            a.add(5)
            return x + len(b)
        if kind == "deque":
            a.appendleft(x + 1)
            return b[0] * 2
        if kind == "cell list":
            a[0] = x + 1
            return b[0] * 2
        a[0].append(x + 1)
        return b[0][-1] * 2

    makers: dict[str, Any] = {
        "list": lambda: [X], "dict": lambda: {"k": X}, "object": lambda: Point(X), "set": lambda: {1},
        "deque": lambda: collections.deque([X]), "cell list": lambda: [X], "nested": lambda: [[X]]}
    make = makers[kind]
    for alias_first in (False, True):
        probe = Probe(f, copies=True)
        both, left, right = make(), make(), make()
        if alias_first:
            assert probe(X, both, both) >= 1
            assert probe(X, left, right) >= 1
        else:
            assert probe(X, left, right) >= 1
            assert probe(X, both, both) >= 1
        assert probe(X, both, both) == 0
        assert probe(X, left, right) == 0


def test_two_paths_to_one_object() -> None:
    def f(x: torch.Tensor, a: Any) -> Any:
        a.left.append(x + 1)
        return len(a.right), a.right[-1] * 2

    class Pair:
        def __init__(self, left: Any, right: Any) -> None:
            self.left, self.right = left, right

        def __eq__(self, other: object) -> bool:
            return True

    probe = Probe(f, copies=True)
    items = [X]
    assert probe(X, Pair([X], [X])) == 1
    assert probe(X, Pair(items, items)) == 1


def test_argument_that_is_also_a_global() -> None:
    shared: list[Any] = [1.0]

    def f(x: torch.Tensor, items: list[Any]) -> Any:
        items[0] = items[0] + 1
        return x * shared[0]

    probe = Probe(f)
    assert probe(X, [1.0]) == 1
    plain = f(X, shared)
    shared[0] = 1.0
    again = probe.compiled(X, shared)
    assert torch.equal(plain, again)


# Paths that are easy to forget


def test_objects_as_dictionary_keys() -> None:
    class Key:
        pass

    def f(x: torch.Tensor, table: dict[Any, int], key: Any) -> Any:
        return x + table.get(key, 100), key in table, [type(k).__name__ for k in table]

    probe = Probe(f)
    one, two = Key(), Key()
    assert probe(X, {one: 1}, one) == 1
    probe(X, {one: 1}, two)
    probe(X, {two: 5}, two)
    probe(X, {one: 1, two: 2}, two)
    probe(X, {two: 2, one: 1}, two)
    probe(X, {}, two)


def test_tensors_as_dictionary_keys() -> None:
    def f(x: torch.Tensor, table: dict[Any, int], key: Any) -> Any:
        return x + table.get(key, 100)

    probe = Probe(f)
    one, two = torch.ones(2), torch.ones(2)
    probe(X, {one: 1}, two)
    probe(X, {one: 1}, one)
    probe(X, {one: 1, two: 3}, two)
    probe(X, {two: 3, one: 1}, two)


def test_two_functions_with_a_common_cell() -> None:
    def make(shared: bool) -> Any:
        n = m = 1

        def increase() -> None:
            nonlocal n
            n += 1

        def read_same(x: torch.Tensor) -> torch.Tensor:
            return x * n

        def read_other(x: torch.Tensor) -> torch.Tensor:
            return x * m

        return increase, (read_same if shared else read_other)

    def f(x: torch.Tensor, increase: Any, read: Any) -> Any:
        increase()
        return read(x)

    for order in ([True, False], [False, True]):
        compiled = Probe(f).compiled
        for shared in (*order, *order):
            assert torch.equal(compiled(X, *make(shared)), f(X, *make(shared)))


def test_one_function_with_cells_of_two_origins() -> None:
    def make() -> Any:
        n = 1

        def bump(by: int) -> None:
            nonlocal n
            n += by

        def read(x: torch.Tensor) -> torch.Tensor:
            return x * n

        return bump, read

    def f(x: torch.Tensor, bump: Any, read: Any) -> Any:
        bump(4)
        return read(x)

    compiled = Probe(f).compiled
    (bump, _), (_, read) = make(), make()
    assert torch.equal(compiled(X, bump, read), X)
    assert torch.equal(compiled(X, *make()), X * 5)
    (bump, _), (_, read) = make(), make()
    assert torch.equal(compiled(X, bump, read), X)


def test_function_attributes() -> None:
    def g(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def f(x: torch.Tensor) -> Any:
        return g(x) + getattr(g, "shift", 0), g.__name__, hasattr(g, "other")

    probe = Probe(f)
    assert probe(X) == 1
    g.shift = 5  # type: ignore[attr-defined]
    assert probe(X) == 1
    g.__name__ = "renamed"
    assert probe(X) == 1
    g.other = 1  # type: ignore[attr-defined]
    assert probe(X) == 1
    del g.shift  # type: ignore[attr-defined]
    probe(X)


def test_attribute_found_but_not_used() -> None:
    def f(x: torch.Tensor, p: Any, table: dict[str, Any]) -> Any:
        try:
            p.value  # noqa: B018
            table["k"]
        except (AttributeError, KeyError):
            return x - 1
        return x + 1

    probe, p = Probe(f), Point()
    assert probe(X, p, {"k": 1}) == 1
    assert probe(X, p, {"k": "other"}) == 0
    assert probe(X, p, {}) >= 1
    del p.value
    assert probe(X, p, {"k": 1}) >= 1


def test_import_inside_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    import math

    def f(x: torch.Tensor) -> Any:
        import math as m
        from math import tau

        return x * m.pi + tau

    probe = Probe(f)
    assert probe(X) == 1
    monkeypatch.setattr(math, "pi", 3)
    assert probe(X) == 1
    monkeypatch.setattr(math, "tau", 6)
    assert probe(X) >= 1


def test_types_compared() -> None:
    def f(x: torch.Tensor, a: Any, b: Any) -> Any:
        return x + 1 if type(a) is type(b) else x - 1, issubclass(type(a), type(b))

    probe = Probe(f)
    assert probe(X, [], []) == 1
    assert probe(X, [], ()) == 1
    assert probe(X, Point(), Point()) == 1
    assert probe(X, Point(), []) == 1


def test_equality_method_added_afterwards() -> None:
    class A:
        pass

    def f(x: torch.Tensor, a: Any, b: Any) -> Any:
        return x + 1 if a == b else x - 1

    probe, a, b = Probe(f), A(), A()
    assert probe(X, a, b) == 1
    assert probe(X, a, a) >= 1
    A.__eq__ = lambda self, other: True  # type: ignore[assignment, method-assign]
    assert probe(X, a, b) >= 1


def test_string_identity() -> None:
    left = "".join(["a", "b c"])
    right = "".join(["a", "b c"])

    def f(x: torch.Tensor, a: str, b: str) -> Any:
        return x + 1 if a is b else x - 1

    probe = Probe(f)
    assert probe(X, left, right) == 1
    assert probe(X, left, left) == 1
    assert probe(X, left, right) == 0


def test_iterator_position() -> None:
    def f(x: torch.Tensor, it: Any) -> Any:
        return x + next(it), list(it)

    def later() -> Any:
        iterator = iter([1, 2, 3])
        next(iterator)
        return iterator

    compiled = Probe(f).compiled
    for make in (lambda: iter([1, 2, 3]), later, lambda: iter([5]), later, lambda: iter([1, 2, 3])):
        assert same(list(f(X, make())), list(compiled(X, make())))
    with pytest.raises(StopIteration):
        compiled(X, iter([]))


def test_generic_alias_and_types_as_constants() -> None:
    def f(x: torch.Tensor, t: Any) -> Any:
        return x + 1, str(t), t is int

    probe = Probe(f)
    for t in (int, list[int], dict[str, int], int | str, Any, type(None)):
        probe(X, t)
        assert probe(X, t) == 0


def test_subclass_of_int_and_str() -> None:
    class Number(int):
        def __add__(self, other: int) -> int:
            return 1000

    class Text(str):
        def upper(self) -> str:
            return "shouted"

    def f(x: torch.Tensor, n: int, s: str) -> Any:
        return x + (n + 1), s.upper()

    probe = Probe(f)
    assert probe(X, 1, "a") == 1
    assert probe(X, Number(1), "a") >= 1
    assert probe(X, 1, Text("a")) >= 1
    assert probe(X, 1, "a") == 0
