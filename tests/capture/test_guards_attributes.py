"""Guards on attributes and classes: change them, see the right result and a recompilation."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import pytest
import torch

from capture.guard_probe import Point, Probe

X = torch.arange(4.0)


def test_instance_attribute_changes() -> None:
    def f(x: torch.Tensor, p: Point) -> Any:
        return p.shifted(x)

    probe, p = Probe(f), Point(1)
    assert probe(X, p) == 1
    p.other = 3  # type: ignore[attr-defined]
    assert probe(X, p) == 0
    p.value = "text"
    assert probe(X, p) >= 1
    p.value = X
    assert probe(X, p) >= 1
    del p.value
    assert probe(X, p) >= 1


def test_class_attribute_shadowed_by_instance_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor, p: Point) -> Any:
        return x * p.scale

    probe, p = Probe(f), Point()
    assert probe(X, p) == 1
    p.scale = 5
    assert probe(X, p) == 1
    del p.scale
    assert probe(X, p) == 0
    monkeypatch.setattr(Point, "scale", 7)
    assert probe(X, p) == 1


def test_method_shadowed_by_instance_attribute() -> None:
    def f(x: torch.Tensor, p: Point) -> Any:
        return p.shifted(x)

    probe, p = Probe(f), Point()
    assert probe(X, p) == 1
    p.shifted = lambda x: x - 100  # type: ignore[method-assign]
    assert probe(X, p) == 1


@pytest.mark.parametrize("name", ["shifted", "double", "fixed", "of_class"])
def test_class_members_reassigned(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def f(x: torch.Tensor, p: Point) -> Any:
        return p.shifted(x), x * p.double, p.fixed(x), p.of_class(x), Point.fixed(x), Point.of_class(x)

    probe, p = Probe(f), Point()
    assert probe(X, p) == 1
    new = {"shifted": lambda self, x: x - 9, "double": property(lambda self: 77),
           "fixed": staticmethod(lambda x: x * 99), "of_class": classmethod(lambda cls, x: x * 55)}
    monkeypatch.setattr(Point, name, new[name])
    assert probe(X, p) == 1
    assert probe(X, p) == 0


def test_member_added_to_a_nearer_class() -> None:
    class Base:
        scale = 2

        def value(self) -> int:
            return 1

    class Derived(Base):
        pass

    def f(x: torch.Tensor, d: Base) -> Any:
        return x * d.scale + d.value()

    probe, d = Probe(f), Derived()
    assert probe(X, d) == 1
    Derived.scale = 3
    assert probe(X, d) == 1
    Derived.value = lambda self: 10  # type: ignore[method-assign]
    assert probe(X, d) == 1


def test_data_descriptor_added_to_the_class_afterwards() -> None:
    class A:
        def __init__(self) -> None:
            self.value = 1

    def f(x: torch.Tensor, a: A) -> Any:
        return x + a.value

    probe, a = Probe(f), A()
    assert probe(X, a) == 1
    A.value = property(lambda self: 50)  # type: ignore[assignment]
    assert probe(X, a) == 1


def test_special_methods_added_afterwards() -> None:
    class A:
        pass

    def f(x: torch.Tensor, a: Any) -> Any:
        return x + 1 if a else x - 1

    probe, a = Probe(f), A()
    assert probe(X, a) == 1
    A.__bool__ = lambda self: False  # type: ignore[attr-defined]
    assert probe(X, a) >= 1
    del A.__bool__  # type: ignore[attr-defined]
    A.__len__ = lambda self: 0  # type: ignore[attr-defined]
    assert probe(X, a) >= 1


def test_getattr_added_and_attribute_appears() -> None:
    class A:
        pass

    def f(x: torch.Tensor, a: Any) -> Any:
        return x + getattr(a, "value", 10), hasattr(a, "other")

    probe, a = Probe(f), A()
    assert probe(X, a) == 1
    a.value = 1  # type: ignore[attr-defined]
    assert probe(X, a) == 1
    a.other = 1  # type: ignore[attr-defined]
    assert probe(X, a) == 1
    del a.value, a.other  # type: ignore[attr-defined]
    A.other = 2  # type: ignore[attr-defined]
    assert probe(X, a) >= 1
    del A.other  # type: ignore[attr-defined]
    A.__getattr__ = lambda self, name: 99  # type: ignore[attr-defined]
    assert probe(X, a) >= 1


def test_getattribute_and_setattr_added() -> None:
    class A:
        def __init__(self) -> None:
            self.value = 1

    def f(x: torch.Tensor, a: Any) -> Any:
        a.seen = True
        return x + a.value

    probe, a = Probe(f), A()
    assert probe(X, a) == 1
    A.__getattribute__ = lambda self, name: 99  # type: ignore[assignment, method-assign]
    assert probe(X, a) >= 1
    del A.__getattribute__
    A.__setattr__ = lambda self, name, value: self.__dict__.__setitem__("value", 1234)  # type: ignore[assignment, method-assign]
    assert probe(X, a) >= 1


def test_slots() -> None:
    class S:
        __slots__ = ("a", "b")

    def f(x: torch.Tensor, s: S) -> Any:
        return x + s.a + getattr(s, "b", 100)  # type: ignore[attr-defined]

    probe, s = Probe(f), S()
    s.a = 1  # type: ignore[attr-defined]
    assert probe(X, s) == 1
    s.b = 2  # type: ignore[attr-defined]
    assert probe(X, s) == 1
    s.a = "text"  # type: ignore[attr-defined]
    assert probe(X, s) >= 1
    del s.a  # type: ignore[attr-defined]
    assert probe(X, s) >= 1


def test_class_attribute_read_through_the_class() -> None:
    class A:
        value = 1

    def f(x: torch.Tensor) -> Any:
        return x + A.value, getattr(A, "other", None), hasattr(A, "third")

    probe = Probe(f)
    assert probe(X) == 1
    A.value = 2
    assert probe(X) == 1
    A.other = 2  # type: ignore[attr-defined]
    assert probe(X) == 1
    A.third = 2  # type: ignore[attr-defined]
    assert probe(X) == 1


def test_class_names_and_bases() -> None:
    class Old:
        def value(self) -> int:
            return 1

    class New:
        def value(self) -> int:
            return 2

    class A(Old):
        pass

    def f(x: torch.Tensor, a: Any) -> Any:
        return x + a.value(), type(a).__name__, isinstance(a, New)

    probe, a = Probe(f), A()
    assert probe(X, a) == 1
    A.__bases__ = (New,)  # type: ignore[misc]
    assert probe(X, a) >= 1
    A.__name__ = "Renamed"
    assert probe(X, a) >= 1


def test_super_reaches_a_reassigned_method() -> None:
    class Base:
        def value(self) -> int:
            return 1

    class Middle(Base):
        pass

    class Derived(Middle):
        def value(self) -> int:
            return super().value() + 10

    def f(x: torch.Tensor, d: Derived) -> Any:
        return x + d.value()

    probe, d = Probe(f), Derived()
    assert probe(X, d) == 1
    Base.value = lambda self: 2  # type: ignore[method-assign]
    assert probe(X, d) == 1
    Middle.value = lambda self: 3  # type: ignore[method-assign]
    assert probe(X, d) == 1


def test_dataclass_fields() -> None:
    @dataclasses.dataclass
    class Settings:
        scale: float = 2.0
        name: str = "a"
        sizes: list[int] = dataclasses.field(default_factory=lambda: [1, 2])

    def f(x: torch.Tensor, s: Settings) -> Any:
        return x * s.scale + sum(s.sizes)

    probe = Probe(f)
    assert probe(X, Settings()) == 1
    assert probe(X, Settings(name="b")) == 0
    assert probe(X, Settings(scale=3.0)) == 1
    assert probe(X, Settings(sizes=[1, 2, 3])) >= 1


def test_enum_members() -> None:
    class Mode(enum.Enum):
        A = 1
        B = 2

    class Number(enum.IntEnum):
        A = 1
        B = 2

    def f(x: torch.Tensor, mode: Any) -> Any:
        return (x + 1 if mode is Mode.A else x - 1), mode == 1, mode.value

    probe = Probe(f)
    assert probe(X, Mode.A) == 1
    assert probe(X, Mode.B) == 1
    assert probe(X, Number.A) == 1
    assert probe(X, Number.B) == 1
    assert probe(X, Mode.A) == 0
