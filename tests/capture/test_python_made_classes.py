"""Classes made inside compiled functions, and weak references."""

from __future__ import annotations

import collections
import enum
import weakref
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

import firesteel as fs
from capture.differential import check, x
from capture.sample_classes import Account

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
        return (
            local + 1,
            local(x),
            local.twice,
            Local.plain(x),
            local.plain(3),
            len(Local.shared),
            Local.table,
            Local.count,
            isinstance(local, Local),
            type(local) is Local,
            Local.__name__,
            hasattr(local, "nothing"),
        )

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


def test_instances_of_a_class_whose_metaclass_denies_it() -> None:
    class Denying(type):
        def __instancecheck__(cls, instance):
            return instance == 3

        def __subclasscheck__(cls, other):
            return False

    class Denied(metaclass=Denying):
        pass

    class Derived(Denied):
        pass

    def f(x):
        made = Denied()
        return x + 1, [isinstance(made, kind) for kind in (Denied, (int, Denied), Derived)], isinstance(3, Denied)

    check(f)


def test_subclasses_of_classes_made_inside() -> None:
    def names(x):
        class A: ...

        class B(A): ...

        class C(A): ...

        class D(B): ...

        return [c.__name__ for c in A.__subclasses__()], [c.__name__ for c in type.__subclasses__(B)], x + 1

    check(names)

    class Outside: ...

    def of_one_from_outside(x):
        class B(Outside): ...

        return B.__name__ in [c.__name__ for c in Outside.__subclasses__()], x + 1

    check(of_one_from_outside, fullgraph=False)
    assert fs.compile(of_one_from_outside, backend="eager")(torch.ones(1))[0]


def test_messages_of_super() -> None:
    def message(x, function):
        try:
            function(x)
        except RuntimeError as error:
            return str(error), x + 1

    def deleted():
        class A:
            def method(self):
                del self
                return super().method()

        return A().method()

    for function in (lambda x: (lambda: super().foo)(), lambda x: (lambda y: super().foo)(x), lambda x: deleted()):
        check(lambda x, function=function: message(x, function))


def test_what_makes_of_classes_refuses() -> None:
    def f(x, kind, seen):
        seen.append(kind)
        x.add_(1)
        if kind == "list":
            @dataclass
            class Listed:
                rows: list = [1]  # noqa: RUF008
        elif kind == "unhashable":
            class Equal:
                def __eq__(self, other):
                    return True

            @dataclass
            class Held:
                rows: object = Equal()  # noqa: RUF009
        elif kind == "field":
            @dataclass
            class Field:
                rows: set = field(default={1, 2})  # noqa: RUF008
        elif kind == "enum":
            class Color(enum.Enum):
                RED = 1
                RED = 2  # noqa: PIE796
        else:
            class Fine(enum.Enum):
                RED = 1
                GREEN = 1
            return x, Fine.GREEN.name
        return x

    for kind in ("list", "unhashable", "field", "enum", "fine"):
        def call(compiled, kind=kind):
            seen, x = [], torch.zeros(2)
            try:
                result = compiled(x, kind, seen)
            except (TypeError, ValueError) as error:
                result = type(error), str(error)
            return x.tolist(), seen, result[1:]

        assert call(fs.compile(f, backend="eager")) == call(f), kind


def test_a_dataclass_in_a_module_that_is_not_there() -> None:
    space: dict[str, Any] = {"__name__": "firesteel_no_module", "torch": torch, "dataclass": dataclass}
    exec('''def f(x, seen):
    seen.append(1)
    x.add_(1)
    @dataclass
    class Row:
        t: int
    return Row(x)''', space)

    def call(function):
        seen, x = [], torch.zeros(2)
        with pytest.raises(AttributeError) as caught:
            function(x, seen)
        return x.tolist(), seen, str(caught.value)

    assert call(fs.compile(space["f"], backend="eager")) == call(space["f"])


def test_classes_made_by_type_are_of_the_calling_module() -> None:
    def f(x):
        made = type("Made", (), {"k": 1})
        return x + 1, made.__module__, made, type("Named", (), {"__module__": "other"})

    result = fs.compile(f, backend="eager")(x())
    assert [result[1], result[2].__module__, result[3].__module__] == [__name__, __name__, "other"]
    assert list(vars(result[2]))[:2] == list(vars(f(x())[2]))[:2]
