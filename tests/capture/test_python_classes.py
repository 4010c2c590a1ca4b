"""Making classes and objects under capture: construction, dataclasses, named tuples, enums."""

from __future__ import annotations

import collections
import dataclasses
import enum
import types
import typing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import torch

import firesteel as fs
from capture.differential import check, x
from capture.sample_classes import Shape, Square

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
        return (
            made,
            made.through_meta,
            WithMeta.shout,
            WithMeta.helper(x),
            isinstance(WithMeta, Meta),
            type(WithMeta) is Meta,
        )

    check(f)


def test_metaclass_container_protocol() -> None:
    def f(x):
        return x + len(WithMeta), WithMeta["k"], 1 in WithMeta, list(WithMeta)

    check(f)


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
        return (
            [fld.name for fld in dataclasses.fields(p)],
            dataclasses.is_dataclass(p),
            x * len(dataclasses.fields(Point)),
        )

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
        return (
            u.product(),
            u.total,
            t == Typed(1),
            t < Typed(2),
            Typed._field_defaults,
            u,
            isinstance(u, tuple),
            repr(t),
        )

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
        return (
            c.apply(x),
            c.name,
            c.value,
            c.nice,
            c is Color.RED,
            c == Color.GREEN,
            Color("g"),
            Color["RED"],
            [m.name for m in Color],
            Color.ALIAS is Color.RED,
            c in (Color.RED,),
            Color.default(),
            len(Color),
            {Color.RED: 1}[c],
            isinstance(c, Color),
            str(c),
            repr(c),
            f"{c}",
        )

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
        return (
            x + len(m),
            m == "fast",
            m.upper(),
            Mode("slow"),
            {"fast": 1}[m],
            m.value,
            Kind.ONE,
            Kind.ONE + "!",
            f"{Kind.ONE}",
        )

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


@pytest.mark.parametrize("base", [enum.Enum, enum.IntEnum, enum.Flag, enum.IntFlag])
def test_enums_made_in_a_function(base):
    class Local(base):
        RED = 1
        GREEN = 2

    compiled = fs.compile(lambda x, number, member: (x * 2, Local(number), Local.GREEN, member is Local.RED),
                          fullgraph=True, backend="eager")
    for number, member in ((1, Local.RED), (2, Local.GREEN), (1, Local.RED)):
        _, made, green, same = compiled(torch.ones(1), number, member)
        assert made is Local(number)
        assert green is Local.GREEN
        assert same is (member is Local.RED)


class Bits(enum.IntFlag):
    """Members whose text is no source code."""

    ONE = 1
    TWO = 2


class Reduction(str, enum.Enum):
    """Modes of losses as programs write them."""

    MEAN = "mean"


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_numbers_and_texts_of_subclasses_as_arguments_of_operators(backend):
    def f(x):
        return (x + (Bits.ONE | Bits.TWO), x.sum(Bits.ONE),
                torch.nn.functional.mse_loss(x, x * 2, reduction=Reduction.MEAN))

    given = torch.arange(6.0).reshape(2, 3)
    for expected, found in zip(f(given), fs.compile(f, backend=backend, fullgraph=True)(given), strict=True):
        assert torch.equal(expected, found)
