"""The functions of the operator module, written with the operators that they are."""

from __future__ import annotations

import operator
from collections import deque
from typing import Any

import torch

from firesteel.capture.equivalents.registry import MISSING, equivalent_of


@equivalent_of(operator.add)
def add(a: Any, b: Any, /) -> Any:
    return a + b


@equivalent_of(operator.sub)
def sub(a: Any, b: Any, /) -> Any:
    return a - b


@equivalent_of(operator.mul)
def mul(a: Any, b: Any, /) -> Any:
    return a * b


@equivalent_of(operator.matmul)
def matmul(a: Any, b: Any, /) -> Any:
    return a @ b


@equivalent_of(operator.truediv)
def truediv(a: Any, b: Any, /) -> Any:
    return a / b


@equivalent_of(operator.floordiv)
def floordiv(a: Any, b: Any, /) -> Any:
    return a // b


@equivalent_of(operator.mod)
def mod(a: Any, b: Any, /) -> Any:
    return a % b


@equivalent_of(operator.pow)
def pow(a: Any, b: Any, /) -> Any:
    return a**b


@equivalent_of(operator.lshift)
def lshift(a: Any, b: Any, /) -> Any:
    return a << b


@equivalent_of(operator.rshift)
def rshift(a: Any, b: Any, /) -> Any:
    return a >> b


@equivalent_of(operator.and_)
def and_(a: Any, b: Any, /) -> Any:
    return a & b


@equivalent_of(operator.or_)
def or_(a: Any, b: Any, /) -> Any:
    return a | b


@equivalent_of(operator.xor)
def xor(a: Any, b: Any, /) -> Any:
    return a ^ b


@equivalent_of(operator.lt)
def lt(a: Any, b: Any, /) -> Any:
    return a < b


@equivalent_of(operator.le)
def le(a: Any, b: Any, /) -> Any:
    return a <= b


@equivalent_of(operator.eq)
def eq(a: Any, b: Any, /) -> Any:
    return a == b


@equivalent_of(operator.ne)
def ne(a: Any, b: Any, /) -> Any:
    return a != b


@equivalent_of(operator.gt)
def gt(a: Any, b: Any, /) -> Any:
    return a > b


@equivalent_of(operator.ge)
def ge(a: Any, b: Any, /) -> Any:
    return a >= b


@equivalent_of(operator.is_)
def is_(a: Any, b: Any, /) -> Any:
    return a is b


@equivalent_of(operator.is_not)
def is_not(a: Any, b: Any, /) -> Any:
    return a is not b


@equivalent_of(operator.iadd)
def iadd(a: Any, b: Any, /) -> Any:
    a += b
    return a


@equivalent_of(operator.isub)
def isub(a: Any, b: Any, /) -> Any:
    a -= b
    return a


@equivalent_of(operator.imul)
def imul(a: Any, b: Any, /) -> Any:
    a *= b
    return a


@equivalent_of(operator.imatmul)
def imatmul(a: Any, b: Any, /) -> Any:
    a @= b
    return a


@equivalent_of(operator.itruediv)
def itruediv(a: Any, b: Any, /) -> Any:
    a /= b
    return a


@equivalent_of(operator.ifloordiv)
def ifloordiv(a: Any, b: Any, /) -> Any:
    a //= b
    return a


@equivalent_of(operator.imod)
def imod(a: Any, b: Any, /) -> Any:
    a %= b
    return a


@equivalent_of(operator.ipow)
def ipow(a: Any, b: Any, /) -> Any:
    a **= b
    return a


@equivalent_of(operator.ilshift)
def ilshift(a: Any, b: Any, /) -> Any:
    a <<= b
    return a


@equivalent_of(operator.irshift)
def irshift(a: Any, b: Any, /) -> Any:
    a >>= b
    return a


@equivalent_of(operator.iand)
def iand(a: Any, b: Any, /) -> Any:
    a &= b
    return a


@equivalent_of(operator.ior)
def ior(a: Any, b: Any, /) -> Any:
    a |= b
    return a


@equivalent_of(operator.ixor)
def ixor(a: Any, b: Any, /) -> Any:
    a ^= b
    return a


@equivalent_of(operator.neg)
def neg(a: Any, /) -> Any:
    return -a


@equivalent_of(operator.pos)
def pos(a: Any, /) -> Any:
    return +a


@equivalent_of(operator.invert, operator.inv)
def invert(a: Any, /) -> Any:
    return ~a


@equivalent_of(operator.not_)
def not_(a: Any, /) -> Any:
    return not a


@equivalent_of(operator.truth)
def truth(a: Any, /) -> Any:
    return bool(a)


@equivalent_of(operator.abs)
def abs_(a: Any, /) -> Any:
    return abs(a)


@equivalent_of(operator.getitem)
def getitem(a: Any, b: Any, /) -> Any:
    return a[b]


@equivalent_of(operator.setitem)
def setitem(a: Any, b: Any, c: Any, /) -> None:
    a[b] = c


@equivalent_of(operator.delitem)
def delitem(a: Any, b: Any, /) -> None:
    del a[b]


@equivalent_of(operator.contains)
def contains(a: Any, b: Any, /) -> bool:
    return b in a


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
