"""Functions and methods of collections and types that are C: Counter's helper, OrderedDict, defaultdict, namespaces."""

from __future__ import annotations

import collections
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from firesteel.capture.call_handlers import equivalent_of


@equivalent_of(collections._count_elements)  # type: ignore[attr-defined]
def count_elements(mapping: Any, iterable: Iterable[Any], /) -> None:
    for element in iterable:
        mapping[element] = mapping.get(element, 0) + 1


@equivalent_of(dict.fromkeys)
def dict_fromkeys(iterable: Iterable[Any], value: Any = None, /) -> dict[Any, Any]:
    result = {}
    for key in iterable:
        result[key] = value
    return result


@equivalent_of(OrderedDict.fromkeys)
def ordered_dict_fromkeys(iterable: Iterable[Any], value: Any = None) -> OrderedDict[Any, Any]:
    result: OrderedDict[Any, Any] = OrderedDict()
    for key in iterable:
        result[key] = value
    return result


# The methods below name OrderedDict's own pop and __setitem__, because the originals ignore overrides in subclasses.


@equivalent_of(OrderedDict.move_to_end)
def move_to_end(self: OrderedDict[Any, Any], key: Any, last: Any = True) -> None:
    to_end = bool(last)
    if not OrderedDict.__contains__(self, key):
        OrderedDict.pop(self, key)  # raises as the original does
    if to_end:
        moving = [key]
    else:
        # First place is what remains when all the others have moved to the end in their order.
        moving = [other for other in OrderedDict.keys(self) if not (other is key or other == key)]
    for moved in moving:
        OrderedDict.__setitem__(self, moved, OrderedDict.pop(self, moved))


@equivalent_of(OrderedDict.popitem)
def popitem(self: OrderedDict[Any, Any], last: Any = True) -> tuple[Any, Any]:
    keys = list(OrderedDict.keys(self))
    if not keys:
        raise KeyError("dictionary is empty")
    key = keys[-1] if last else keys[0]
    return key, OrderedDict.pop(self, key)


@equivalent_of(OrderedDict.__eq__)
def ordered_dict_eq(self: OrderedDict[Any, Any], other: Any, /) -> Any:
    equal = dict.__eq__(self, other)
    if equal is NotImplemented or not equal or not isinstance(other, OrderedDict):
        return equal
    for key, other_key in zip(OrderedDict.keys(self), OrderedDict.keys(other), strict=True):
        if not (key is other_key or key == other_key):
            return False
    return True


@equivalent_of(OrderedDict.__ne__)
def ordered_dict_ne(self: OrderedDict[Any, Any], other: Any, /) -> Any:
    equal = ordered_dict_eq(self, other)
    return equal if equal is NotImplemented else not equal


@equivalent_of(defaultdict.__missing__)
def defaultdict_missing(self: defaultdict[Any, Any], key: Any, /) -> Any:
    if self.default_factory is None:
        raise KeyError(key)
    value = self.default_factory()
    self[key] = value
    return value


# Methods that act otherwise on an instance of a subclass than on the builtin itself: they make an object of its class,
# or go through methods that it may override.


def dict_copy(self: dict[Any, Any], /) -> dict[Any, Any]:
    return dict(self)


def dict_or(self: dict[Any, Any], other: Any, /) -> Any:
    if not isinstance(other, dict):
        return NotImplemented
    merged = dict(self)
    merged.update(other)
    return merged


def dict_ror(self: dict[Any, Any], other: Any, /) -> Any:
    if not isinstance(other, dict):
        return NotImplemented
    merged = dict(other)
    merged.update(self)
    return merged


def fromkeys(cls: Any, iterable: Iterable[Any], value: Any = None, /) -> Any:
    mapping = cls()
    for key in iterable:
        mapping[key] = value
    return mapping


def ordered_dict_update(self: Any, /, *others: Any, **named: Any) -> None:
    if len(others) > 1:
        raise TypeError(f"update() takes at most 1 positional argument ({len(others)} given)")
    for other in others:
        if type(other) is dict:
            for key, value in list(other.items()):
                self[key] = value
        elif hasattr(other, "keys"):
            for key in other.keys():  # noqa: SIM118 - a mapping of the program's
                self[key] = other[key]
        else:
            for key, value in other:
                self[key] = value
    for name, value in named.items():
        self[name] = value


