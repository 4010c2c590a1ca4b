"""Containers and copying against their equivalents: collections, cached_property, copy and deepcopy."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import functools
import threading
import types
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.capture.equivalents.observing import Source, assert_equivalent

from firesteel.capture.equivalents import REGISTRY

our_copy = REGISTRY[copy.copy]
our_deepcopy = REGISTRY[copy.deepcopy]


def test_count_elements() -> None:
    count = REGISTRY[collections._count_elements]  # type: ignore[attr-defined]
    for text in ("", "abracadabra", [1, 1.0, True, 2]):
        counter: Counter[Any] = Counter({"a": 3})
        count(counter, text)
        assert counter == Counter({"a": 3}) + Counter(text)
        assert list(counter) == list(Counter("a") + Counter(text))
    assert_equivalent(collections._count_elements, lambda log: ({}, Source(log, "a", [1, ValueError("end")])))
    assert_equivalent(collections._count_elements, lambda log: ({}, [[]]))


@pytest.mark.parametrize("original", [dict.fromkeys, OrderedDict.fromkeys], ids=lambda f: f.__qualname__)
def test_fromkeys(original: Any) -> None:
    for arguments in (("aba",), ("ab", 1), ([],), (5,), ([[]],)):
        assert_equivalent(original, lambda log, arguments=arguments: arguments)


@given(keys=st.lists(st.integers(0, 5), unique=True), key=st.integers(0, 5), last=st.booleans())
@settings(deadline=None)
def test_ordered_dict(keys: list[int], key: int, last: bool) -> None:
    for original, arguments in [(OrderedDict.move_to_end, (key, last)), (OrderedDict.popitem, (last,))]:
        outcomes = []
        for function in (original, REGISTRY[original]):
            table = OrderedDict((k, -k) for k in keys)
            try:
                outcomes.append(function(table, *arguments))
            except KeyError as error:
                outcomes.append(error.args)
            outcomes.append(list(table.items()))
            outcomes.append(list(reversed(table)))
        assert outcomes[:3] == outcomes[3:]


def test_ordered_dict_equality() -> None:
    tables = [OrderedDict(a=1, b=2), OrderedDict(b=2, a=1), {"b": 2, "a": 1}, OrderedDict(a=1), OrderedDict(), 5]
    for original in (OrderedDict.__eq__, OrderedDict.__ne__):
        for a in tables[:2] + tables[3:5]:
            for b in tables:
                assert REGISTRY[original](a, b) is original(a, b)


def test_defaultdict() -> None:
    ours: defaultdict[Any, Any] = defaultdict(list)
    REGISTRY[defaultdict.__missing__](ours, 1).append(2)
    assert ours == {1: [2]}
    with pytest.raises(KeyError) as raised:
        REGISTRY[defaultdict.__missing__](defaultdict(), 5)
    assert raised.value.args == (5,)
    copied = REGISTRY[defaultdict.copy](ours)
    assert copied == ours and copied.default_factory is list and copied[1] is ours[1]


def test_namespace() -> None:
    class Named(types.SimpleNamespace):
        pass

    spaces = [types.SimpleNamespace(a=1, b="x"), types.SimpleNamespace(a=1), Named(a=1), types.SimpleNamespace()]
    for a in spaces:
        assert REGISTRY[types.SimpleNamespace.__repr__](a) == repr(a)
        for b in [*spaces, 5]:
            assert REGISTRY[types.SimpleNamespace.__eq__](a, b) is types.SimpleNamespace.__eq__(a, b)


def test_cached_property() -> None:
    class Slotted:
        __slots__ = ()

    calls = []

    class Owner:
        @functools.cached_property
        def value(self) -> int:
            calls.append(self)
            return 5

    get = REGISTRY[functools.cached_property.__get__]
    descriptor = vars(Owner)["value"]
    owner = Owner()
    assert get(descriptor, None, Owner) is descriptor
    assert [get(descriptor, owner, Owner), get(descriptor, owner)] == [5, 5]
    assert calls == [owner] and vars(owner) == {"value": 5}
    for broken, instance in [(functools.cached_property(len), owner), (descriptor, Slotted()), (descriptor, Plain)]:
        messages = []
        for function in (functools.cached_property.__get__, get):
            with pytest.raises(TypeError) as raised:
                function(broken, instance)
            messages.append(str(raised.value))
        assert messages[0] == messages[1]


class Plain:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Slots:
    __slots__ = ("a", "__private", "unset")

    def __init__(self, a: Any) -> None:
        self.a = a
        self.__private = [a]


class SlotsAndDict(Slots):
    pass


class OwnCopy(Plain):
    def __copy__(self) -> Any:
        return ("copy", self)

    def __deepcopy__(self, memo: Any) -> Any:
        return ("deepcopy", type(memo))


class OwnState(Plain):
    def __getstate__(self) -> Any:
        return {"state": self.__dict__}

    def __setstate__(self, state: Any) -> None:
        self.restored = state


class OwnReduce(Plain):
    def __reduce__(self) -> Any:
        return Plain, (), {"reduced": [1]}


class Singleton(Plain):
    def __reduce__(self) -> Any:
        return "SINGLETON"


class NewArguments:
    def __new__(cls, a: Any, *, b: Any = None) -> Any:
        self = super().__new__(cls)
        self.a, self.b = a, b
        return self

    def __getnewargs_ex__(self) -> Any:
        return (self.a,), {"b": self.b}


class MyList(list):
    pass


class MyDict(dict):
    pass


class MyTuple(tuple):
    pass


class MySet(set):
    pass


class MyDeque(deque):
    pass


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Data:
    a: Any
    b: Any = 5


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenData:
    a: Any


class Colour(enum.Enum):
    RED = [1]


def with_attribute(value: Any) -> Any:
    value.attribute = [1]
    return value


inner = [1, [2]]
VALUES: list[Any] = [
    None, 1, 1.5, True, 1j, "s", b"b", int, range(3), ..., NotImplemented, len, test_namespace, property(),
    [inner, inner], (1, 2), (inner, 2), {"a": inner, (1,): inner}, {1, 2}, {(1, "a")}, frozenset([1]), bytearray(b"x"),
    Plain(), Plain(a=inner, b=Plain(c=inner)), Slots(inner), SlotsAndDict(inner), with_attribute(SlotsAndDict(inner)),
    OwnCopy(a=1), OwnState(a=inner), OwnReduce(), Singleton(), NewArguments(inner, b=inner),
    with_attribute(MyList([inner])), with_attribute(MyDict(a=inner)), with_attribute(MyTuple([inner, 1])), MyTuple(),
    with_attribute(MySet([1, 2])), deque([inner], 3), deque([inner]), with_attribute(MyDeque([inner])),
    OrderedDict(b=inner, a=1), defaultdict(list, a=inner), defaultdict(), Counter("abca"), Pair(inner, 1), Data(inner),
    FrozenData(inner), Colour.RED, types.SimpleNamespace(a=inner), Plain(a=1).__init__, ValueError("a", inner),
    slice(1, 2), threading.Lock(), (n for n in [1]), iter([1, 2]), object(), functools.partial(len, inner), Exception,
]  # fmt: skip


def shape(value: Any, seen: dict[int, int]) -> Any:
    """`value` with its types and content, in which equal numbers mark the same object and `=` the original one."""
    if type(value) in (type(None), int, float, bool, complex, str, bytes, type):
        return (type(value), value)
    if id(value) in seen:
        return ("seen", seen[id(value)])
    seen[id(value)] = len(seen)
    parts: list[Any] = [type(value)]
    if isinstance(value, (list, tuple, deque)):
        parts += [shape(element, seen) for element in value]
    if isinstance(value, deque):
        parts.append(value.maxlen)
    if isinstance(value, (set, frozenset)):
        parts += [shape(element, seen) for element in sorted(value)]
    if isinstance(value, dict):
        parts += [(shape(key, seen), shape(element, seen)) for key, element in value.items()]
    if isinstance(value, defaultdict):
        parts.append(value.default_factory)
    for name in ("a", "_Slots__private", "unset", "__self__", "__func__", "args"):
        if hasattr(value, name) and not isinstance(value, type):
            parts.append((name, shape(getattr(value, name), seen)))
    if hasattr(value, "__dict__") and not isinstance(value, (type, types.FunctionType, types.MethodType)):
        parts.append(shape(vars(value), seen))
    return parts


def outcome(function: Any, value: Any) -> Any:
    # The shape of the original comes first, so that parts shared with it show as seen.
    seen: dict[int, int] = {}
    before = shape(value, seen)
    try:
        return before, shape(function(value), seen)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_copy(value: Any) -> None:
    assert outcome(our_copy, value) == outcome(copy.copy, value)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_deepcopy(value: Any) -> None:
    assert outcome(our_deepcopy, value) == outcome(copy.deepcopy, value)


def test_deepcopy_of_cycles() -> None:
    cycle: list[Any] = [1]
    cycle.append((cycle, {"self": cycle}))
    plain = Plain(items=cycle)
    plain.me = plain  # type: ignore[attr-defined]
    cycle.append(plain)
    for value in (cycle, cycle[1], plain):
        assert outcome(our_deepcopy, value) == outcome(copy.deepcopy, value)


def test_deepcopy_memo() -> None:
    shared = [1]
    memo: dict[int, Any] = {id(shared): "known"}
    assert our_deepcopy([shared, shared], memo) == ["known", "known"]
    assert len(memo[id(memo)]) == 1  # the outer list is kept alive


# Without classes, whose `__reduce_ex__` is not bound to them, and without the lock, whose error names its C type.
REDUCIBLE = [value for value in VALUES if not isinstance(value, (type, type(threading.Lock())))]
REDUCIBLE = [value for value in REDUCIBLE if type(value).__reduce_ex__ is object.__reduce_ex__]


@pytest.mark.parametrize("value", REDUCIBLE, ids=lambda value: type(value).__name__)
def test_reduction_by_equivalents_alone(value: Any) -> None:
    """copy calls `__reduce_ex__` of the real object, in C; this calls what capture will put in its place."""

    def reduced(function: Any) -> Any:
        try:
            result = function(value, 4)
        except TypeError as error:
            return str(error)
        if isinstance(result, str):
            return result
        parts = [list(part) if hasattr(part, "__next__") else part for part in result]
        return [shape(part, {}) if i else part for i, part in enumerate(parts)]

    def ours(value: Any, protocol: int) -> Any:
        method = type(value).__reduce__
        if method in REGISTRY:
            return REGISTRY[method](value)
        return REGISTRY[object.__reduce_ex__](value, protocol)

    assert reduced(ours) == reduced(lambda value, protocol: value.__reduce_ex__(protocol))


def test_reducible_values_were_found() -> None:
    assert len(REDUCIBLE) > 30
