"""Attributes, descriptors, super() and introspection of objects under capture."""

from __future__ import annotations

import operator
import typing
from typing import Any

import pytest
import torch

import firesteel as fs
from capture.differential import check, x
from capture.sample_classes import Account, Square

# Attributes, properties and descriptors


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


# Introspection


def test_isinstance_forms() -> None:
    def f(x, a):
        return (
            x + 1,
            isinstance(a, (int, Account)),
            isinstance(a, int | Account),
            isinstance(x, torch.Tensor),
            isinstance(1, int | None),
            isinstance(None, int | None),
            issubclass(Savings, (Account, int)),
            issubclass(bool, int),
            isinstance(a, object),
            isinstance(Account, type),
        )

    check(f, lambda: (x(), Savings()))


def test_isinstance_abstract_base_classes() -> None:
    import collections.abc
    import numbers

    def f(x, items):
        return (
            x + 1,
            isinstance(items, collections.abc.Sequence),
            isinstance({}, collections.abc.Mapping),
            isinstance(items, collections.abc.Hashable),
            isinstance(3, numbers.Number),
            isinstance(2.5, numbers.Real),
            isinstance(3, numbers.Integral),
            isinstance(Hooked(), collections.abc.Iterable),
            isinstance(f, collections.abc.Callable),
            isinstance((), collections.abc.Sized),
            issubclass(list, collections.abc.MutableSequence),
            isinstance(x, collections.abc.Iterable),
        )

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
