"""Subclasses of builtins made and used inside; classes made inside; wrong calls."""

import collections
import dataclasses
import typing
from abc import ABC, abstractmethod

from .registry import rand, thing


class Set(set):
    extra = 1


class Frozen(frozenset):
    def double(self):
        return len(self) * 2


class Dict(dict):
    def __missing__(self, key):
        return 7


class List(list):
    def total(self):
        return sum(self)


class Tuple(tuple):
    __slots__ = ()


class Int(int):
    def half(self):
        return self // 2


class Text(str):
    def shout(self):
        return self.upper() + "!"


class Deque(collections.deque):
    pass


class Point(typing.NamedTuple):
    a: object
    b: int = 2


Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Config:
    scale: float = 2.0
    names: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenConfig:
    scale: float = 2.0


class Options(typing.TypedDict):
    scale: float


class Callable_(typing.Protocol):
    def __call__(self, x): ...


class Base(ABC):
    @abstractmethod
    def run(self, x): ...


class Derived(Base):
    def run(self, x):
        return x * 2


@thing()
def sets(x):
    s = Set([1, 2])
    s.add(3)
    return x * len(s) + s.extra, sorted(s), type(s | {5}).__name__


@thing(lambda: (rand(), Set([1, 2])))
def sets_from_outside(x, s):
    s.add(4)
    return x * len(s), 2 in s


@thing()
def frozensets(x):
    return x * Frozen([1, 2, 2]).double()


@thing()
def dicts(x):
    d = Dict(a=1)
    d["b"] = x
    return d["b"] * d["nothing"], list(d), d


@thing(lambda: (rand(), Dict(a=1)))
def dicts_from_outside(x, d):
    d["b"] = x + 1
    return x * d["z"]


@thing()
def lists(x):
    items = List([1, 2])
    items.append(3)
    return x * items.total(), items, items[1:]


@thing(lambda: (rand(), List([1, 2])))
def lists_from_outside(x, items):
    items.append(x)
    return x * len(items)


@thing()
def tuples(x):
    return x * len(Tuple([1, 2])), Tuple([x, 2])


@thing(lambda: (rand(), Int(6)))
def ints(x, n):
    return x * n.half() + Int(3), n + 1


@thing(lambda: (rand(), Text("a")))
def texts(x, s):
    return x + len(s.shout()), Text("b").shout()


@thing()
def deques(x):
    d = Deque([1, 2, 3], maxlen=3)
    d.append(x)
    d.rotate(1)
    return d[0] * 2, len(d)


@thing()
def namedtuples(x):
    p = Point(x)
    return p.a * p.b, p._replace(b=4), p._asdict()


@thing()
def a_namedtuple_class_inside(x):
    kind = collections.namedtuple("Kind", ["a", "b"])
    k = kind(x, 2)
    return k.a * k.b


@thing()
def a_typed_namedtuple_inside(x):
    class Local(typing.NamedTuple):
        a: object
        b: int = 3

    k = Local(x)
    return k.a * k.b


@thing()
def dataclasses_made(x):
    c = Config(3.0)
    c.names.append("a")
    return x * c.scale, c, dataclasses.replace(c, scale=1.0), dataclasses.asdict(c)


@thing()
def frozen_dataclasses(x):
    c = FrozenConfig(3.0)
    try:
        c.scale = 2
    except dataclasses.FrozenInstanceError as error:
        return x * c.scale, str(error)


@thing()
def a_dataclass_inside(x):
    @dataclasses.dataclass
    class Local:
        scale: int = 2

    return x * Local().scale, [f.name for f in dataclasses.fields(Local)]


@thing()
def typed_dicts(x):
    options = Options(scale=2.0)
    return x * options["scale"], options


@thing()
def protocols(x):
    class Runs(typing.Protocol):
        def run(self, x): ...

    return Derived().run(x), typing.get_type_hints(Config)["scale"] is float


@thing()
def abstract_classes(x):
    try:
        Base()
    except TypeError as error:
        return Derived().run(x), str(error), isinstance(Derived(), Base)


@thing()
def an_abstract_class_inside(x):
    class Local(ABC):
        @abstractmethod
        def run(self): ...

    class Other(Local):
        def run(self):
            return 3

    return x * Other().run()


@thing()
def text_of_containers(x):
    return str([1, "a", (2,)]), f"{ {'a': 1} }", repr({1, 2}), f"{Config()!r}", str(Point(1, 2)), x + 1


@thing()
def wrong_calls(x):
    def f(a, b):
        return a

    texts = []
    for call in (lambda: f(1), lambda: f(1, 2, 3), lambda: f(1, c=2), lambda: len(5), lambda: [].append(),
                 lambda: int("a", 2, 3), lambda: x.sin(1)):
        try:
            call()
        except (TypeError, ValueError) as error:
            texts.append(type(error).__name__ + str(error)[:40])
    return x + 1, texts


@thing()
def a_wrong_call_raises(x):
    def f(a):
        return a

    return f(x, x)


@thing()
def an_enumeration_inside(x):
    import enum

    class Colour(enum.Enum):
        RED = 1
        BLUE = 2

    return x * Colour.BLUE.value, Colour["RED"].name


@thing()
def ordered_and_default(x):
    d = collections.defaultdict(list)
    d["a"].append(x)
    o = collections.OrderedDict(b=1, a=2)
    o.move_to_end("b")
    return d["a"][0] * 2, list(o), collections.Counter("aab"), collections.ChainMap({"a": 1}, {"b": 2})["b"]
