"""User subclasses of builtin types under capture."""

from __future__ import annotations

import collections
from typing import Any

import firesteel as fs
from capture.differential import check, x

# Subclasses of builtin types


class MyList(list):
    def total(self) -> Any:
        return sum(self)

    def append(self, item: Any) -> None:
        super().append(item)
        super().append("twice")


class MyDict(dict):
    def __missing__(self, key: Any) -> Any:
        return f"missing {key}"

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, ("stored", value))


class MySet(set):
    def add_all(self, items: Any) -> None:
        for item in items:
            self.add(item)


class MyTuple(tuple):
    def __new__(cls, *items: Any) -> MyTuple:
        return super().__new__(cls, items)

    def first(self) -> Any:
        return self[0]


class MyInt(int):
    def twice(self) -> int:
        return self * 2


class MyStr(str):
    def shout(self) -> str:
        return self.upper() + "!"


class MyFloat(float):
    def __new__(cls, value: Any, unit: str = "m") -> MyFloat:
        made = super().__new__(cls, value)
        made.unit = unit  # type: ignore[attr-defined]
        return made


def test_list_subclass() -> None:
    def f(x, items):
        items.append(x)
        items[0] = 5
        items.extend([7])
        items.note = "n"
        made = MyList([1, 2])
        made.append(3)
        return items[1], len(items), made, made[1:], made + [4], made == [1, 2, 3, "twice"], items.note

    check(f, lambda: (x(), MyList([1, 2])))


def test_list_subclass_methods_and_iteration() -> None:
    def f(x, items):
        items.sort(reverse=True)
        items.insert(0, 9)
        del items[1]
        return (
            x * items.total(),
            [i for i in items],
            items.index(1),
            items.pop(),
            items.copy(),
            bool(items),
            isinstance(items, list),
        )

    check(f, lambda: (x(), MyList([1, 3, 2])))


def test_dict_subclass() -> None:
    def f(x, d):
        d["a"] = x + 1
        made = MyDict(k=1)
        made["z"] = 2
        return d["nothing"], d["a"], d.get("no"), list(d), made, "a" in d, len(d), {**d}

    check(f, lambda: (x(), MyDict(k=1)))


def test_set_subclass() -> None:
    def f(x, s):
        s.add_all([1, 5])
        made = MySet([3])
        made.add_all([4])
        return x * len(s), 5 in s, made, made | {9}, sorted(s)

    check(f, lambda: (x(), MySet([1, 2])))


def test_tuple_subclass() -> None:
    def f(x, t):
        made = MyTuple(x, 2)
        return made, made.first() + 1, t.first(), len(t), made[1:], t + (1,), t == (1, 2), isinstance(t, tuple)

    check(f, lambda: (x(), MyTuple(1, 2)))


def test_int_subclass() -> None:
    def f(x, n):
        return x * n, n.twice(), n + 1, MyInt(4).twice(), n == 3, [0, 1, 2, 3][n], list(range(n)), f"{n:03d}"

    check(f, lambda: (x(), MyInt(3)))


def test_str_subclass() -> None:
    def f(x, s):
        return x + len(s), s.shout(), s + "b", MyStr("q").shout(), s == "a", {"a": 1}[s], f"{s:>3}", s.upper()

    check(f, lambda: (x(), MyStr("a")))


def test_float_subclass() -> None:
    def f(x, v):
        return x * v, v.unit, v + 1, v < 3

    check(f, lambda: (x(), MyFloat(2.5, "kg")))


def test_subclass_of_int_made_inside_with_attributes() -> None:
    def f(x):
        made = MyFloat(1.5, "s")
        return x * made, made.unit

    check(f, fullgraph=False, entries=None)


class MyOrdered(collections.OrderedDict):
    def first(self) -> Any:
        return next(iter(self))


class MyDefault(collections.defaultdict):
    pass


class MyCounter(collections.Counter):
    pass


class MyDeque(collections.deque):
    def both(self) -> Any:
        return self[0], self[-1]


def test_collections_subclasses() -> None:
    def f(x, o, d):
        o["new"] = x
        o.move_to_end("a")
        d["k"].append(x + 1)
        return o.first(), d["other"], list(o)

    check(f, lambda: (x(), MyOrdered(a=1, b=2), MyDefault(list)))


def test_deque_and_counter_subclasses() -> None:
    def f(x, q, c):
        q.appendleft(x)
        c["a"] += 2
        return q.both(), c["zz"], c.most_common(1)

    check(f, lambda: (x(), MyDeque([1, 2]), MyCounter("ab")), fullgraph=False, entries=None)


class MyUserDict(collections.UserDict):
    pass


class MyUserList(collections.UserList):
    pass


def test_user_dict_and_list() -> None:
    def f(x, d, items):
        d["a"] = x + 1
        items.append(d["a"])
        return len(d), "a" in d, items[0], list(d.items()), d.get("q", 4)

    check(f, lambda: (x(), MyUserDict(k=1), MyUserList([1])))


class Loud(str):
    def upper(self) -> str:
        SAID.append("upper")
        return super().upper() + "!"


SAID: list[str] = []


def test_a_method_of_a_text_that_calls_the_one_it_overrides_runs_once() -> None:
    def f(x, text):
        return x + 1, text.upper(), str.upper(text)

    check(f, lambda: (x(), Loud("a")))
    SAID.clear()
    fs.compile(f, backend="eager")(x(), Loud("a"))
    assert SAID == ["upper"]


class WithFactory(collections.defaultdict):
    pass


class NoPlace(dict):
    __slots__ = ()
    note = "of the class"


def test_copies_and_refusals_of_subclasses() -> None:
    def f(x, mapping, other):
        said = []
        try:
            type(mapping)(mapping)
        except TypeError as error:
            said.append(str(error))
        try:
            other.note = 1
        except AttributeError as error:
            said.append(str(error))
        return x + 1, mapping.copy(), mapping | {"b": 2}, said

    check(f, lambda: (x(), WithFactory(list, a=1), NoPlace()))


class OtherItems(list):  # type: ignore[type-arg]
    def __iter__(self):
        return iter([1, 2])


def test_a_list_put_into_itself_is_not_asked_to_iterate() -> None:
    def f(x):
        sliced, extended, added, other = OtherItems([x, 3]), OtherItems([x]), OtherItems([4]), [5]
        sliced[1:] = sliced
        extended.extend(extended)
        added += added
        other[:] = added
        return x + 1, [[items[at] for at in range(len(items))] for items in (sliced, extended, added)], other

    check(f)
