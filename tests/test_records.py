"""Our dataclasses behave like the standard ones."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field
from typing import ClassVar

import pytest

from firesteel import records

KINDS = [dataclasses.dataclass, records.dataclass]


@records.dataclass(frozen=True, slots=True)
class Kept:
    """For pickle, which wants a name."""

    x: int
    y: tuple[int, ...] = ()


def classes(dataclass):
    @dataclass(frozen=True)
    class Frozen:
        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list, compare=False)
        shared: ClassVar[int] = 3

        @property
        def twice(self):
            return self.a * 2

    @dataclass(frozen=True)
    class Below(Frozen):
        d: int = 4

    @dataclass
    class Open:
        a: int
        b: list[int] = field(default_factory=list, repr=False)
        c: int = field(default=7, init=False)
        d: dict[str, int] = field(default_factory=dict, init=False)

        def __post_init__(self):
            self.total = self.a + len(self.b)

    @dataclass(frozen=True, eq=False)
    class Identity:
        a: int

    @dataclass(frozen=True, slots=True)
    class Slots:
        a: int
        b: int = 2

        def __repr__(self):
            return "own"

    @dataclass(slots=True)
    class OpenSlots:
        a: int
        b: list[int] = field(default_factory=list)

    @dataclass(frozen=True)
    class Empty:
        pass

    @dataclass(frozen=True)
    class Hashed:
        a: list[int]

        def __hash__(self):
            return 5

    return Frozen, Below, Open, Identity, Slots, OpenSlots, Empty, Hashed


def outcome(f):
    try:
        return f()
    except Exception as error:
        return type(error)


def results(dataclass):
    Frozen, Below, Open, Identity, Slots, OpenSlots, Empty, Hashed = classes(dataclass)
    one, low, free, slots = Frozen(1, c=[2]), Below(1, "x"), Open(1, [2, 3]), Slots(1)
    return [
        repr(one).rpartition(".")[2], repr(low).rpartition(".")[2], repr(free).rpartition(".")[2], repr(slots),
        repr(OpenSlots(1)).rpartition(".")[2], repr(Empty()).rpartition(".")[2],
        one == Frozen(1), one == Frozen(2), one == low, one != Frozen(1, "b"), low == Below(1, "x"), one == 1,
        hash(one) == hash(Frozen(1)), hash(Empty()) == hash(Empty()), hash(Hashed([])),
        hash(slots) == hash(Slots(1, 2)),
        outcome(lambda: hash(free)), outcome(lambda: hash(OpenSlots(1))), Empty() == Empty(), Slots(1) == Slots(1, 3),
        Identity(1) == Identity(1), isinstance(hash(Identity(1)), int), Open(1) == Open(1),
        OpenSlots(1) == OpenSlots(2),
        free.c, free.d, free.total, one.twice, one.shared, low.d, Below(1, d=9).d,
        outcome(lambda: setattr(one, "a", 2)), outcome(lambda: setattr(one, "new", 2)),
        outcome(lambda: delattr(low, "a")),
        outcome(lambda: setattr(slots, "a", 2)), outcome(lambda: setattr(free, "a", 5)), free.a,
        outcome(lambda: Frozen()), outcome(lambda: Frozen(1, 2, 3, 4)), outcome(lambda: Open(1, c=2)),
        outcome(lambda: setattr(OpenSlots(1), "new", 2)), Open(1).b is Open(1).b,
        dataclasses.replace(one, a=5).a, [f.name for f in dataclasses.fields(low)], dataclasses.asdict(one),
        dataclasses.astuple(slots), dataclasses.is_dataclass(Open), copy.copy(slots) == slots,
        copy.deepcopy(one) == one,
        Frozen.__match_args__, one.__doc__ is not None,
    ]  # fmt: skip


def test_same_as_the_standard_ones():
    ours, usual = results(records.dataclass), results(dataclasses.dataclass)
    for position, (one, other) in enumerate(zip(ours, usual, strict=True)):
        assert one == other, position


def test_messages():
    for kind in KINDS:
        Frozen = classes(kind)[0]
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
            Frozen(1).a = 2
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
            Frozen()


def test_text_of_what_contains_itself():
    @records.dataclass
    class Ring:
        items: list[object]

    ring = Ring([])
    ring.items.append(ring)
    assert repr(ring).endswith("Ring(items=[...])")


def test_pickle():
    assert pickle.loads(pickle.dumps(Kept(1, (2, 3)))) == Kept(1, (2, 3))


def test_unknown_kinds_of_fields():
    with pytest.raises(TypeError, match="the standard decorator"):
        @records.dataclass
        class ByName:
            a: int = field(kw_only=True)

    with pytest.raises(TypeError, match="the standard decorator"):
        @records.dataclass
        class OnlyForTheConstructor:
            a: dataclasses.InitVar[int]
