"""Arguments of operations: as the nodes of a graph take them, and as calls on fake tensors do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy
import torch

from .. import torch_compat
from ..shapes.symnode import make_symbolic
from .break_reasons import hint_for_object
from .graph_functions import PLACEHOLDERS
from .objects import find_on_class
from .signals import GraphBreak
from .tensors_of_arrays import as_number
from .values.arrays import ArrayValue
from .values.base import Value
from .values.constants import ConstantValue, NumberValue, PythonObject, SliceValue
from .values.jagged_tensors import RaggedSize
from .values.mappings import DictValue
from .values.objects import ObjectValue
from .values.opaque import OpaqueValue
from .values.ranges import RangeValue
from .values.sequences import ListValue, TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer



class UngraphableArgument(GraphBreak):
    """An argument that no node of a graph can have."""


_PLAIN: dict[type, Any] = {int: int.__index__, float: float.__float__, str: str.__str__}


def _plain(constant: Any) -> Any:
    """A number or text of a subclass, such as a member of an IntFlag, as torch takes it: its text is no source code."""
    for kind, plain in _PLAIN.items():
        if isinstance(constant, kind) and not isinstance(constant, bool):
            return constant if type(constant) is kind else plain(constant)
    return constant


def to_graph(tx: Tracer, value: Value, keep_numbers: bool) -> tuple[Any, Any]:
    """A Value as an argument of a node, and as an argument of the fake call."""
    value = value.realize()
    if isinstance(value, TensorValue):
        if value.attrs and "data" in value.attrs and value.fake.requires_grad and torch.is_grad_enabled():
            raise GraphBreak("gradients of a tensor whose data was replaced before",
                             "use copy_() inside torch.no_grad()")
        return value.node, value.fake
    if isinstance(value, ArrayValue):
        return to_graph(tx, as_number(tx, value), keep_numbers)
    if isinstance(value, ConstantValue):
        if isinstance(value.value, numpy.bool_):
            # torch takes it for a float in arithmetic, for a bool in torch.tensor and refuses it as a flag
            raise GraphBreak("a bool of NumPy as an argument of a tensor operation", "write bool(...) around it")
        if isinstance(value.value, numpy.uint64) and value.value >= 2**63:
            # tensors refuse it, and then NumPy computes with the tensor as an array
            raise GraphBreak("an integer of NumPy that is too large for tensors", "use a smaller number")
        if isinstance(value.value, numpy.complexfloating) and not isinstance(value.value, complex):
            # torch takes its real part, and NumPy warns of that
            raise GraphBreak("a complex number of NumPy as an argument of a tensor operation",
                             "write complex(...) around it")
        constant = value.value.item() if isinstance(value.value, numpy.generic) else _plain(value.value)
        return constant, constant
    if isinstance(value, NumberValue):
        return number_to_graph(tx, value, keep_numbers)
    if isinstance(value, TupleValue) or isinstance(value, ListValue) and value.cls is list:
        pairs = [to_graph(tx, item, keep_numbers) for item in value.elements(tx)]
        kind: Any = value.cls if isinstance(value, TupleValue) and value.cls in {tuple, torch.Size} else \
            tuple if isinstance(value, TupleValue) else list
        node_kind = tuple if kind is torch.Size else kind
        return node_kind(p[0] for p in pairs), kind([p[1] for p in pairs])
    if isinstance(value, DictValue):
        entries = {tx.constant_of(k): to_graph(tx, v, keep_numbers) for k, v in value.fill(tx).values()}
        return {k: p[0] for k, p in entries.items()}, {k: p[1] for k, p in entries.items()}
    if isinstance(value, SliceValue):
        # a tensor in a slice is asked for its value
        parts = [known.item(tx) if isinstance(known := part.realize(), TensorValue) else known for part in value.parts]
        pairs = [to_graph(tx, part, keep_numbers) for part in parts]
        return slice(*(p[0] for p in pairs)), slice(*(p[1] for p in pairs))
    if isinstance(value, PythonObject) and isinstance(value.obj, (torch.Generator, *torch_compat.OPERATOR_TYPES)):
        if isinstance(value.obj, torch.Generator):
            raise GraphBreak("an operation with its own random generator")
        return value.obj, value.obj
    if isinstance(value, ObjectValue) and isinstance(
            value.storage, (ListValue, DictValue, TupleValue, ConstantValue)):
        if not isinstance(value.storage, (DictValue, ConstantValue)):
            _refuse_own_protocols(tx, value.python_type())
        return to_graph(tx, value.storage, keep_numbers)
    if isinstance(value, RaggedSize):
        return value.node(tx), value.size
    if isinstance(value, RangeValue):  # of other things than lists and tuples, torch refuses most
        pairs = [to_graph(tx, item, keep_numbers) for item in tx.to_list(value)]
        return [p[0] for p in pairs], [p[1] for p in pairs]
    real = getattr(value, "real", None)
    if tx.compiler.exports and value.source is not None and any(
            kind.__module__ == "torch._opaque_base" for kind in type(real).__mro__):
        return tx.graph.add_input(value.source, real), real  # an object that operators take as it is
    reason = f" ({value.reason})" if isinstance(value, OpaqueValue) and value.reason else ""
    raise UngraphableArgument(f"{value.describe()} as an argument of a tensor operation{reason}",
                              hint_for_object(value.real) if isinstance(value, OpaqueValue) else "")


# What torch asks of a sequence: for its items, or for an array in its place.
_ASKED_OF_SEQUENCES = ("__len__", "__getitem__", "__iter__", "__getattr__", "__getattribute__", "__torch_function__",
                       "__dlpack__", "__cuda_array_interface__", "__array_interface__", "__array__")


def _refuse_own_protocols(tx: Tracer, cls: type) -> None:
    """Leave to torch what a list or tuple of a class with such methods of its own is as an argument."""
    for name in _ASKED_OF_SEQUENCES:
        owner = find_on_class(cls, name, tx)[1]
        if owner is not None and owner not in {list, tuple, object}:
            raise UngraphableArgument(f"an object of {cls.__qualname__}, which has its own {name}, as an argument of a "
                                      "tensor operation", "pass a list or a tuple")


def with_numpy_dtype(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> dict[str, Value]:
    """The keywords of torch.tensor with the dtype that NumPy's scalars in the data ask for: nodes hold plain ones."""
    data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
    dtype = args[1] if len(args) > 1 else kwargs.get("dtype", ConstantValue(None))
    if data is None or getattr(dtype.realize(), "value", dtype) is not None or not _has_numpy_scalar(tx, data):
        return kwargs
    if len(args) > 1:
        raise GraphBreak("a tensor of scalars of NumPy with None as dtype", "leave dtype out")
    return {**kwargs, "dtype": ConstantValue(torch.tensor(_like_data(tx, data)).dtype)}


