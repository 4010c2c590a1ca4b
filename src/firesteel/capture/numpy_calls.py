"""NumPy in captured code: from arrays outside to tensors of the graph, and from calls to functions of the table."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy
import torch

from .. import config, torch_compat
from ..devices import kind_of
from ..fake.dims import known_equal, layout_of
from ..records import dataclass
from .call_signatures import TRIPS
from .guards import NumberSeen
from .numpy_numbers import extremum
from .numpy_table.context import Context
from .numpy_table.dtypes import NUMPY, TORCH, is_number
from .numpy_table.layouts import rows_or_columns
from .numpy_table.registry import FOLLOWED, FUNCTIONS, METHODS
from .numpy_table.traced import Tensor, Traced, from_value, to_value
from .signals import GraphBreak, NotConstant
from .source import Source, call_source
from .values.arrays import ArrayValue
from .values.base import Value
from .values.constants import ConstantValue, NumberValue
from .values.functions import FunctionValue
from .values.opaque import OpaqueValue
from .values.sequences import ListValue, TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer

DISPATCHED = type(numpy.sum)
"""The class of NumPy's public functions."""
LONG_DOUBLES = "gG"
"""Scalars of these dtypes stay NumPy's: neither tensors nor the code of a graph have them."""
DEFAULT_ERRORS = ("ignore", "warn")
"""What may happen at overflows and the like without the program's noticing it in its results."""


@dataclass
class ArrayState:
    """What a capture knows about arrays: the storages that belong to one, and those of which data chose a view."""

    memories: set[int] = field(default_factory=set)
    copied_of: set[int] = field(default_factory=set)
    guards_errors: bool = False


# Arrays from outside


