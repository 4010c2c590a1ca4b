"""``torch.from_numpy`` and other functions of torch's that make tensors of arrays of the graph."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy
import torch

from .break_reasons import not_known
from .call_handlers import handles
from .numpy_numbers import ExactScalar
from .python_warnings import warn_of_copy
from .signals import GraphBreak
from .values.arrays import ArrayValue
from .values.base import Value
from .values.sequences import ListValue, TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer


@handles(torch.from_numpy)
def from_numpy(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    array = args[0].realize() if len(args) == 1 else None
    if not isinstance(array, ArrayValue):
        raise not_known(torch.from_numpy, "torch.from_numpy")
    return tx.arrays.to_tensor(tx, array)


def with_tensors(tx: Tracer, target: Any, args: list[Value], kwargs: dict[str, Value]) -> tuple[Any, list[Value]]:
    """The call of torch.tensor or its like, with a tensor in the place of an array; for a tensor, of its copy."""
    word = "obj" if target is torch.asarray else "data"
    if not args and word not in kwargs:
        return target, args
    args = args or [kwargs.pop(word)]
    data, name = args[0].realize(), target.__name__
    if isinstance(data, ArrayValue):
        if data.flipped or "requires_grad" in kwargs:
            raise GraphBreak(f"torch.{name} of {data.describe()} with these arguments")
        # torch.asarray takes an array without dimensions for a number
        copies = name == "tensor" or data.scalar or target is torch.asarray and data.ndim == 0
        tensor = tx.call_torch("clone", [data.tensor], {}) if copies else tx.arrays.to_tensor(tx, data)
        return torch.as_tensor, [tensor, *args[1:]]
    if target is torch.tensor and isinstance(data, TensorValue) and len(args) == 1 and not tx.compiler.exports \
            and kwargs.keys() <= {"dtype", "device", "requires_grad"}:
        warn_of_copy(tx)
        kwargs["copy"] = tx.constant(True)
        return "to", [data.call_method(tx, "detach", [], {})]
    return target, [_with_constants(tx, data, name), *args[1:]]


def _with_constants(tx: Tracer, value: Value, name: str) -> Value:
    """A nested list with NumPy scalars from outside as constants."""
    given, value = value, value.realize()
    if isinstance(value, (ListValue, TupleValue)):
        items = value.elements(tx)
        constants = [_with_constants(tx, item, name) for item in items]
        return tx.make_tuple(constants) if any(map(operator.is_not, constants, items)) else given
    if not isinstance(value, ArrayValue):
        return given
    if not value.scalar or value.real is None:
        raise GraphBreak(f"torch.{name} of a list of NumPy arrays", "use np.array or torch.stack")
    return tx.constant(value.specialize(tx))


def as_number(tx: Tracer, array: ArrayValue) -> Value:
    """A NumPy scalar of the graph beside tensors: torch takes the number in it."""
    if not array.scalar or array.dtype not in (numpy.dtype(float), numpy.dtype(numpy.int64)):
        raise GraphBreak("a NumPy array as an argument of a tensor operation", "use torch.from_numpy on it")
    return array.exact if isinstance(array, ExactScalar) else array.tensor.item(tx)

