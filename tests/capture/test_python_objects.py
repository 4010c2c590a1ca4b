"""Classes and objects under capture: every test compares plain and compiled runs, most of them without any break."""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import functools
import operator
import types
import typing
import weakref
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import torch
from capture.differential import check, x

import firesteel as fs

# Attributes, properties and descriptors


class Account:
    kind = "plain"
    log: list[str] = []

    def __init__(self, value: Any = 1) -> None:
        self.value = value
        self._level = 3

    @property
    def level(self) -> int:
        return self._level

    @level.setter
    def level(self, new: int) -> None:
        self._level = new * 2

    @level.deleter
    def level(self) -> None:
        self._level = -1

    @classmethod
    def make(cls, value: Any) -> Account:
        return cls(value)

    @staticmethod
    def double(value: Any) -> Any:
        return value * 2

    @functools.cached_property
    def expensive(self) -> Any:
        return self.value * 10


class Savings(Account):
    kind = "savings"

    def __init__(self, value: Any = 1) -> None:
        super().__init__(value)
        self.extra = 1

    @property
    def level(self) -> int:
        return super().level + 100

    @classmethod
    def make(cls, value: Any) -> Account:
        made = super().make(value)
        made.extra = 7  # type: ignore[attr-defined]
        return made


def test_property_get_set_delete() -> None:
    def f(x, a):
        a.level = a.level + 1
        y = x * a.level
        del a.level
        return y + a.level

    check(f, lambda: (x(), Account()))


def test_property_of_object_made_inside() -> None:
    def f(x):
        a = Account(x)
        a.level = 5
        return a, a.level, a.value + 1

    check(f)


def test_property_without_setter_raises() -> None:
    def f(x, a):
        try:
            a.level = 3
        except AttributeError as error:
            return x + 1, str(error)

    check(f, lambda: (x(), Savings()))


def test_class_and_static_methods() -> None:
    def f(x):
        a = Account.make(x)
        b = a.make(x + 1)
        c = Savings.make(x - 1)
        return a, b, c, Account.double(x), c.double(x)

    check(f)


def test_super_property_and_classmethod() -> None:
    def f(x, a):
        return x * a.level, type(a).make(x).extra

    check(f, lambda: (x(), Savings()))


def test_cached_property() -> None:
    def f(x, a):
        first = a.expensive
        return first is a.expensive, first + x

    check(f, lambda: (x(), Account(x())))


def test_cached_property_of_object_made_inside() -> None:
    def f(x):
        a = Account(x)
        return a.expensive, a

    check(f)


def test_attribute_shadowing_and_deletion() -> None:
    def f(x, a):
        a.kind = "mine"
        shown = a.kind
        del a.kind
        return x + 1, shown, a.kind, hasattr(a, "missing"), getattr(a, "missing", 3)

    check(f, lambda: (x(), Account()))


def test_missing_attribute_message() -> None:
    def f(x, a):
        return x + a.nothing_here

    check(f, lambda: (x(), Account()))


def test_class_attribute_write() -> None:
    class Counter:
        count = 0
        seen: Any = None

    def f(x):
        Counter.count += 1
        Counter.seen = x + 1
        return Counter.count * x

    def reset() -> tuple[Any, ...]:
        Counter.count = 0
        return (x(),)

    check(f, reset, state=lambda: (Counter.count, Counter.seen))


def test_class_level_list_is_shared() -> None:
    def f(x, a):
        a.log.append("entry")
        return x + len(Account.log)

    def reset() -> tuple[Any, ...]:
        Account.log.clear()
        return x(), Account()

    check(f, reset, state=lambda: Account.log)


