"""Tensors of a capture that functions of the table compute with as with any tensor."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ...shapes.symnode import make_symbolic
from ..signals import GraphBreak
from ..undecidable import SYMBOLIC
from ..values.arrays import ArrayValue
from ..values.base import Value
from ..values.constants import ConstantValue, NumberValue, PythonObject, SliceValue
from ..values.mappings import DictValue
from ..values.objects import ClassValue
from ..values.ranges import RangeValue
from ..values.sequences import ListValue, TupleValue
from ..values.tensors import TensorValue
from .kernel_probe import check_kernel

if TYPE_CHECKING:
    from ..tracer import Tracer


Tensor = Any
"""What functions of torch's give for tensors of a capture: a `Traced`."""


class Traced:
    """A tensor of the graph: every function of torch and every method on it becomes an operation."""

    __slots__ = ("tx", "value")

    def __init__(self, tx: Tracer, value: TensorValue) -> None:
        self.tx = tx
        self.value = value

    def __repr__(self) -> str:
        return f"Traced({self.value})"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return record(_tracer_in((*args, *(kwargs or {}).values())), func, args, kwargs or {})

    @property
    def fake(self) -> Any:
        return self.value.fake

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(self.fake.shape)

    @property
    def ndim(self) -> int:
        return int(self.fake.dim())

    @property
    def dtype(self) -> torch.dtype:
        return self.fake.dtype  # type: ignore[no-any-return]

    def numel(self) -> Any:
        return self.fake.numel()

    @property
    def real(self) -> Traced:
        return record(self.tx, torch.real, (self,), {})  # type: ignore[no-any-return]

    @property
    def imag(self) -> Traced:
        return record(self.tx, torch.imag, (self,), {})  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: record(self.tx, name, (self, *args), kwargs)

    def __getitem__(self, key: Any) -> Any:
        return record(self.tx, operator.getitem, (self, key), {})


def _operators() -> None:
    for name in ("add", "sub", "mul", "truediv", "pow", "and_", "or_", "xor", "matmul", "eq", "ne", "lt", "le", "gt",
                 "ge", "mod", "floordiv", "lshift", "rshift"):
        function, stem = getattr(operator, name), name.strip("_")

        def apply(self: Traced, other: Any, function: Any = function) -> Any:
            return record(self.tx, function, (self, other), {})

        def reflected(self: Traced, other: Any, function: Any = function) -> Any:
            return record(self.tx, function, (other, self), {})

        setattr(Traced, f"__{stem}__", apply)
        setattr(Traced, f"__r{stem}__", reflected)
    for function in (operator.neg, operator.invert):
        def single(self: Traced, function: Any = function) -> Any:
            return record(self.tx, function, (self,), {})

        setattr(Traced, f"__{function.__name__}__", single)


_operators()


def _tracer_in(args: Any) -> Tracer:
    for arg in args:
        if isinstance(arg, Traced):
            return arg.tx
        if isinstance(arg, (tuple, list)):
            try:
                return _tracer_in(arg)
            except LookupError:
                continue
    raise LookupError("no tensor of a capture")


def record(tx: Tracer, target: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Make an operation of the graph; a string target is a method. Breaks where torch does not have it for a dtype."""
    check_kernel(target, args, kwargs, _fake_of)
    result = tx.call_torch(target, [to_value(tx, arg) for arg in args],
                           {name: to_value(tx, arg) for name, arg in kwargs.items()})
    return from_value(tx, result)


def _fake_of(obj: Any) -> Any:
    return obj.fake if isinstance(obj, Traced) else obj.fake if isinstance(obj, TensorValue) else None


def to_value(tx: Tracer, obj: Any) -> Value:
    """The Value of something that a function of the table computes with or returns."""
    if isinstance(obj, Traced):
        return obj.value
    if isinstance(obj, Value):
        return obj
    if isinstance(obj, SYMBOLIC):
        return tx.symbols.value_of(obj)
    if isinstance(obj, list):
        return ListValue([to_value(tx, item) for item in obj])
    if isinstance(obj, tuple):
        return TupleValue([to_value(tx, item) for item in obj], type(obj))
    if isinstance(obj, slice):
        return SliceValue(*(to_value(tx, part) for part in (obj.start, obj.stop, obj.step)))
    if isinstance(obj, dict):
        return tx.make_dict({name: to_value(tx, item) for name, item in obj.items()})
    return tx.python_object(obj)


def from_value(tx: Tracer, value: Value) -> Any:
    """What a function of the table gets for a Value."""
    value = value.realize()
    if isinstance(value, ArrayValue):
        return value
    if isinstance(value, TensorValue):
        return Traced(tx, value)
    if isinstance(value, (ConstantValue, PythonObject, ClassValue)):
        return value.as_constant()
    if isinstance(value, NumberValue):
        return make_symbolic(tx.shape_env, value.expr)
    if isinstance(value, TupleValue):
        items = [from_value(tx, item) for item in value.elements(tx)]
        return tuple(items) if value.cls in {tuple, torch.Size} or not hasattr(value.cls, "_fields") else \
            value.cls(*items)
    if isinstance(value, ListValue) and value.cls is list:
        return [from_value(tx, item) for item in value.elements(tx)]
    if isinstance(value, RangeValue):
        return [from_value(tx, item) for item in tx.to_list(value)]
    if isinstance(value, SliceValue):
        return slice(*(from_value(tx, part) for part in value.parts))
    if isinstance(value, DictValue):
        return {tx.constant_of(key): from_value(tx, item) for key, item in value.fill(tx).values()}
    raise GraphBreak(f"{value.describe()} as an argument of a function of NumPy's")