def ordered_dict_ior(self: Any, other: Any, /) -> Any:
    ordered_dict_update(self, other)
    return self


def ordered_dict_copy(self: Any, /) -> Any:
    copied = type(self)()
    for key in OrderedDict.keys(self):
        copied[key] = self[key]
    return copied


def ordered_dict_setdefault(self: Any, key: Any, default: Any = None) -> Any:
    if key in self:
        return self[key]
    self[key] = default
    return default


def ordered_dict_or(self: Any, other: Any, /) -> Any:
    if not isinstance(other, dict):
        return NotImplemented
    merged = type(self)(self)
    ordered_dict_update(merged, other)
    return merged


def ordered_dict_ror(self: Any, other: Any, /) -> Any:
    if not isinstance(other, dict):
        return NotImplemented
    merged = (type(other) if isinstance(other, OrderedDict) else type(self))(other)
    ordered_dict_update(merged, self)
    return merged


def defaultdict_copy(self: Any, /) -> Any:
    return type(self)(self.default_factory, self)


def defaultdict_or(self: Any, other: Any, /) -> Any:
    if not isinstance(other, dict):
        return NotImplemented
    merged = type(self)(self.default_factory, self)
    defaultdict.update(merged, other)
    return merged


def defaultdict_ror(self: Any, other: Any, /) -> Any:
    if not isinstance(other, dict):
        return NotImplemented
    leading = other if isinstance(other, defaultdict) else self
    merged = type(leading)(leading.default_factory, other)
    defaultdict.update(merged, self)
    return merged


def deque_copy(self: Any, /) -> Any:
    own: Any = deque.maxlen
    bound = self.maxlen if type(self).maxlen is own else own.__get__(self)
    return type(self)(self) if bound is None else type(self)(self, bound)


def deque_mul(self: Any, times: Any, /) -> Any:
    repeated = deque.copy(self)
    deque.__imul__(repeated, times)
    return repeated


def deque_add(self: Any, other: Any, /) -> Any:
    if not isinstance(other, deque):
        raise TypeError(f'can only concatenate deque (not "{type(other).__name__[:200]}") to deque')
    joined = deque.copy(self)
    deque.extend(joined, other)
    return joined



def frozenset_copy(self: Any, /) -> Any:
    return frozenset(frozenset.__iter__(self))


ON_SUBCLASSES: dict[type, dict[str, Callable[..., Any]]] = {
    dict: {"copy": dict_copy, "__or__": dict_or, "__ror__": dict_ror},
    OrderedDict: {
        "copy": ordered_dict_copy, "__or__": ordered_dict_or, "__ror__": ordered_dict_ror, "__ior__": ordered_dict_ior,
        "update": ordered_dict_update, "__init__": ordered_dict_update, "setdefault": ordered_dict_setdefault,
    },
    defaultdict: {"copy": defaultdict_copy, "__copy__": defaultdict_copy, "__or__": defaultdict_or,
                  "__ror__": defaultdict_ror},
    deque: {"copy": deque_copy, "__copy__": deque_copy, "__mul__": deque_mul, "__rmul__": deque_mul,
            "__add__": deque_add},
    frozenset: {"copy": frozenset_copy},
}
"""By builtin and name: what its method does on an instance of a subclass."""


@equivalent_of(types.SimpleNamespace.__eq__)
def namespace_eq(self: Any, other: Any, /) -> Any:
    if isinstance(self, types.SimpleNamespace) and isinstance(other, types.SimpleNamespace):
        return self.__dict__ == other.__dict__
    return NotImplemented


@equivalent_of(types.SimpleNamespace.__repr__)
def namespace_repr(self: Any, /) -> str:
    """Without the original's `...` for a namespace that contains itself."""
    cls = type(self)
    name = "namespace" if cls is types.SimpleNamespace else cls.__name__
    parts = []
    for attribute, value in self.__dict__.items():
        parts.append(f"{attribute}={value!r}")
    return f"{name}({', '.join(parts)})"