class _WritableMemory:
    """The memory of an array that is read-only, which torch would warn about."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.__array_interface__["data"][0], False)}


def shared_tensor(array: Any) -> torch.Tensor:
    """The tensor in the memory of an array; nothing writes to that of an array that is read-only."""
    return torch.from_numpy(array if array.flags.writeable else numpy.asarray(_WritableMemory(array)))


def tensor_of_scalar(scalar: Any) -> torch.Tensor:
    """A scalar as a tensor without dimensions."""
    return torch.from_numpy(numpy.array(scalar))


def refusal_of(array: Any) -> str:
    """Why an array cannot be a tensor; empty when it can."""
    dtype = array.dtype
    if TORCH.get(dtype.char) is None or not dtype.isnative:
        return f"a NumPy array of {dtype}"
    if not array.flags.aligned:
        return "a NumPy array whose elements are not aligned"
    if any(stride < 0 or stride % dtype.itemsize for stride in array.strides):
        return "a NumPy array with negative or uneven strides"
    return ""


def is_refused(array: Any) -> bool:
    """Whether an array cannot be a tensor."""
    return bool(refusal_of(array))


def wrap_array(tx: Tracer, real: Any, source: Source) -> Value:
    """The Value of an array from outside."""
    reason = refusal_of(real)
    if reason:
        tx.guard(source, "type", "type({0}) is {k[0]}", (numpy.ndarray,))
        tx.guard(source, "array", "{k[0]}({0})", (is_refused,))
        return OpaqueValue(real, source, reason)
    writable = real.flags.writeable
    flags = "{0}.flags.behaved" if writable else "not {0}.flags.writeable and {0}.flags.aligned"
    tx.guard(source, "array", f"type({{0}}) is {{k[0]}} and {{0}}.dtype.num == {real.dtype.num} and {flags}",
             (numpy.ndarray,))
    with torch_compat.without_modes(), torch.inference_mode(tx.began_in_inference_mode):
        shared = shared_tensor(real)
    tensor = tx.wrap(shared, call_source(source, shared_tensor))
    assert isinstance(tensor, TensorValue)
    value = ArrayValue(tensor, real.dtype, source=source, real=real)
    value.writeable = writable
    return _placed(tx, value)


def wrap_scalar(tx: Tracer, real: Any, source: Source) -> Value | None:
    """The Value of a NumPy scalar from outside that is known to change; None where it is a constant."""
    if real.dtype.char in LONG_DOUBLES:
        tx.guard(source, "type", "type({0}) is {k[0]}", (type(real),))
        return OpaqueValue(real, source, f"a NumPy scalar of {real.dtype}, which is no number of Python's")
    tx.symbols.numbers_seen[source.name] = NumberSeen(source, real)
    if TORCH.get(real.dtype.char) is None or not tx.symbols.dynamism.number(source, real) or not config.trace_numpy:
        return None
    tx.guard(source, "type", "type({0}) is {k[0]}", (type(real),))
    with torch_compat.without_modes(), torch.inference_mode(tx.began_in_inference_mode):
        tensor = tensor_of_scalar(real)
    known = tx.wrap(tensor, call_source(source, tensor_of_scalar))
    assert isinstance(known, TensorValue)
    return _placed(tx, ArrayValue(known, real.dtype, True, source=source, real=real))


def _placed(tx: Tracer, value: ArrayValue) -> ArrayValue:
    """An array from outside, on the device that the program computes on."""
    device = torch.get_default_device()
    if not kind_of(device).is_host:
        value.host = value.tensor
        moved = tx.call_torch("to", [value.tensor, ConstantValue(device)], {})
        assert isinstance(moved, TensorValue)
        value.tensor = moved
    tx.array_state.memories.add(value.tensor.fake.storage_key)
    return value


def of_tensor(tx: Tracer, tensor: TensorValue) -> ArrayValue:
    """``tensor.numpy()``: the array in the memory of a tensor."""
    fake = tensor.fake
    if fake.requires_grad or fake.dtype not in NUMPY or fake.is_conj() or fake.is_neg() or \
            tensor.cls is not torch.Tensor:
        raise GraphBreak("Tensor.numpy() of this tensor", "call .detach() on it first")
    if not kind_of(fake.device).is_host and fake.device.type != torch.get_default_device().type:
        raise GraphBreak("Tensor.numpy() of a tensor on another device", "call .cpu() on it first")
    value = ArrayValue(tensor, NUMPY[fake.dtype])
    tx.array_state.memories.add(fake.storage_key)
    return value


def to_tensor(tx: Tracer, array: ArrayValue) -> Value:
    """``torch.from_numpy(array)``."""
    if array.scalar or array.flipped or array.copied or not array.writeable:
        raise GraphBreak("a tensor of a NumPy array that is read-only, reversed or a scalar")
    return tx.call_torch("detach", [array.tensor], {})


# Calls


def has_array(value: Value, depth: int = 3) -> bool:
    """Whether an argument is, or has in it, an array of the graph."""
    value = value.realize()
    if isinstance(value, ArrayValue):
        return True
    if depth and isinstance(value, (TupleValue, ListValue)) and value.items is not None:
        return any(has_array(item, depth - 1) for item in value.items)
    return False


def is_numpy_function(obj: Any) -> bool:
    """Whether something is one of NumPy's own functions or ufuncs."""
    kind = type(obj)
    if kind is DISPATCHED or kind is numpy.ufunc:
        return True
    return kind is types.BuiltinFunctionType and (
        (obj.__module__ or "").partition(".")[0] == "numpy" or isinstance(obj.__self__, numpy.ufunc))


