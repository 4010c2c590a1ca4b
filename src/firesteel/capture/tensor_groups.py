"""Grouping of tensors by device and dtype: how torch prepares lists of parameters for its ``_foreach`` functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..torch_compat import group_tensors
from .call_handlers import handles
from .signals import GraphBreak
from .values.base import Value
from .values.constants import ConstantValue
from .values.mappings import DictValue
from .values.sequences import ListValue, TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer


@handles(group_tensors)
def call_group_tensors(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """One group is what nearly all programs have; the order of several is up to a hash table in C++."""
    lists = [tx.to_list(part) for part in tx.to_list(args[0])]
    first = [value.realize() for value in lists[0]] if lists else []
    kinds = {(value.fake.device, value.fake.dtype) if isinstance(value, TensorValue) else None for value in first}
    if len(kinds) != 1 or None in kinds:
        raise GraphBreak("tensors of several devices or dtypes are grouped")
    ((device, dtype),) = kinds  # type: ignore[misc]
    wanted = args[1] if len(args) > 1 else kwargs.get("with_indices", ConstantValue(False))
    indices = range(len(first)) if tx.truth(wanted) else range(0)
    group = TupleValue([ListValue([ListValue(part) for part in lists]), ListValue([tx.constant(i) for i in indices])])
    key = TupleValue([tx.constant(device), tx.constant(dtype)])
    return DictValue({key.key(tx): (key, group)})
