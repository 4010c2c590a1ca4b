"""Variables that nothing reads any more, but whose objects somebody notices the end of.

Python keeps what a variable holds until the function returns, deletes the variable or stores something else in it. A
continuation gets the variables that it may read; a temporary directory, the target of a weak reference or a generator
in the middle of a `with` block has to come along as well:

    folder = tempfile.TemporaryDirectory()
    path = folder.name
    if x.sum() > 0:              # a break: `folder` is not read below, and must not be removed yet
        torch.save(x, path)
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

import torch

from .source import LocalSource
from .values.base import ContainerValue, LazyValue, Value
from .values.mappings import DictValue
from .values.objects import ObjectValue
from .values.sequences import ListValue, TupleValue
from .values.sets import SetValue
from .values.tensors import TensorValue

# Memory, and what lives longer than a call anyway.
_LIVE_LONGER = (torch.Tensor, torch.nn.Module, type, types.ModuleType, types.FunctionType, str, int, float)
_DEPTH = 3
_WIDTH = 50


def is_watched(obj: Any) -> bool:
    """Whether somebody notices when `obj` goes away: it, or something it holds, has a finalizer or weak references.

    >>> class Node: ...
    >>> node = Node()
    >>> is_watched([node])
    False
    >>> reference = weakref.ref(node)
    >>> is_watched([node])
    True
    """
    return _somewhere(obj, lambda held: bool(weakref.getweakrefcount(held)) or _has_finalizer(held))


def end_is_noticed(obj: Any) -> bool:
    """Whether code of the program runs when `obj` goes away."""
    return _somewhere(obj, lambda held: _has_finalizer(held) or any(
        ref.__callback__ is not None for ref in weakref.getweakrefs(held) if issubclass(type(ref), weakref.ref)))


def _has_finalizer(obj: Any) -> bool:
    if type(obj) is types.GeneratorType:
        return obj.gi_frame is not None  # a generator in the middle is closed
    return _on_class(type(obj), "__del__") is not None


def _on_class(cls: type, name: str) -> Any:
    """An attribute of a class, without asking the class or its metaclass."""
    for base in type.__dict__["__mro__"].__get__(cls):
        member = type.__dict__["__dict__"].__get__(base).get(name)
        if member is not None:
            return member
    return None


def _somewhere(obj: Any, test: Callable[[Any], bool], depth: int = _DEPTH) -> bool:
    """Whether `test` holds for an object or for something that it holds."""
    if issubclass(type(obj), _LIVE_LONGER):
        return False
    return test(obj) or depth > 0 and any(_somewhere(held, test, depth - 1) for held in _held_by(obj))


def _held_by(obj: Any) -> Iterable[Any]:
    """Some of what an object holds, found without running the user's code."""
    cls = type(obj)
    if cls is list or cls is tuple or cls is set or cls is frozenset:
        return list(obj)[:_WIDTH]
    if cls is dict:
        return list(obj.values())[:_WIDTH]
    place = _on_class(cls, "__dict__")
    attributes = place.__get__(obj) if type(place) is types.GetSetDescriptorType else None
    return list(attributes.values())[:_WIDTH] if type(attributes) is dict else ()


def kept_alive(
    variables: Mapping[str, Value], arguments: Mapping[str, Any], passed: Sequence[Value]
) -> Iterator[str]:
    """Names of those `variables` that hold, or lie around, an object that is watched.

    `arguments` are the real objects that the entry was captured for. The step that breaks the graph may begin to watch
    what it gets (``weakref.ref(node)``): objects and containers that are `passed` to it count as watched.
    """
    given = [part for value in passed if not isinstance(part := _settled(value), TensorValue)]
    built = {id(value) for value in given if isinstance(value, (ObjectValue, ContainerValue)) and value.source is None}
    real = [obj for value in given
            if not issubclass(type(obj := getattr(value, "real", None)), (*_LIVE_LONGER, NoneType))]

    def is_given(obj: Any) -> bool:
        return any(obj is one for one in real)

    for name, value in variables.items():
        for part in _parts(_settled(value)):
            if id(part) in built or isinstance(part.source, LocalSource) and (
                    is_watched(held := arguments[part.source.variable]) or real and _somewhere(held, is_given)):
                yield name
                break


def _settled(value: Value) -> Value:
    return value.known or value if isinstance(value, LazyValue) else value


def _parts(value: Value, depth: int = _DEPTH) -> Iterator[Value]:
    """A value, and what it holds if the compiled function made it."""
    yield value
    if value.source is not None or depth == 0:
        return
    held: list[Value | None] = []
    if isinstance(value, ObjectValue):
        held = [value.storage, *value.attrs.values()]
    elif isinstance(value, DictValue):
        held = [item for _, item in value.items.values()]
    elif isinstance(value, SetValue):
        held = list(value.items.values())
    elif isinstance(value, (ListValue, TupleValue)):
        held = [*(value.items or ())]
    for part in held[:_WIDTH]:
        if part is not None:
            yield from _parts(_settled(part), depth - 1)
