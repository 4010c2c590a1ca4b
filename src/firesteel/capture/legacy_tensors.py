"""The constructors of old: ``torch.Tensor(2, 3)``, ``torch.LongTensor([1, 2])``.

They take sizes, or data, and look at neither default devices nor function modes. In the graph they are ``torch.empty``
and ``torch.tensor`` on the CPU. Tensors, arrays and storages as data are left to Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..devices import kind_of
from .signals import GraphBreak
from .values.base import Value
from .values.constants import ConstantValue, NumberValue
from .values.sequences import ListValue, TupleValue

if TYPE_CHECKING:
    from .tracer import Tracer

#: more numbers than this are made by Python
MAX_NUMBERS = 10_000


def is_legacy(cls: type) -> bool:
    """Whether a class is ``torch.Tensor`` or one like ``torch.FloatTensor``."""
    return cls is torch.Tensor or type(cls).__name__ == "tensortype"


def construct(tx: Tracer, cls: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``cls(*args)``; raises `GraphBreak` for what is left to Python."""
    given = [arg.realize() for arg in args]
    plain = cls.__module__ == "torch"  # not torch.cuda or torch.sparse
    with torch_compat.without_modes():
        empty = cls() if plain else None
    if kwargs or tx.torch_functions.modes or empty is None or not kind_of(empty).is_host:
        raise GraphBreak(f"torch.{cls.__name__}() with unusual arguments", "use torch.tensor() or torch.empty()")
    options = {"dtype": tx.python_object(empty.dtype), "device": tx.python_object(empty.device)}
    if len(given) == 1 and not _is_int(given[0]) and given[0].python_type() is not torch.Size:
        data = _numbers(tx, given[0], [])
        if data is None:
            raise GraphBreak(f"torch.{cls.__name__}() of {given[0].describe()}", "use torch.tensor()")
        if data.is_constant():  # what is refused, is refused here
            try:
                with torch_compat.without_modes():
                    cls(data.as_constant())
            except Exception as error:
                raise tx.raised(error) from None
        return tx.call(tx.python_object(torch.tensor), [data], options)
    sizes = given[0] if len(given) == 1 and given[0].python_type() is torch.Size else TupleValue(given)
    if not all(_is_int(size.realize()) for size in tx.to_list(sizes)):
        raise GraphBreak(f"torch.{cls.__name__}() with unusual arguments", "use torch.tensor() or torch.empty()")
    return tx.call(tx.python_object(torch.empty), [sizes if given else TupleValue([ConstantValue(0)])], options)


def _is_int(value: Value) -> bool:
    return isinstance(value, (ConstantValue, NumberValue)) and value.python_type() is int


def _numbers(tx: Tracer, value: Value, counted: list[None]) -> Value | None:
    """Nested lists and tuples of numbers as lists; None for anything else."""
    value = value.realize()
    if isinstance(value, ConstantValue) and type(value.value) is range:
        value = ListValue(tx.to_list(value)) if len(value.value) <= MAX_NUMBERS else value
    if not isinstance(value, (ListValue, TupleValue)) or value.python_type() not in {list, tuple}:
        return None
    items: list[Value] = []
    for item in tx.to_list(value):
        item = item.realize()
        counted.append(None)
        number = isinstance(item, (ConstantValue, NumberValue)) and item.python_type() in {bool, int, float}
        inner = item if number else _numbers(tx, item, counted)
        if inner is None or len(counted) > MAX_NUMBERS:
            return None
        items.append(inner)
    return ListValue(items)
