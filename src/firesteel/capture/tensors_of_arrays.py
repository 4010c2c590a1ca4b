"""``torch.from_numpy`` and other functions of torch's that make tensors of arrays of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy
import torch

from .break_reasons import not_known
from .call_handlers import handles
from .signals import GraphBreak
from .values.arrays import ArrayValue
from .values.base import Value
from .values.sequences import ListValue, TupleValue

if TYPE_CHECKING:
    from .tracer import Tracer


@handles(torch.from_numpy)
def from_numpy(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    array = args[0].realize() if len(args) == 1 else None
    if not isinstance(array, ArrayValue):
        raise not_known(torch.from_numpy, "torch.from_numpy")
    return tx.arrays.to_tensor(tx, array)


def with_tensors(tx: Tracer, target: Any, args: list[Value], kwargs: dict[str, Value]) -> tuple[Any, list[Value]]:
    """The call of torch.tensor or its like, with a tensor in the place of an array."""
    if not args:
        return target, args
    data, name = args[0].realize(), target.__name__
    if isinstance(data, ArrayValue):
        if data.flipped or data.scalar and name != "tensor" or "requires_grad" in kwargs:
            raise GraphBreak(f"torch.{name} of {data.describe()} with these arguments")
        tensor = tx.call_torch("clone", [data.tensor], {}) if name == "tensor" else tx.arrays.to_tensor(tx, data)
        return torch.as_tensor, [tensor, *args[1:]]
    if isinstance(data, (ListValue, TupleValue)) and tx.arrays.has_array(data):
        raise GraphBreak(f"torch.{name} of a list of NumPy arrays", "use np.array or torch.stack")
    return target, args


def as_number(tx: Tracer, array: ArrayValue) -> Value:
    """A NumPy scalar of the graph beside tensors: torch takes the number in it."""
    if not array.scalar or array.dtype not in (numpy.dtype(float), numpy.dtype(numpy.int64)):
        raise GraphBreak("a NumPy array as an argument of a tensor operation", "use torch.from_numpy on it")
    return array.tensor.item(tx)