class Positive:
    """A data descriptor with its own storage."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        if obj is None:
            return self
        return getattr(obj, self.name, 0) + 1

    def __set__(self, obj: Any, value: Any) -> None:
        if isinstance(value, int) and value < 0:
            raise ValueError("negative")
        setattr(obj, self.name, value)

    def __delete__(self, obj: Any) -> None:
        delattr(obj, self.name)


class NonData:
    def __get__(self, obj: Any, owner: Any = None) -> Any:
        return "class" if obj is None else obj.tag


class Described:
    amount = Positive()
    tag_of = NonData()

    def __init__(self) -> None:
        self.tag = "t"


def test_data_descriptor() -> None:
    def f(x, d):
        d.amount = 4
        y = x * d.amount
        d.amount = y
        z = d.amount
        del d.amount
        return z, d.amount

    check(f, lambda: (x(), Described()))


def test_data_descriptor_raises() -> None:
    def f(x, d):
        try:
            d.amount = -1
        except ValueError as error:
            return x + 1, error.args

    check(f, lambda: (x(), Described()))


def test_non_data_descriptor_can_be_shadowed() -> None:
    def f(x, d):
        first = d.tag_of
        d.__dict__["tag_of"] = "own"
        return x + 1, first, d.tag_of, Described.tag_of

    check(f, lambda: (x(), Described()))


def test_descriptor_deleted_by_del() -> None:
    def f(x, d):
        try:
            del d.amount
        except AttributeError:
            return x - 1
        return x

    check(f, lambda: (x(), Described()))


# super() and inheritance


class A:
    def __init__(self, log: list[str]) -> None:
        log.append("A")
        self.log = log

    def go(self, y: Any) -> Any:
        self.log.append("A.go")
        return y + 1


class B(A):
    def __init__(self, log: list[str]) -> None:
        log.append("B")
        super().__init__(log)

    def go(self, y: Any) -> Any:
        self.log.append("B.go")
        return super().go(y) * 2


class C(A):
    def __init__(self, log: list[str]) -> None:
        log.append("C")
        super(C, self).__init__(log)  # noqa: UP008

    def go(self, y: Any) -> Any:
        self.log.append("C.go")
        return super(C, self).go(y) - 3  # noqa: UP008


class D(B, C):
    def __init__(self, log: list[str]) -> None:
        log.append("D")
        super().__init__(log)

    def go(self, y: Any) -> Any:
        parent = super()
        return A.go(self, parent.go(y))


def test_diamond_inheritance() -> None:
    def f(x, log):
        d = D(log)
        return d.go(x), d

    check(f, lambda: (x(), []))


def test_super_from_outside_of_the_class() -> None:
    def f(x, d):
        return super(B, d).go(x), super(D, d).go(x)

    check(f, lambda: (x(), D([])))


def test_super_missing_attribute() -> None:
    def f(x, d):
        try:
            super(D, d).nothing  # noqa: B018
        except AttributeError as error:
            return x + 1, str(error)

    check(f, lambda: (x(), D([])))


class Mixin:
    def scale(self, y: Any) -> Any:
        return y * self.factor  # type: ignore[attr-defined]


class Scaled(Mixin, A):
    factor = 3


def test_mixin() -> None:
    def f(x):
        return Scaled([]).scale(x), [c.__name__ for c in Scaled.__mro__]

    check(f)


# Attribute hooks


class Hooked:
    def __init__(self) -> None:
        object.__setattr__(self, "store", {})
        object.__setattr__(self, "log", [])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("auto_"):
            return name[5:]
        try:
            return self.store[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self.log.append(name)
        self.store[name] = value

    def __delattr__(self, name: str) -> None:
        self.log.append("del " + name)
        del self.store[name]


def test_attribute_hooks() -> None:
    def f(x, h):
        h.a = x + 1
        h.b = h.a * 2
        del h.a
        return h.b, h.auto_name, hasattr(h, "a"), getattr(h, "zz", None)

    check(f, lambda: (x(), Hooked()))


def test_attribute_hooks_inside() -> None:
    def f(x):
        h = Hooked()
        h.a = x
        return h, h.a + 1

    check(f)


class Watched:
    def __init__(self) -> None:
        self.reads: list[str] = []
        self.value = 2

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("__"):
            object.__getattribute__(self, "reads").append(name)
        return super().__getattribute__(name)

    def method(self) -> int:
        return self.value


def test_getattribute() -> None:
    def f(x, w):
        return x * w.value + w.method()

    check(f, lambda: (x(), Watched()))


# Special methods


class Vector:
    def __init__(self, items: Any) -> None:
        self.items = list(items)
        self.log: list[str] = []

    def __getitem__(self, key: Any) -> Any:
        return Vector(self.items[key]) if isinstance(key, slice) else self.items[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items[key] = value

    def __delitem__(self, key: Any) -> None:
        del self.items[key]

    def __contains__(self, item: Any) -> bool:
        return any(item is other for other in self.items)

    def __iter__(self) -> Any:
        return iter(self.items)

    def __reversed__(self) -> Any:
        return reversed(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return len(self.items) > 1

    def __eq__(self, other: Any) -> Any:
        return isinstance(other, Vector) and len(self) == len(other)

    def __hash__(self) -> int:
        return 17

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return len(self.items), args, kwargs

    def __add__(self, other: Any) -> Any:
        return Vector([a + b for a, b in zip(self, other, strict=False)]) if isinstance(other, Vector) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Vector([other + a for a in self])

    def __iadd__(self, other: Any) -> Any:
        self.items.append(other)
        return self

    def __mul__(self, other: Any) -> Any:
        return Vector([a * other for a in self])

    def __rmul__(self, other: Any) -> Any:
        return Vector([other * a for a in self])

    def __matmul__(self, other: Any) -> Any:
        return sum(a * b for a, b in zip(self, other, strict=False))

    def __neg__(self) -> Any:
        return Vector([-a for a in self])

    def __pos__(self) -> Any:
        return self

    def __invert__(self) -> Any:
        return "inverted"

    def __abs__(self) -> Any:
        return Vector([abs(a) for a in self])

    def __lt__(self, other: Any) -> bool:
        return len(self) < len(other)

    def __round__(self, digits: int = 0) -> Any:
        return digits

    def __int__(self) -> int:
        return len(self.items)

    def __float__(self) -> float:
        return len(self.items) + 0.5

    def __index__(self) -> int:
        return len(self.items)

    def __divmod__(self, other: Any) -> Any:
        return "divmod", other

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        return "pow", other, modulus

    def __str__(self) -> str:
        return f"<{len(self.items)}>"

    def __repr__(self) -> str:
        return f"Vector({len(self.items)})"

    def __format__(self, spec: str) -> str:
        return f"{spec}:{len(self.items)}"


def vectors() -> tuple[Any, ...]:
    return x(), Vector([x(), x() + 1, 3])


def test_item_protocol() -> None:
    def f(x, v):
        v[0] = v[1] + x
        tail = v[1:]
        del v[2]
        return tail, v[-1], len(v), x in v

    check(f, vectors)


def test_contains_iter_len_bool() -> None:
    def f(x, v):
        total = x
        for item in v:
            total = total + item
        empty = Vector([])
        return total, v[0] in v, x in v, bool(v), not v, bool(empty), "yes" if empty else "no", len(list(reversed(v)))

    check(f, vectors)


def test_arithmetic_dunders() -> None:
    def f(x, v):
        return v + v, 2 + v, v * x, x * v, 2 * v, v @ [1, 2, 3], -v, +v is v, ~v, abs(v)

    check(f, vectors)


def test_tensor_with_reflected_operator() -> None:
    def f(x, v):
        return (x + v)[0], (x * v)[2]

    check(f, vectors)


def test_in_place_dunder_keeps_identity() -> None:
    def f(x, v):
        alias = v
        v += x
        return alias is v, v

    check(f, vectors)


def test_in_place_falls_back() -> None:
    def f(x, v):
        alias = v
        v *= 2
        return alias is v, v, alias

    check(f, vectors)


def test_not_implemented_raises() -> None:
    def f(x, v):
        try:
            return v + 3
        except TypeError as error:
            return x + 1, str(error)

    check(f, vectors)


def test_conversions() -> None:
    def f(x, v):
        return x * int(v), float(v), [1, 2, 3, 4][v], operator.index(v), round(v, 4), divmod(v, 3), pow(v, 2, 5), v ** 3

    check(f, vectors)


def test_text_dunders() -> None:
    def f(x, v):
        return x + 1, str(v), repr(v), f"{v}", f"{v!r:>12}", f"{v:abc}", "%s %r" % (v, v), format(v, "q")  # noqa: UP031

    check(f, vectors)


def test_eq_and_hash() -> None:
    def f(x, v):
        return x + 1, v == Vector([1, 2, 3]), v != Vector([]), hash(v), v == 3, sorted([v, Vector([])])[0] is v

    check(f, vectors)


def test_user_hash_as_dictionary_key() -> None:
    def f(x, v):
        table = {v: x, "other": 2}
        return table[Vector([1, 2, 3])] + 1, v in table, Vector([9]) in table

    check(f, vectors)


def test_user_hash_in_set() -> None:
    def f(x, v):
        group = {v, Vector([4, 5, 6]), Vector([1])}
        return x * len(group)

    check(f, vectors)


def test_call_dunder() -> None:
    def f(x, v):
        return v(x, 1, key=2), callable(v), callable(x)

    check(f, vectors)


class Countdown:
    def __init__(self, start: int) -> None:
        self.left = start

    def __iter__(self) -> Countdown:
        return self

    def __next__(self) -> int:
        if self.left <= 0:
            raise StopIteration
        self.left -= 1
        return self.left


def test_user_iterator() -> None:
    def f(x, c):
        first = next(c)
        rest = [x * i for i in c]
        return first, rest, next(c, "end"), list(Countdown(3)), c

    check(f, lambda: (x(), Countdown(4)))


def test_user_iterator_stop_iteration_escapes() -> None:
    def f(x, c):
        try:
            next(c)
        except StopIteration:
            return x + 1

    check(f, lambda: (x(), Countdown(0)))


def test_unpack_user_iterator() -> None:
    def f(x, c):
        a, b, *rest = c
        return x * a, b, rest

    check(f, lambda: (x(), Countdown(5)))


class OldSequence:
    def __getitem__(self, i: int) -> int:
        if i >= 3:
            raise IndexError(i)
        return i * 10


def test_sequence_protocol_iteration() -> None:
    def f(x, s):
        return [x + i for i in s], 20 in s, 5 in s, list(s)

    check(f, lambda: (x(), OldSequence()))


@functools.total_ordering
class Version:
    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: Any) -> Any:
        return self.n == other.n

    def __lt__(self, other: Any) -> Any:
        return self.n < other.n

    def __hash__(self) -> int:
        return hash(self.n)


def test_total_ordering() -> None:
    def f(x, v):
        w = Version(3)
        return x + 1, v > w, v >= w, v <= w, v < w, v != w, max(v, w).n, [u.n for u in sorted([w, v, Version(1)])]

    check(f, lambda: (x(), Version(2)))


class Reflected:
    def __init__(self, name: str) -> None:
        self.name = name

    def __rsub__(self, other: Any) -> Any:
        return self.name, other

    def __rtruediv__(self, other: Any) -> Any:
        return self.name + "/", other

    def __rpow__(self, other: Any) -> Any:
        return "rpow", other

    def __rfloordiv__(self, other: Any) -> Any:
        return "rfloordiv", other

    def __rmod__(self, other: Any) -> Any:
        return "rmod", other

    def __rlshift__(self, other: Any) -> Any:
        return "rlshift", other

    def __rand__(self, other: Any) -> Any:
        return "rand", other

    def __gt__(self, other: Any) -> Any:
        return "gt", other


class ReflectedChild(Reflected):
    def __rsub__(self, other: Any) -> Any:
        return "child first"


def test_reflected_operators() -> None:
    def f(x, r):
        return 3 - r, 2.5 / r, 2 ** r, 5 // r, 5 % r, 1 << r, 1 & r, 1 < r, x + 1

    check(f, lambda: (x(), Reflected("r")))


def test_subclass_reflection_goes_first() -> None:
    class Left(Reflected):
        def __sub__(self, other: Any) -> Any:
            return "left"

    class Right(Left):
        def __rsub__(self, other: Any) -> Any:
            return "right"

    def f(x):
        return Left("a") - Right("b"), Left("a") - Left("b"), x + 1

    check(f)


# Construction


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: Any) -> None:
        self.a = a


def test_slots() -> None:
    def f(x, s):
        s.b = s.a + 1
        s.a = x * 2
        try:
            s.c = 1
        except AttributeError as error:
            message = str(error)
        return s.b, message, hasattr(s, "c")

    check(f, lambda: (x(), s := Slotted(x())), state=None)

    s = Slotted(x())
    fs.compile(f, backend="eager", fullgraph=True)(x(), s)
    assert torch.equal(s.b, x() + 1) and torch.equal(s.a, x() * 2)


def test_slots_unset_and_deleted() -> None:
    def f(x, s):
        before = hasattr(s, "b")
        s.b = 1
        del s.b
        try:
            return s.b
        except AttributeError as error:
            return x + 1, before, str(error)

    check(f, lambda: (x(), Slotted(1)))


def test_slots_object_made_inside() -> None:
    def f(x):
        s = Slotted(x + 1)
        return s

    made = fs.compile(f, backend="eager", fullgraph=True)(x())
    assert type(made) is Slotted and torch.equal(made.a, x() + 1) and not hasattr(made, "b")


class Singleton:
    instance: Singleton | None = None
    inits = 0

    def __new__(cls, *args: Any) -> Singleton:
        if cls.instance is None:
            cls.instance = super().__new__(cls)
        return cls.instance

    def __init__(self, value: Any) -> None:
        type(self).inits += 1
        self.value = value


def test_new_returns_cached_instance() -> None:
    def f(x):
        a, b = Singleton(x), Singleton(x + 1)
        return a is b, a.value, Singleton.inits

    def reset() -> tuple[Any, ...]:
        Singleton.instance, Singleton.inits = None, 0
        return (x(),)

    check(f, reset, state=lambda: (Singleton.instance, Singleton.inits))


class Other:
    def __new__(cls, value: Any) -> Any:
        return [value]

    def __init__(self, value: Any) -> None:
        raise AssertionError("must not run")


def test_new_returns_something_else() -> None:
    def f(x):
        return Other(x + 1)

    check(f)


class Registry:
    classes: list[str] = []

    def __init_subclass__(cls, label: str = "none", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.label = label  # type: ignore[attr-defined]
        Registry.classes.append(cls.__name__)


class Registered(Registry, label="one"):
    pass


def test_init_subclass_results_are_read() -> None:
    def f(x):
        return x + len(Registry.classes), Registered().label

    check(f)


class Meta(type):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        made.through_meta = True
        return made

    @property
    def shout(cls) -> str:
        return cls.__name__.upper()

    def __len__(cls) -> int:
        return 5

    def __getitem__(cls, key: Any) -> Any:
        return cls.__name__, key

    def __contains__(cls, item: Any) -> bool:
        return item == 1

    def __iter__(cls) -> Any:
        return iter([1, 2])

    def helper(cls, y: Any) -> Any:
        return y + 1


class WithMeta(metaclass=Meta):
    def __init__(self, value: Any) -> None:
        self.value = value


def test_metaclass() -> None:
    def f(x):
        made = WithMeta(x)
        return made, made.through_meta, WithMeta.shout, WithMeta.helper(x), isinstance(WithMeta, Meta), type(WithMeta) is Meta

    check(f)


def test_metaclass_container_protocol() -> None:
    def f(x):
        return x + len(WithMeta), WithMeta["k"], 1 in WithMeta, list(WithMeta)

    check(f)


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self) -> Any: ...

    def double(self) -> Any:
        return self.area() * 2


class Square(Shape):
    def __init__(self, side: Any) -> None:
        self.side = side

    def area(self) -> Any:
        return self.side * self.side


def test_abstract_classes() -> None:
    def f(x):
        square = Square(x)
        return square.double(), isinstance(square, Shape), issubclass(Square, Shape)

    check(f)


def test_instantiating_abstract_class_raises() -> None:
    def f(x):
        y = x + 1
        try:
            Shape()  # type: ignore[abstract]
        except TypeError as error:
            return y, str(error)

    check(f, fullgraph=False, entries=None)


# Dataclasses


@dataclass
class Point:
    a: Any
    b: int = 2
    tags: list[str] = field(default_factory=list)
    hidden: int = field(default=0, repr=False, compare=False)
    total: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.total = self.a + self.b


@dataclass(frozen=True)
class Frozen:
    a: int
    b: str = "b"


@dataclass(order=True)
class Ordered:
    rank: int
    name: str = "n"


@dataclass(slots=True)
class SlottedData:
    a: Any
    b: int = 1


@dataclass(kw_only=True)
class KeywordOnly:
    a: Any
    b: int = 5


@dataclass
class Nested:
    point: Point
    others: list[Any]
    table: dict[str, Any]


def test_dataclass() -> None:
    def f(x, p):
        q = Point(x, b=3)
        q.tags.append("new")
        p.a = q.total
        return q, p.total * 2

    check(f, lambda: (x(), Point(x())))


def test_dataclass_replace() -> None:
    def f(x, p):
        return dataclasses.replace(p, b=10), x + 1

    check(f, lambda: (x(), Point(x())))


def test_dataclass_asdict_astuple() -> None:
    def f(x):
        n = Nested(Point(1), [Ordered(1), {"k": Ordered(2)}], {"a": Ordered(3)})
        return dataclasses.asdict(n), dataclasses.astuple(n), x + 1

    check(f)


def test_dataclass_fields() -> None:
    def f(x, p):
        return [fld.name for fld in dataclasses.fields(p)], dataclasses.is_dataclass(p), x * len(dataclasses.fields(Point))

    check(f, lambda: (x(), Point(x())))


def test_frozen_dataclass() -> None:
    def f(x, p):
        q = Frozen(p.a + 1)
        try:
            q.a = 3
        except dataclasses.FrozenInstanceError as error:
            message = str(error)
        return x * q.a, message, q == Frozen(2), q != p, q

    check(f, lambda: (x(), Frozen(1)))


def test_frozen_dataclass_as_key() -> None:
    def f(x, p):
        table = {p: x, Frozen(5): x + 1}
        return table[Frozen(1)], table[Frozen(5, "b")], Frozen(7) in table, hash(p) == hash(Frozen(1))

    check(f, lambda: (x(), Frozen(1)))


def test_ordered_dataclass() -> None:
    def f(x, p):
        q = Ordered(2)
        return x + 1, p < q, p <= q, p > q, [o.rank for o in sorted([q, p])], repr(p), str(q), f"{q}"

    check(f, lambda: (x(), Ordered(1)))


def test_dataclass_eq_with_other_types() -> None:
    def f(x, p):
        return x + 1, p == Ordered(1), p == 1, p != "a", p in [Ordered(3), Ordered(1)]

    check(f, lambda: (x(), Ordered(1)))


def test_slotted_and_keyword_only_dataclass() -> None:
    def f(x):
        s = SlottedData(x + 1)
        s.b += 1
        k = KeywordOnly(a=s.a)
        return k, s.b, s.a

    check(f)


def test_dataclass_with_initvar_and_classvar() -> None:
    @dataclass
    class Setup:
        base: dataclasses.InitVar[int]
        shared: typing.ClassVar[int] = 3
        value: int = 0

        def __post_init__(self, base: int) -> None:
            self.value = base + self.shared

    def f(x):
        return x * Setup(4).value, Setup(1, 2)

    check(f)


# Named tuples


Pair = collections.namedtuple("Pair", ["left", "right"])


class Typed(NamedTuple):
    a: Any
    b: int = 7

    def product(self) -> Any:
        return self.a * self.b

    @property
    def total(self) -> Any:
        return self.a + self.b


def test_named_tuple() -> None:
    def f(x, p):
        q = Pair(x, right=p.left)
        a, b = q
        return q, q._replace(left=1), q._asdict(), q[0] is a, q._fields, len(q), Pair._make([1, 2]), q.left + 1, b

    check(f, lambda: (x(), Pair(1, 2)))


def test_typed_named_tuple() -> None:
    def f(x, t):
        u = Typed(x)
        return u.product(), u.total, t == Typed(1), t < Typed(2), Typed._field_defaults, u, isinstance(u, tuple), repr(t)

    check(f, lambda: (x(), Typed(1)))


def test_named_tuple_is_read_only() -> None:
    def f(x, p):
        try:
            p.left = 3
        except AttributeError as error:
            return x + 1, str(error)

    check(f, lambda: (x(), Pair(1, 2)))


# Enums


class Color(enum.Enum):
    RED = 1
    GREEN = "g"
    ALIAS = 1

    @property
    def nice(self) -> str:
        return self.name.lower()

    def apply(self, y: Any) -> Any:
        return y + 1 if self is Color.RED else y * 2

    @classmethod
    def default(cls) -> Color:
        return cls.GREEN


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10


class Perm(enum.Flag):
    R = enum.auto()
    W = enum.auto()
    RW = R | W


class Mode(str, enum.Enum):
    FAST = "fast"
    SLOW = "slow"


class Kind(enum.StrEnum):
    ONE = enum.auto()


def test_enum() -> None:
    def f(x, c):
        return (c.apply(x), c.name, c.value, c.nice, c is Color.RED, c == Color.GREEN, Color("g"), Color["RED"],
                [m.name for m in Color], Color.ALIAS is Color.RED, c in (Color.RED,), Color.default(), len(Color),
                {Color.RED: 1}[c], isinstance(c, Color), str(c), repr(c), f"{c}")

    check(f, lambda: (x(), Color.RED))


def test_int_enum() -> None:
    def f(x, v):
        return x * v, v + 1, v < Level.HIGH, max(Level), int(v), list(range(v)), [1, 2, 3][Level.LOW], f"{v}"

    check(f, lambda: (x(), Level.LOW))


def test_flag() -> None:
    def f(x, p):
        both = p | Perm.W
        return x + 1, both, both is Perm.RW, Perm.R in both, both & Perm.W, ~both, bool(p & Perm.W), both ^ Perm.R

    check(f, lambda: (x(), Perm.R))


def test_str_enum() -> None:
    def f(x, m):
        return x + len(m), m == "fast", m.upper(), Mode("slow"), {"fast": 1}[m], m.value, Kind.ONE, Kind.ONE + "!", f"{Kind.ONE}"

    check(f, lambda: (x(), Mode.FAST))


def test_enum_lookup_fails() -> None:
    def f(x):
        try:
            Color("nothing")
        except ValueError as error:
            return x + 1, str(error)

    check(f)


# Namespaces


def test_simple_namespace() -> None:
    def f(x, n):
        n.total = n.a + x
        m = types.SimpleNamespace(a=x, b=[1])
        m.b.append(n.a)
        del n.a
        return m, n.total, vars(n), hasattr(n, "a"), n == types.SimpleNamespace()

    check(f, lambda: (x(), types.SimpleNamespace(a=1)))


def test_simple_namespace_text() -> None:
    def f(x, n):
        return x + 1, repr(n), n == types.SimpleNamespace(a=1, b="q"), types.SimpleNamespace(**{"k": 1})

    check(f, lambda: (x(), types.SimpleNamespace(a=1, b="q")))


# Classes made inside


def test_class_made_inside() -> None:
    def f(x):
        class Local:
            factor = 3

            def __init__(self, value):
                self.value = value

            def get(self):
                return self.value * self.factor

        return Local(x).get() + Local.factor

    check(f)


def test_class_made_inside_with_every_kind_of_member() -> None:
    def f(x, bias):
        class Local:
            shared = [x]
            count: int = 0

            def __init__(self):
                self.value = x

            def __add__(self, other):
                return self.value + other + bias

            def __call__(self, y):
                return y * 2

            @property
            def twice(self):
                return self.value * 2

            @staticmethod
            def plain(y):
                return y + 1

            @classmethod
            def make(cls):
                cls().count += 1
                return cls()

            table = {name: 1 for name in "ab"}

        local = Local.make()
        local.shared.append(bias)
        return (local + 1, local(x), local.twice, Local.plain(x), local.plain(3), len(Local.shared), Local.table, Local.count,
                isinstance(local, Local), type(local) is Local, Local.__name__, hasattr(local, "nothing"))

    check(f, lambda: (x(), 2))


def test_class_made_inside_outlives_the_call() -> None:
    def f(x):
        y = x + 1

        class Local:
            def get(self):
                return y

        return Local, Local(), y * 2

    compiled = fs.compile(f, backend="eager")
    first, second = compiled(x()), compiled(x() + 1)
    assert first[0] is not second[0] and type(first[1]) is first[0] and first[0].__module__ == __name__
    assert torch.equal(first[1].get(), x() + 1) and torch.equal(second[1].get(), x() + 2)


def test_class_made_inside_does_not_recompile() -> None:
    def f(x):
        class Local:
            def get(self, y):
                return y * 3

        return Local().get(x) + 1

    compiled = fs.compile(f, backend="eager")
    counts = []
    for _ in range(5):
        assert torch.equal(compiled(x()), x() * 3 + 1)
        unit = compiled._firesteel_unit
        counts.append(_entries(unit))
    assert counts[-1] == counts[1], counts


def _entries(unit: Any) -> int:
    return len(unit.entries) + sum(_entries(child) for child in unit.continuations.values())


def test_class_made_inside_with_super_and_closure() -> None:
    def f(x, bias):
        class Base:
            def go(self, y):
                return y + bias

        class Child(Base):
            def go(self, y):
                return super().go(y) * 2

        return Child().go(x), Child.__name__, issubclass(Child, Base)

    check(f, lambda: (x(), 2))


def test_exception_class_made_inside() -> None:
    def f(x):
        class Oops(ValueError):
            pass

        try:
            raise Oops("a", 1)
        except ValueError as error:
            return x + 1, error.args, type(error).__name__

    check(f)


def test_dataclass_made_inside() -> None:
    def f(x):
        @dataclass
        class Local:
            a: Any
            b: int = 3

        made = Local(x + 1)
        return made.a * made.b

    check(f, fullgraph=False, entries=None)


def test_type_with_three_arguments() -> None:
    def f(x):
        made = type("Made", (Account,), {"bonus": 4})
        return made(x).value * made.bonus, made.__name__

    check(f, fullgraph=False, entries=None)


def test_named_tuple_made_inside() -> None:
    def f(x):
        local = collections.namedtuple("local", "p q")
        made = local(x, 2)
        return made.p * made.q

    check(f, fullgraph=False, entries=None)


# Weak references


def test_weakref_call() -> None:
    def f(x, ref):
        target = ref()
        return x * target.value, target

    kept = Account(3)
    check(f, lambda: (x(), weakref.ref(kept)))


def test_weakref_dead() -> None:
    def f(x, ref):
        return (x + 1, "dead") if ref() is None else (x, "alive")

    def dead() -> tuple[Any, ...]:
        return x(), weakref.ref(Account(3))

    compiled = check(f, dead)
    kept = Account(1)
    assert compiled(x(), weakref.ref(kept))[1] == "alive"


def test_weakref_made_inside() -> None:
    def f(x, a):
        ref = weakref.ref(a)
        return ref() is a, x + ref().value

    check(f, lambda: (x(), Account(3)), fullgraph=False, entries=None)


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
        return x * items.total(), [i for i in items], items.index(1), items.pop(), items.copy(), bool(items), isinstance(items, list)

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


# Introspection


def test_isinstance_forms() -> None:
    def f(x, a):
        return (x + 1, isinstance(a, (int, Account)), isinstance(a, int | Account), isinstance(x, torch.Tensor),
                isinstance(1, int | None), isinstance(None, int | None), issubclass(Savings, (Account, int)),
                issubclass(bool, int), isinstance(a, object), isinstance(Account, type))

    check(f, lambda: (x(), Savings()))


def test_isinstance_abstract_base_classes() -> None:
    import collections.abc
    import numbers

    def f(x, items):
        return (x + 1, isinstance(items, collections.abc.Sequence), isinstance({}, collections.abc.Mapping),
                isinstance(items, collections.abc.Hashable), isinstance(3, numbers.Number), isinstance(2.5, numbers.Real),
                isinstance(3, numbers.Integral), isinstance(Vector([]), collections.abc.Iterable),
                isinstance(f, collections.abc.Callable), isinstance((), collections.abc.Sized),
                issubclass(list, collections.abc.MutableSequence), isinstance(x, collections.abc.Iterable))

    check(f, lambda: (x(), [1]))


@typing.runtime_checkable
class HasArea(typing.Protocol):
    def area(self) -> Any: ...


def test_protocol_isinstance() -> None:
    def f(x, s):
        return x + 1, isinstance(s, HasArea), isinstance(3, HasArea)

    check(f, lambda: (x(), Square(1)))


class Quacks(type):
    def __instancecheck__(cls, obj: Any) -> bool:
        return hasattr(obj, "quack")


class Duck(metaclass=Quacks):
    pass


class Loud:
    quack = 1


def test_instancecheck_of_metaclass() -> None:
    def f(x, loud):
        return x + 1, isinstance(loud, Duck), isinstance(3, Duck)

    check(f, lambda: (x(), Loud()))


def test_attribute_functions() -> None:
    def f(x, a):
        setattr(a, "new", x + 1)  # noqa: B010
        had = hasattr(a, "new")
        delattr(a, "value")
        return getattr(a, "new") * 2, had, hasattr(a, "value"), getattr(a, "value", None), sorted(vars(a))  # noqa: B009

    check(f, lambda: (x(), Account()))


def test_vars_and_dict_writes() -> None:
    def f(x, a):
        vars(a)["fresh"] = x
        a.__dict__.update(more=1, value=2)
        gone = a.__dict__.pop("_level")
        return a.fresh + a.value, gone, list(a.__dict__), "more" in a.__dict__

    check(f, lambda: (x(), Account()))


def test_type_and_class() -> None:
    def f(x, a):
        made = type(a)(x)
        return made, a.__class__.__name__, type(a) is Savings, type(x) is torch.Tensor, type(a).__mro__[1].kind, type(3)

    check(f, lambda: (x(), Savings()))


def test_id_and_identity() -> None:
    def f(x, a, b):
        return x + 1, id(a) == id(b), id(a) == id(x), a is b, a is not x, id(a) != id(Account())

    def same() -> tuple[Any, ...]:
        a = Account()
        return x(), a, a

    check(f, same)


def test_hash_of_objects() -> None:
    def f(x, a):
        return x + 1, hash(a) == hash(a), hash("text") == hash("text"), hash((1, 2)) == hash((1, 2)), hash(3)

    check(f, lambda: (x(), Account()), fullgraph=False, entries=None)


def test_dir() -> None:
    def f(x, a):
        return x + 1, "value" in dir(a)

    check(f, lambda: (x(), Account()), fullgraph=False, entries=None)


def test_bound_methods_are_values() -> None:
    def f(x, d):
        go = d.go
        return go(x), go.__self__ is d, go.__func__ is D.go, go.__name__, d.go == d.go, [m(x) for m in (d.go, go)]

    check(f, lambda: (x(), D([])))


def test_bound_method_is_returned() -> None:
    def f(x, d):
        d.hook = d.go
        return d.go, x + 1

    check(f, lambda: (x(), D([])))


def test_objects_that_refer_to_each_other() -> None:
    def f(x):
        a, b = Account(x), Account(x + 1)
        a.peer, b.peer = b, a
        a.me = a
        return a

    check(f)


def test_aliased_objects_from_outside() -> None:
    def f(x, a, b):
        a.value = x + 1
        return b.value * 2, a is b

    def same() -> tuple[Any, ...]:
        a = Account()
        return x(), a, a

    compiled = check(f, same)
    assert compiled(x(), Account(), Account(x()))[1] is False


def test_object_state_changes_recompile() -> None:
    def f(x, a):
        return x * a.value

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    a = Account(2)
    assert torch.equal(compiled(x(), a), x() * 2)
    a.value = 2.5
    assert torch.equal(compiled(x(), a), x() * 2.5)
    a.value = x()
    assert torch.equal(compiled(x(), a), x() * x())


def test_replaced_method_recompiles() -> None:
    class Local:
        def go(self, y):
            return y + 1

    def f(x, o):
        return o.go(x)

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    o = Local()
    assert torch.equal(compiled(x(), o), x() + 1)
    Local.go = lambda self, y: y * 5  # type: ignore[method-assign]
    assert torch.equal(compiled(x(), o), x() * 5)
    o.go = lambda y: y - 1  # type: ignore[method-assign]
    assert torch.equal(compiled(x(), o), x() - 1)


def test_generic_class() -> None:
    T = typing.TypeVar("T")

    class Box(typing.Generic[T]):
        def __init__(self, item: T) -> None:
            self.item = item

    def f(x):
        a = Box(x)
        b = Box[int](3)
        return a.item * b.item

    check(f)


def test_typing_helpers() -> None:
    def f(x):
        y = typing.cast(torch.Tensor, x)
        if typing.TYPE_CHECKING:
            y = y + 100
        return y + 1, typing.cast("int", 3)

    check(f)


@pytest.mark.parametrize("name", ["value", "level", "kind"])
def test_attrgetter(name: str) -> None:
    get = operator.attrgetter(name)

    def f(x, a):
        return x + 1, get(a), operator.attrgetter("value")(a), operator.methodcaller("double", 4)(a)

    check(f, lambda: (x(), Account(3)))
