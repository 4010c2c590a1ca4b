"""Functions of the operator module that are more than an operator."""

from __future__ import annotations

import operator
from collections import deque
from typing import Any

import torch

from firesteel.capture.call_handlers import MISSING, equivalent_of


@equivalent_of(operator.call)
def call(obj: Any, /, *args: Any, **kwargs: Any) -> Any:
    return obj(*args, **kwargs)


def _require_sequence(a: Any) -> None:
    if isinstance(a, (dict, torch.Tensor)) or not hasattr(type(a), "__getitem__"):
        raise TypeError(f"'{type(a).__name__}' object can't be concatenated")


def _require_concatenable(a: Any, b: Any) -> None:
    _require_sequence(a)
    if isinstance(a, (str, bytes, bytearray, list, tuple, deque)):
        return
    if not hasattr(type(b), "__getitem__") or not (hasattr(type(a), "__add__") or hasattr(type(b), "__radd__")):
        raise TypeError(f"'{type(a).__name__}' object can't be concatenated")


@equivalent_of(operator.concat)
def concat(a: Any, b: Any, /) -> Any:
    _require_concatenable(a, b)
    if type(a) is list:  # b is not asked
        return list.__add__(a, b)
    if type(a) is tuple:
        return tuple.__add__(a, b)
    return a + b


@equivalent_of(operator.iconcat)
def iconcat(a: Any, b: Any, /) -> Any:
    _require_concatenable(a, b)
    if type(a) is list:
        return list.__iadd__(a, b)
    if type(a) is tuple:
        return tuple.__add__(a, b)
    a += b
    return a


def _iter_of_container(a: Any) -> Any:
    try:
        return iter(a)
    except TypeError:
        raise TypeError(f"argument of type '{type(a).__name__}' is not iterable") from None


@equivalent_of(operator.countOf)
def countOf(a: Any, b: Any, /) -> int:
    iterator = _iter_of_container(a)
    count = 0
    while True:
        try:
            element = next(iterator)
        except StopIteration:
            return count
        if element is b or element == b:
            count += 1


@equivalent_of(operator.indexOf)
def indexOf(a: Any, b: Any, /) -> int:
    iterator = _iter_of_container(a)
    index = 0
    while True:
        try:
            element = next(iterator)
        except StopIteration:
            break
        if element is b or element == b:
            return index
        index += 1
    raise ValueError("sequence.index(x): x not in sequence")


@equivalent_of(operator.length_hint)
def length_hint(obj: Any, default: Any = 0, /) -> int:
    fallback = operator.index(default)
    if hasattr(type(obj), "__len__"):
        try:
            return len(obj)
        except TypeError:
            pass
    method = getattr(type(obj), "__length_hint__", MISSING)
    if method is MISSING:
        return fallback
    try:
        hint = method(obj)
    except TypeError:
        return fallback
    if hint is NotImplemented:
        return fallback
    if not isinstance(hint, int):
        raise TypeError(f"__length_hint__ must be an integer, not {type(hint).__name__}")
    if hint < 0:
        raise ValueError("__length_hint__() should return >= 0")
    return int(hint)
