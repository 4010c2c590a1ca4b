"""Guards: everything a capture relied on, as checks that the generated entry makes before it runs."""

from __future__ import annotations

import enum
import math
import types
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy
import torch

from .. import torch_compat
from ..errors import UserFrame
from ..records import dataclass
from .source import Source, WeakConstant, goes_away


@dataclass(frozen=True, slots=True)
class Guard:
    """One check.

    ``template`` is a Python condition in which ``{0}`` stands for the value of ``source`` and ``{k[i]}`` for the i-th
    object of ``constants``, bound into the entry.
    """

    source: Source | None
    kind: str
    template: str
    constants: tuple[Any, ...] = ()
    frames: tuple[UserFrame, ...] = ()
    others: tuple[Source, ...] = ()
    #: The check in words, where the condition itself says little.
    text: str = ""

    def code(self, variable: Callable[[Source], str], constant: Callable[[object], str]) -> str:
        names = [variable(self.source)] if self.source is not None else [""]
        names.extend(variable(other) for other in self.others)
        return self.template.format(*names, k=[constant(held(obj)) for obj in self.constants])

    def describe(self) -> str:
        """The check in the user's terms."""
        if self.text:
            return self.text
        names = [self.source.name if self.source is not None else ""]
        names.extend(other.name for other in self.others)
        return self.template.format(*names, k=[_short(obj) for obj in self.constants])

    def __str__(self) -> str:
        where = f"    # {self.frames[-1].filename}:{self.frames[-1].lineno}" if self.frames else ""
        return self.describe() + where


def hold(obj: Any) -> Any:
    """What a guard keeps of a constant: it must not keep alive what may go away."""
    return WeakConstant(obj) if goes_away(obj) else obj


def held(obj: Any) -> Any:
    """The object that `hold` was given, or None when it is gone."""
    return obj.ref() if type(obj) is WeakConstant else obj


def _short(obj: object) -> str:
    if isinstance(obj, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
        return obj.__name__
    text = repr(obj)
    return text if len(text) < 80 else text[:77] + "..."


@dataclass(frozen=True, slots=True)
class NumberSeen:
    """A number from outside that a capture used, and its value then."""

    source: Source
    value: Any


@dataclass
class GuardSet:
    """The guards of one capture, in the order in which the capture came to rely on them, each once."""

    guards: list[Guard] = field(default_factory=list)
    _seen: set[Any] = field(default_factory=set)

    def add(self, guard: Guard) -> None:
        key = (guard.source, guard.others, guard.template, tuple(id(held(c)) for c in guard.constants))
        if key in self._seen:
            return
        self._seen.add(key)
        self.guards.append(guard)

    def has(self, source: Source, template: str) -> bool:
        return (source, (), template, ()) in self._seen

    def __len__(self) -> int:
        return len(self.guards)


def constant_condition(value: object) -> tuple[str, tuple[Any, ...]]:
    """The condition under which a value read from a source equals the constant ``value``.

    >>> constant_condition(3)
    ('{0} == 3 and type({0}) is int', ())
    """
    if value is None or value is True or value is False or value is Ellipsis or value is NotImplemented:
        return f"{{0}} is {value!r}", ()
    kind = type(value)
    if kind in {int, str}:
        text = repr(value).replace("{", "{{").replace("}", "}}")
        return f"{{0}} == {text} and type({{0}}) is {kind.__name__}", ()
    if kind is float:
        assert isinstance(value, float)
        if math.isnan(value):
            return "type({0}) is float and {0} != {0}", ()
        if value == 0.0:
            # 0.0 == -0.0, yet programs can tell them apart
            return f"type({{0}}) is float and repr({{0}}) == {repr(value)!r}", ()
        return "type({0}) is float and {0} == {k[0]}", (value,)
    if kind in EQUAL_MEANS_SAME:
        return "{0} == {k[0]} and type({0}) is {k[1]}", (value, kind)
    return "{k[1]}({0}, {k[0]})", (value, same_constant)


def stamp_condition(stamp: torch_compat.Stamp, name: Callable[[Any], str]) -> str:
    """The condition that what a stamp says of a class is still so; ``name(obj)`` names a bound object."""
    return f"({name(stamp.current)}.value == {name(stamp.known)}.value or {name(stamp.recheck)}())"


def asks_for_hashes(mapping: OrderedDict[Any, Any]) -> bool:
    """Whether going through an ordered dictionary calls methods of the program: it looks every key up again."""
    return any(map(_hashes_itself, dict.keys(mapping)))


def _hashes_itself(key: Any) -> bool:
    if type(key) is tuple:
        return any(map(_hashes_itself, key))
    hashes = type(key).__hash__
    return isinstance(hashes, types.FunctionType) and hashes not in (enum.Enum.__hash__, torch.Tensor.__hash__)


def keys_of(mapping: Any) -> list[Any]:
    """The keys of a mapping in order, past the methods that a subclass of dict overrides."""
    if isinstance(mapping, OrderedDict) and not asks_for_hashes(mapping):
        return list(OrderedDict.keys(mapping))  # in an order that is not that of the dictionary below it
    return list(dict.keys(mapping)) if isinstance(mapping, dict) else list(mapping)


def values_of(mapping: Any) -> list[Any]:
    """The values of a mapping in the order of its keys, past the methods that a subclass of dict overrides."""
    if isinstance(mapping, OrderedDict):
        values = {id(key): value for key, value in dict.items(mapping)}  # asks no key for its hash
        return [values[id(key)] for key in keys_of(mapping)]
    return list(dict.values(mapping) if isinstance(mapping, dict) else mapping.values())


EQUAL_MEANS_SAME: frozenset[type] = frozenset({bytes, torch.device, torch.Size})


def has_at(keys: list[Any], expected: list[tuple[int, Any]]) -> bool:
    """Whether some of the keys are known constants, each at its position."""
    return all(same_constant(keys[position], key) for position, key in expected)


def same_constant(left: Any, right: Any) -> bool:
    """Whether a program cannot tell two immutable objects apart, except by identity.

    >>> same_constant((1, 0.0), (1, 0.0)), same_constant(1, True), same_constant(0.0, -0.0)
    (True, False, False)
    """
    kind = type(left)
    if kind is not type(right):
        return False
    if kind is tuple or kind is list:
        return len(left) == len(right) and all(map(same_constant, left, right))
    if kind is frozenset or kind is set:
        # the order of iteration depends on how a set came about
        return len(left) == len(right) and all(map(same_constant, left, right))
    if kind is slice or kind is range:
        return all(map(same_constant, (left.start, left.stop, left.step), (right.start, right.stop, right.step)))
    if kind is float or kind is complex:
        return repr(left) == repr(right)
    if isinstance(left, numpy.generic):
        return left.dtype == right.dtype and left.tobytes() == right.tobytes()
    return bool(left == right)


def is_constant_key(key: Any) -> bool:
    """Whether a dictionary key can be known by equality alone."""
    if isinstance(key, float) and key != key:
        return False  # equal to nothing but the same object
    if isinstance(key, (str, int, float, bool, bytes, type(None), torch.dtype, torch.device, type)):
        return True
    if isinstance(key, (tuple, frozenset)):
        return all(is_constant_key(part) for part in key)
    return isinstance(key, (enum.Enum, types.FunctionType, types.BuiltinFunctionType, types.ModuleType))
