"""dataclasses, from the library reference."""

import dataclasses
from dataclasses import InitVar, asdict, astuple, dataclass, field, fields, is_dataclass, replace
from typing import ClassVar

import torch

from . import given


@dataclass
class _Item:
    name: str
    unit_price: float
    quantity_on_hand: int = 0

    def total_cost(self) -> float:
        return self.unit_price * self.quantity_on_hand


@dataclass(frozen=True, order=True)
class _Version:
    major: int
    minor: int = 0


@dataclass
class _Deck:
    cards: list = field(default_factory=list)
    size: int = field(init=False, repr=False, default=7)
    limit: ClassVar[int] = 52

    def __post_init__(self):
        self.size = len(self.cards)


@dataclass(slots=True, kw_only=True)
class _Options:
    scale: float = 1.0
    shift: float = 0.0


@dataclass
class _Output:
    logits: torch.Tensor
    loss: torch.Tensor | None = None


@dataclass
class _Scaled:
    value: float
    factor: InitVar[float] = 2.0

    def __post_init__(self, factor):
        self.value = self.value * factor


def inventory_item(x):
    item = _Item("widget", 3.0, 10)
    item.quantity_on_hand -= 2
    return x * item.total_cost(), item, repr(item), item == _Item("widget", 3.0, 8)


def frozen_instance(x):
    v = _Version(1)
    try:
        v.minor = 2
    except dataclasses.FrozenInstanceError as error:
        return x, str(error), v


def ordered(x):
    versions = [_Version(1, 2), _Version(0, 9), _Version(1)]
    return x, sorted(versions), max(versions), _Version(1) < _Version(1, 1), _Version(1) >= _Version(1)


def hashed(x):
    d = {_Version(1, 2): x}
    return d[_Version(1, 2)], len({_Version(1), _Version(1)})


def default_factory(x):
    a, b = _Deck(), _Deck([x])
    a.cards.append(1)
    return a, b, a.size, b.size, _Deck.limit, repr(_Deck())


def slots_and_keywords(x):
    o = _Options(scale=2.0)
    try:
        _Options(1.0)
    except TypeError as error:
        return x * o.scale + o.shift, str(error), o


def output_of_model(x):
    out = _Output(logits=x * 2)
    out.loss = out.logits.sum()
    return out, out.logits + 1


def init_variables(x):
    return x, _Scaled(3.0), _Scaled(3.0, factor=10.0).value


def as_dict_and_tuple(x):
    d = _Deck([_Version(1), 2])
    return x, asdict(d), astuple(_Version(3)), asdict(_Item("a", 1.0))


def replaced(x):
    v = replace(_Version(1, 2), minor=5)
    return x * v.minor, v, replace(_Item("a", 1.0), name="b")


def fields_of_class(x):
    names = [f.name for f in fields(_Item)]
    return (
        x,
        names,
        [f.default for f in fields(_Version)[1:]],
        is_dataclass(_Item),
        is_dataclass(_Item("a", 1.0)),
        is_dataclass(3),
    )


def made_inside(x):
    @dataclass
    class C:
        a: int
        b: list = field(default_factory=list)

    c = C(1)
    c.b.append(x)
    return c.a, c.b, repr(C(2)), C(1, [2]) == C(1, [2])


def inherited(x):
    @dataclass
    class Base:
        x: float = 15.0
        y: int = 0

    @dataclass
    class C(Base):
        z: int = 10
        x: int = 15

    c = C(y=1)
    return x * c.z, (c.x, c.y, c.z), [f.name for f in fields(C)]


def wrong_arguments(x):
    messages = []
    for call in (lambda: _Item(), lambda: _Item("a", 1, 2, 3), lambda: _Item("a", 1.0, weight=2)):
        try:
            call()
        except TypeError as error:
            messages.append(str(error))
    return x, messages


def comparison_of_other_types(x):
    try:
        _Version(1) < 5
    except TypeError as error:
        return x, _Version(1) == 5, _Version(1) != _Item("a", 1.0), str(error)


@given(lambda: (_Item("nut", 0.5, 4), _Deck([1])))
def mutate_arguments(x, item, deck):
    item.quantity_on_hand += 1
    deck.cards.append(x * item.quantity_on_hand)
    deck.size = len(deck.cards)
    return x + item.total_cost()


def nested_update(x):
    state = _Output(x, None)
    for step in range(3):
        state = replace(state, logits=state.logits + step)
    return state.logits, state.loss is None


def matched_by_position(x):
    match _Item("w", 2.0, 5):
        case _Item(name, price, quantity) if quantity > 3:
            return x * price, name, quantity
        case _:
            return x


def made_by_function(x):
    C = dataclasses.make_dataclass("C", [("a", int), "b", ("c", int, field(default=5))])
    c = C(1, 2)
    return x * c.c, repr(c)


def property_and_methods(x):
    @dataclass
    class Circle:
        radius: float

        @property
        def area(self):
            return 3 * self.radius**2

        @classmethod
        def unit(cls):
            return cls(1.0)

    return x * Circle(2.0).area, Circle.unit()