def call_numpy(tx: Tracer, obj: Any, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """Call a function of NumPy's; None where it is not for the table: constants are folded."""
    exact = extremum(tx, obj, args, kwargs)
    if exact is not None:
        return exact
    known = FUNCTIONS.find(obj)
    with_arrays = any(has_array(arg) for arg in (*args, *kwargs.values()))
    if isinstance(obj, numpy.ufunc) and known is None:
        if not with_arrays:
            return None
        return _run(tx, obj, _ufunc(obj), args, kwargs)
    if known is None:
        implementation = getattr(obj, "__wrapped__", obj)
        if type(implementation) is types.FunctionType and (obj in FOLLOWED or in_numpy(tx)):
            return _follow(tx, obj, implementation, args, kwargs)
        if with_arrays and isinstance(getattr(obj, "__self__", None), numpy.ufunc):
            return _ufunc_method(tx, obj.__self__, obj.__name__, args, kwargs)
        if with_arrays:
            raise GraphBreak(f"{_title(obj)} is not captured", "use another function of NumPy's, or of torch's")
        return None
    if not with_arrays and obj in CONSTANT_RESULTS:
        return None
    return _run(tx, obj, known, args, kwargs)


# Functions that are folded where all their arguments are constants.
CONSTANT_RESULTS = frozenset({
    numpy.prod, numpy.sum, numpy.mean, numpy.std, numpy.var, numpy.min, numpy.max, numpy.argmin, numpy.argmax,
    numpy.all, numpy.any, numpy.round, numpy.clip, numpy.ndim, numpy.ptp, numpy.count_nonzero, numpy.dot,
    numpy.isclose, numpy.allclose, numpy.array_equal, numpy.median, numpy.percentile, numpy.quantile, numpy.interp,
})


def _ufunc(ufunc: Any) -> Callable[..., Any]:
    from .numpy_table.ufunc_calls import call_ufunc

    return lambda ctx, *args, **kwargs: call_ufunc(ctx, ufunc, *args, **kwargs)


def in_numpy(tx: Tracer) -> bool:
    """Whether NumPy's own Python is being executed: its helpers are followed too."""
    return str(tx.frames[-1].globals.get("__name__")).partition(".")[0] == "numpy"


def _follow(tx: Tracer, obj: Any, implementation: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Execute NumPy's own Python."""
    function = tx.python_object(implementation).realize()
    if not isinstance(function, FunctionValue):
        raise GraphBreak(f"{_title(obj)} is not captured")
    return tx.inline(function, args, kwargs)


def _title(obj: Any) -> str:
    module = (getattr(obj, "__module__", "") or "numpy").replace("numpy", "np", 1)
    return f"{module}.{getattr(obj, '__name__', '?')}"


def _run(tx: Tracer, obj: Any, function: Callable[..., Any], args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Carry out a function of the table."""
    guard_errors(tx)
    try:
        result = function(Context(tx), *(from_value(tx, arg) for arg in args),
                          **{name: from_value(tx, arg) for name, arg in kwargs.items()})
    except NotConstant as error:
        raise GraphBreak(f"{_title(obj)} of a value that is not known while capturing: {error}") from None
    except TRIPS as error:
        raise GraphBreak(f"{_title(obj)} with these arguments is not captured "
                         f"({type(error).__name__}: {error})") from None
    return to_value(tx, result)


def guard_errors(tx: Tracer) -> None:
    """Rely on floating-point errors raising nothing: warnings are not part of what is kept."""
    if tx.array_state.guards_errors:
        return
    tx.array_state.guards_errors = True
    if not errors_are_quiet():
        raise GraphBreak("NumPy is told to raise at floating-point errors", "leave np.errstate as it is")
    tx.guard(None, "array errors", "{k[0]}()", (errors_are_quiet,))


def _error_settings() -> Any:
    """The variable in which NumPy keeps what floating-point errors do; None where this NumPy has none."""
    try:
        return vars(importlib.import_module("numpy._core.umath")).get("_extobj_contextvar")
    except ImportError:
        return None


_SETTINGS = _error_settings()
_KNOWN_QUIET: list[Any] = [object()]


def errors_are_quiet() -> bool:
    """Whether overflows, divisions by zero and the like raise nothing. The settings that were asked for last are known
    by their identity: asking for them takes longer than a small graph."""
    settings = None if _SETTINGS is None else _SETTINGS.get()
    if settings is _KNOWN_QUIET[0]:
        return True
    quiet = all(what in DEFAULT_ERRORS for what in numpy.geterr().values())
    if quiet and settings is not None:
        _KNOWN_QUIET[0] = settings
    return quiet


# Methods and attributes


def attribute(tx: Tracer, array: ArrayValue, name: str) -> Value | None:
    """An attribute of an array that is no method; None for methods."""
    fake = array.tensor.fake
    if name == "shape":
        return TupleValue([tx.symbols.value_of(size) for size in fake.shape])
    if name == "ndim":
        return ConstantValue(array.ndim)
    if name == "dtype":
        return ConstantValue(array.dtype)
    if name == "itemsize":
        return ConstantValue(array.dtype.itemsize)
    if name in ("size", "nbytes"):
        return tx.symbols.value_of(fake.numel() * (array.dtype.itemsize if name == "nbytes" else 1))
    if name == "strides" and not array.copied and not array.scalar:
        if array.view is not None and any(known_equal(size, 1) for size in layout_of(fake)[0]):
            raise GraphBreak("the strides of a view of a NumPy array with a dimension of one element")
        return TupleValue([tx.symbols.value_of(step * array.dtype.itemsize * (-1 if dim in array.flipped else 1))
                           for dim, step in enumerate(fake.stride())])
    if name == "__array_priority__":
        return ConstantValue(0.0)
    ctx = Context(tx)
    if name in ("T", "mT"):
        if array.scalar:
            return array
        from .numpy_table.shaping import permuted

        dims = list(reversed(range(array.ndim)))
        if name == "mT":
            dims = [*range(array.ndim - 2), array.ndim - 1, array.ndim - 2]
        return permuted(ctx, array, dims, "attribute", name)
    if name in ("real", "imag"):
        return _part(ctx, array, name)
    if name in ("flat", "flags", "base", "data", "ctypes", "__array_interface__", "device"):
        raise GraphBreak(f"attribute {name!r} of a NumPy array of the graph")
    return None


def _part(ctx: Context, array: ArrayValue, name: str) -> Value:
    if array.flipped:
        raise GraphBreak(f"attribute {name!r} of a reversed NumPy array")
    traced: Tensor = Traced(ctx.tx, array.tensor)
    if array.dtype.kind == "c":
        part = traced.real if name == "real" else traced.imag
        return ctx.scalar(part.clone()) if array.scalar else ctx.view(array, part, "attribute", name)
    if name == "real":
        return array if array.scalar else ctx.view(array, traced, "attribute", name)
    zeros = ctx.array(rows_or_columns(torch.zeros_like(traced), array), array.scalar)
    zeros.writeable = False
    return zeros


def method(tx: Tracer, array: ArrayValue, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``array.name(*args, **kwargs)``."""
    if name in ("__len__", "__iter__", "__getitem__"):
        return array.length(tx) if name == "__len__" else array.iterate(tx) if name == "__iter__" \
            else array.get_item(tx, args[0])
    if name == "__setitem__":
        array.set_item(tx, args[0], args[1])
        return ConstantValue(None)
    if name == "item" and not args and not kwargs:
        if array.dtype.kind == "c":
            raise GraphBreak("a complex number of a NumPy array is read")
        return array.tensor.item(tx)
    if name == "tolist" and not args and not kwargs:
        return Context(tx).tensor(array).value.to_list(tx)
    if name in ("__float__", "__int__", "__bool__", "__index__"):
        return array.number(tx, name)
    symbol = OPERATOR_METHODS.get(name)
    if symbol is not None and len(args) == 1:
        if symbol in tx.operators.COMPARE:
            return tx.compare(symbol, array, args[0])
        left, right = (args[0], array) if name.startswith("__r") and name != "__rshift__" else (array, args[0])
        return tx.binary(symbol, left, right)
    known = METHODS.find(name)
    if known is None:
        function = getattr(numpy, name, None)
        known = FUNCTIONS.find(function) if function is not None and name in FUNCTION_METHODS else None
    if known is None:
        raise GraphBreak(f"method {name!r} of {array.describe()} is not captured")
    return _run(tx, getattr(numpy.ndarray, name, numpy.ndarray), known, [array, *args], kwargs)


# Methods that take the arguments of the function of the same name.
FUNCTION_METHODS = frozenset({
    "swapaxes", "ravel", "squeeze", "diagonal", "repeat", "take", "compress", "choose", "nonzero", "searchsorted",
    "argsort", "argpartition", "trace", "dot", "round", "clip", "put",
})
OPERATOR_METHODS: dict[str, str] = {}


def _operator_methods() -> None:
    from . import operators

    for symbol, (_, name, reflected) in operators.BINARY.items():
        OPERATOR_METHODS[name] = OPERATOR_METHODS[reflected] = symbol
    for symbol, (_, name, _) in operators.COMPARE.items():
        OPERATOR_METHODS[name] = symbol


def get_item(tx: Tracer, array: ArrayValue, key: Value) -> Value:
    """``array[key]``."""
    from .numpy_table.indexing import get_item

    return _run(tx, numpy.ndarray, get_item, [array, key], {})


def set_item(tx: Tracer, array: ArrayValue, key: Value, value: Value) -> None:
    """``array[key] = value``."""
    from .numpy_table.indexing import set_item

    _run(tx, numpy.ndarray, set_item, [array, key, value], {})


# Operators

UFUNC_OF: dict[str, Any] = {
    "+": numpy.add, "-": numpy.subtract, "*": numpy.multiply, "/": numpy.divide, "//": numpy.floor_divide,
    "%": numpy.remainder, "**": numpy.power, "&": numpy.bitwise_and, "|": numpy.bitwise_or, "^": numpy.bitwise_xor,
    "<<": numpy.left_shift, ">>": numpy.right_shift, "==": numpy.equal, "!=": numpy.not_equal, "<": numpy.less,
    "<=": numpy.less_equal, ">": numpy.greater, ">=": numpy.greater_equal,
}


def is_operand(value: Value) -> bool:
    """Whether NumPy computes with something beside an array: numbers, sequences of numbers, arrays."""
    if isinstance(value, ConstantValue):
        return is_number(value.value) or isinstance(value.value, numpy.generic)
    return isinstance(value, (ArrayValue, NumberValue, ListValue, TupleValue))


def binary(tx: Tracer, symbol: str, left: Value, right: Value, in_place: bool) -> Value:
    """An operator of which one side is an array."""
    if not is_operand(left) or not is_operand(right):
        raise GraphBreak(f"operator {symbol} between {left.describe()} and {right.describe()} is not captured",
                         "convert tensors with .numpy() or arrays with torch.from_numpy first")
    if symbol == "@":
        if in_place:
            raise GraphBreak("operator @= of NumPy arrays")
        result = call_numpy(tx, numpy.matmul, [left, right], {})
        assert result is not None
        return result
    if symbol == "*" and any(isinstance(one, ArrayValue) and one.scalar for one in (left, right)) and \
            any(isinstance(one, (ListValue, TupleValue)) for one in (left, right)):
        raise GraphBreak("a sequence times a NumPy scalar of the graph, which repeats the sequence")
    ufunc = UFUNC_OF[symbol]
    kwargs: dict[str, Value] = {"out": left} if in_place and isinstance(left, ArrayValue) and not left.scalar else {}
    if symbol == "**" and not in_place and (short := _short_power(tx, left, right)) is not None:
        return short
    return _run(tx, ufunc, _ufunc(ufunc), [left, right], kwargs)


def _short_power(tx: Tracer, left: Value, right: Value) -> Value | None:
    """NumPy computes some powers of floats in other ways: squares, square roots, reciprocals."""
    if not isinstance(left, ArrayValue) or left.scalar or not isinstance(right, ConstantValue) or \
            not is_number(right.value) or left.dtype.kind not in ("fcb" if right.value == 2 else "fc"):
        return None
    ufunc = {2: numpy.square, 0.5: numpy.sqrt, -1: numpy.reciprocal}.get(right.value)
    return None if ufunc is None else _run(tx, ufunc, _ufunc(ufunc), [left], {})


def unary(tx: Tracer, symbol: str, operand: ArrayValue) -> Value:
    """``-x``, ``+x`` or ``~x``."""
    ufunc = {"-": numpy.negative, "+": numpy.positive, "~": numpy.invert}[symbol]
    return _run(tx, ufunc, _ufunc(ufunc), [operand], {})


def compare(tx: Tracer, symbol: str, left: Value, right: Value) -> Value | None:
    """A comparison with an array; None where it is none of numbers."""
    if not is_operand(left) or not is_operand(right):
        return None
    ufunc = UFUNC_OF[symbol]
    return _run(tx, ufunc, _ufunc(ufunc), [left, right], {})


def absolute(tx: Tracer, operand: ArrayValue) -> Value:
    """``abs(x)``."""
    return _run(tx, numpy.absolute, _ufunc(numpy.absolute), [operand], {})


def _ufunc_method(tx: Tracer, ufunc: Any, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``ufunc.name(...)``."""
    from .numpy_table.ufunc_calls import UFUNC_METHODS

    function: Any = UFUNC_METHODS.get(name)
    if function is None:
        raise GraphBreak(f"np.{ufunc.__name__}.{name} is not captured")
    return _run(tx, ufunc, lambda ctx, *args, **kwargs: function(ctx, ufunc, *args, **kwargs), args, kwargs)


def make_scalar(tx: Tracer, cls: Any, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """``np.float32(x)`` of an array or a number of the graph; None for constants."""
    if issubclass(cls, (numpy.longdouble, numpy.clongdouble)):
        raise GraphBreak(f"a NumPy scalar of the class {cls.__name__}, which tensors do not have")
    if len(args) != 1 or kwargs:
        return None
    value = args[0].realize()
    if isinstance(value, ArrayValue):
        return _run(tx, cls, lambda ctx, x: ctx.array_or_scalar(ctx.cast_to(x, numpy.dtype(cls)).clone()), [value], {})
    if isinstance(value, NumberValue) and value.python_type() is not bool:
        return _run(tx, cls, lambda ctx, x: ctx.scalar(ctx.full((), x, numpy.dtype(cls))), [value], {})
    if isinstance(value, (ListValue, TupleValue)) and has_array(value):
        return _run(tx, cls, lambda ctx, x: ctx.asarray(x, numpy.dtype(cls)), [value], {})
    return None


_operator_methods()
