"""Classes made inside compiled functions that outlive them: every call makes its own, with all that Python sees."""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import torch

import firesteel as fs
from capture.differential import x


def same_use(make: Callable[..., Any], use: Callable[..., Any]) -> None:
    """What `use` makes of the results of plain and of compiled calls; each call makes classes of its own."""
    expected = repr(use(*make(x())))
    compiled = fs.compile(make, backend="eager", fullgraph=True)
    results = [compiled(x()) for _ in range(3)]
    for result in results:
        assert repr(use(*result)) == expected
    classes = [item for result in results for item in result if isinstance(item, type)]
    assert len(set(map(id, classes))) == len(classes)


def test_classes_and_instances() -> None:
    def make(x):
        class A:
            k = 2

            def f(self):
                return self.k

            @property
            def p(self):
                return self.v * 2

            @classmethod
            def make(cls, v):
                a = cls()
                a.v = v
                return a

            def is_a(self):
                return isinstance(self, A)

        class B(A):
            def f(self):
                return super().f() + 1

        return B.make(x), B, A

    same_use(make, lambda b, B, A: [
        b.p, b.f(), b.is_a(), B.__mro__[1] is A, type(b) is B, B.__qualname__, B.__module__, B.make(1).p,
        list(vars(A))])


def test_enumerations() -> None:
    def make(x):
        class E(enum.Enum):
            A = 1
            B = enum.auto()

            def twice(self):
                return self.value * 2

        class F(enum.IntFlag):
            R = 1
            W = 2

        return x * E.B.value, E.A, E, F.R | F.W, F

    same_use(make, lambda y, a, E, flags, F: [y, a is E.A, E.B.twice(), flags, flags is F(3), list(E)])


def test_dataclasses() -> None:
    def make(x):
        @dataclasses.dataclass(order=True)
        class P:
            a: int
            b: list = dataclasses.field(default_factory=list, compare=False)
            c: float = 2.0

        p = P(1)
        p.b.append(x)
        return p, P, P(1) < P(2)

    same_use(make, lambda p, P, less: [p, P(5), P(1).b is not P(1).b, less, [f.name for f in dataclasses.fields(P)]])


def test_named_tuples() -> None:
    def make(x):
        P = collections.namedtuple("P", "a b", defaults=[3])
        return P(x), P

    same_use(make, lambda p, P: [p, type(p) is P, P(1, 2)._asdict(), P.__module__])


def test_abstract_classes() -> None:
    def make(x):
        class S(abc.ABC):
            @abc.abstractmethod
            def f(self): ...

            @property
            @abc.abstractmethod
            def g(self): ...

        class T(S):
            g = 3

            def f(self):
                return x

        try:
            S()
        except TypeError as error:
            return T().f(), str(error), S, T

    same_use(make, lambda y, message, S, T: [y, message, sorted(S.__abstractmethods__), T().g])


class Registry:
    names: tuple[str, ...] = ()

    def __init_subclass__(cls, *, tag="none", **keywords):
        super().__init_subclass__(**keywords)
        Registry.names = (*Registry.names, cls.__name__)
        cls.tag = tag


def test_hooks_of_classes_run_once() -> None:
    def make(x):
        class Named:
            def __set_name__(self, owner, name):
                self.names = (owner.__name__, name)

            def __get__(self, obj, owner=None):
                return self.names

        class C(Registry, tag="c"):
            d = Named()

        return C(), C.d, C

    Registry.names = ()
    same_use(make, lambda c, names, C: [names, c.d, C.tag])
    assert Registry.names == ("C",) * 4


def test_metaclasses() -> None:
    def make(x):
        class M(type):
            def __new__(mcls, name, bases, namespace, **keywords):
                namespace["extra"] = len(name)
                return super().__new__(mcls, name, bases, namespace)

            def __init__(cls, name, bases, namespace, **keywords):
                super().__init__(name, bases, namespace)
                cls.keywords = keywords

            def __call__(cls, *args):
                made = super().__call__(*args)
                made.z = 1
                return made

        class C(metaclass=M, option=3):
            pass

        class Derived(C):
            pass

        return C(), Derived, Derived().z

    same_use(make, lambda c, D, z: [D.extra, D.keywords, type(c).keywords, D().z, c.z, z, type(D).__name__])


def test_classes_that_refer_to_themselves() -> None:
    def make(x):
        class Node:
            count = 0

            def __init__(self, value):
                self.value = value
                Node.count += 1

            def child(self):
                return Node(self.value + 1)

        return Node(x).child(), Node, Node.count

    same_use(make, lambda n, Node, count: [n.child().value, Node.count, count, type(n) is Node])


def test_exceptions_of_classes_made_inside() -> None:
    def make(x):
        class Wrong(ValueError):
            pass

        raise Wrong("bad")

    compiled = fs.compile(make, backend="eager", fullgraph=True)
    for _ in range(2):
        try:
            compiled(torch.ones(2))
        except ValueError as error:
            assert (type(error).__name__, str(error)) == ("Wrong", "bad")


class Empty:
    pass


class Counted:
    step = 3

    def __init__(self, value):
        self.value = value

    def more(self):
        return Counted(self.value + self.step)


def test_bases_of_classes_made_inside_are_relied_on(monkeypatch):
    """What such a class inherits is also reached by the base's own name, and may change between calls."""
    def f(x):
        class Local(Empty, Counted):
            pass

        return x + Local(2).more().value + Local.step

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    x = torch.zeros(2)
    assert torch.equal(compiled(x), f(x))
    for owner, name, value in ((Counted, "step", 5), (Empty, "step", 7), (Empty, "more", lambda self: Counted(0))):
        monkeypatch.setattr(owner, name, value, raising=False)
        assert torch.equal(compiled(x), f(x))
    monkeypatch.undo()
    assert torch.equal(compiled(x), f(x))