def _has_numpy_scalar(tx: Tracer, data: Value) -> bool:
    data = data.realize()
    if isinstance(data, ConstantValue):
        return isinstance(data.value, numpy.number)
    return isinstance(data, (TupleValue, ListValue)) and any(_has_numpy_scalar(tx, item) for item in data.elements(tx))


def _like_data(tx: Tracer, data: Value) -> Any:
    """Data of the same types."""
    data = data.realize()
    if isinstance(data, ConstantValue):
        return data.value
    if isinstance(data, NumberValue):
        return PLACEHOLDERS[data.python_type()]
    if isinstance(data, (TupleValue, ListValue)):
        return [_like_data(tx, item) for item in data.elements(tx)]
    raise GraphBreak("a tensor of scalars of NumPy and others", "pass dtype= to torch.tensor")


def number_to_graph(tx: Tracer, value: NumberValue, keep: bool) -> tuple[Any, Any]:
    """A number as an argument of a node and of the fake call.

    Where an operation uses it as a value only (`keep`), the fake call gets the present value, or any of its type where
    data decides on it: that costs nothing. Integers go in as symbols, because they may become sizes; other floats
    decide something and become constants.
    """
    if keep:
        return tx.number_nodes.of(value), PLACEHOLDERS[value.python_type()] if value.hint is None else value.hint
    if value.hint is None or value.python_type() is int:
        return tx.number_nodes.of(value), make_symbolic(tx.shape_env, value.expr)
    constant = value.specialize(tx).value
    return constant, constant
