"""Classes of Python that are called on Values: numbers, containers, iterators, ``type`` and ``super``."""

from __future__ import annotations

import collections
import enum
import functools
import itertools
import operator
import types
import weakref
from typing import TYPE_CHECKING, Any

from . import number_rules
from .builtin_numbers import truth
from .builtin_text import text_of, text_with_numbers
from .call_handlers import handles
from .call_signatures import refused
from .objects import call_special, has_special, special_method
from .signals import GraphBreak
from .values.arrays import ArrayValue
from .values.base import Value
from .values.constants import ConstantValue, NumberValue, SliceValue
from .values.functions import PartialValue
from .values.iterators import (
    ConstantIterator,
    CountIterator,
    EnumerateIterator,
    FilterIterator,
    ListIterator,
    MapIterator,
    ZipIterator,
)
from .values.mapping_proxies import MappingProxyValue
from .values.mappings import DictValue, DictViewValue, SetValue
from .values.methods import SuperValue
from .values.objects import ClassValue, ObjectValue
from .values.ranges import RangeValue, make_range
from .values.reversals import ReversedIterator, reversed_tuple
from .values.sequences import ListValue, SequenceValue, TupleValue
from .values.tensors import TensorValue
from .values.weak_references import WeakReference

if TYPE_CHECKING:
    from .tracer import Tracer


@handles(type)
def call_type(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) not in (1, 3) or kwargs and len(args) == 1:
        raise refused("type")
    if len(args) == 1:
        return tx.python_object(args[0].realize().python_type())
    return tx.call(tx.python_object(type.__new__), [tx.class_value(type), *args], kwargs)


@handles(super)
def call_super(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) == 2:
        cls = args[0].realize()
        if not isinstance(cls, ClassValue):
            raise GraphBreak("super() of something that is not a class")
        return SuperValue(cls.cls, args[1])
    if args:
        raise GraphBreak("super() with one argument")
    frame = tx.frames[-1]
    if not frame.code.co_argcount:
        raise tx.raised(RuntimeError("super(): no arguments"))
    first = frame.code.co_varnames[0]
    receiver = frame.locals.get(first)
    if receiver is None and first in frame.cells:
        receiver = frame.cells[first].load(tx)
    if receiver is None:
        raise tx.raised(RuntimeError("super(): arg[0] deleted"))
    cell = frame.cells.get("__class__")
    if cell is None:
        raise tx.raised(RuntimeError("super(): __class__ cell not found"))
    owner = cell.load(tx)
    if owner is None:
        raise tx.raised(RuntimeError("super(): empty __class__ cell"))
    known = owner.realize()
    if not isinstance(known, ClassValue):
        raise GraphBreak("super() in a class that is made inside")
    return SuperValue(known.cls, receiver)


@handles(int)
def call_int(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return _number(tx, int, "__int__", args, kwargs)


@handles(float)
def call_float(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return _number(tx, float, "__float__", args, kwargs)


@handles(complex)
def call_complex(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return _number(tx, complex, "__complex__", args, kwargs)


def _number(tx: Tracer, cls: type, method: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if args:
        value = args[0].realize()
        if isinstance(value, (TensorValue, ArrayValue)) and len(args) == 1 and not kwargs:
            return value.call_method(tx, method, [], {})
        if isinstance(value, NumberValue) and len(args) == 1 and not kwargs and cls is not complex:
            return number_rules.apply(tx, cls, [value])
        if isinstance(value, ObjectValue) and len(args) == 1 and not (cls is complex and issubclass(value.cls, str)):
            for name in (method, "__float__", "__index__")[:: 1 if cls is complex else 2]:
                if special_method(tx, value, name) is not None:
                    return tx.fold(cls, [tx.constant_of(call_special(tx, value, name))], {})
    return tx.fold(cls, [tx.constant_of(a) for a in args], {k: tx.constant_of(v) for k, v in kwargs.items()})


@handles(bool)
def call_bool(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return truth(tx, args[0]) if args else ConstantValue(False)


@handles(str)
def call_str(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) == 1 and not kwargs:
        return text_with_numbers(tx, args[0], True) or ConstantValue(text_of(tx, args[0], str))
    return tx.fold(str, [tx.constant_of(a) for a in args], {k: tx.constant_of(v) for k, v in kwargs.items()})


@handles(list)
def call_list(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return ListValue(tx.to_list(args[0], hint=True) if args else [])


@handles(tuple)
def call_tuple(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if args:
        value = args[0].realize()
        if isinstance(value, TupleValue) and value.cls is tuple:
            return value
        return TupleValue(tx.to_list(value, hint=True))
    return TupleValue([])


def _register_dict(cls: type) -> None:
    @handles(cls)
    def call_dict(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        mapping = DictValue({}, cls=cls)
        mapping.call_method(tx, "update", args, kwargs)
        return mapping


_register_dict(dict)
_register_dict(collections.OrderedDict)


@handles(collections.defaultdict)
def call_defaultdict(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    factory = args[0].realize() if args else None
    if factory is not None and not (factory.is_constant() and factory.as_constant() is None) and \
            not has_special(factory, "__call__") or len(args) > 2:
        raise refused("defaultdict")
    if isinstance(factory, ConstantValue) and factory.value is None:
        factory = None
    mapping = DictValue({}, cls=collections.defaultdict, factory=factory)
    mapping.call_method(tx, "update", args[1:], kwargs)
    return mapping


def _register_set(cls: type) -> None:
    @handles(cls)
    def call_set(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if args:
            given = args[0].realize()
            if isinstance(given, SetValue) and given.cls is cls is frozenset:
                return given
            return SetValue.of(tx, given, cls)
        return SetValue({}, cls)


_register_set(set)
_register_set(frozenset)


@handles(collections.deque)
def call_deque(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    bound = args[1] if len(args) > 1 else kwargs.get("maxlen")
    maxlen = tx.constant_of(bound) if bound is not None else None
    if maxlen is not None and not (type(maxlen) is int and maxlen >= 0):
        raise refused("deque")
    queue = ListValue([], cls=collections.deque, maxlen=maxlen)
    for item in tx.to_list(args[0]) if args else []:
        queue.append(tx, item)
    return queue


@handles(range)
def call_range(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) in (1, 2, 3) and all(isinstance(arg.realize(), (ConstantValue, NumberValue)) for arg in args):
        return make_range(tx, args)
    return tx.fold(range, [tx.constant_of(a) for a in args], {})


@handles(slice)
def call_slice(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    none = ConstantValue(None)
    parts = [none, args[0], none] if len(args) == 1 else [*args, *[none] * (3 - len(args))]
    return SliceValue(*parts)


@handles(enumerate)
def call_enumerate(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    iterable = args[0] if args else kwargs["iterable"]
    start = args[1] if len(args) > 1 else kwargs.get("start", ConstantValue(0))
    if start.python_type() is not int:
        start = tx.call(tx.python_object(operator.index), [start], {})
    return EnumerateIterator(tx.iterate(iterable), start)


@handles(zip)
def call_zip(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return ZipIterator([tx.iterate(arg) for arg in args], "strict" in kwargs and tx.truth(kwargs["strict"]))


@handles(map)
def call_map(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return MapIterator(args[0], [tx.iterate(arg) for arg in args[1:]])


@handles(filter)
def call_filter(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return FilterIterator(args[0], tx.iterate(args[1]))


@handles(reversed)
def call_reversed(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = args[0].realize()
    if isinstance(value, (SequenceValue, DictValue, DictViewValue, RangeValue)):
        return value.call_method(tx, "__reversed__", [], {})
    if isinstance(value, ConstantValue):
        if type(value.value) is range:
            return ConstantIterator(value.value[::-1])
        items = tx.user_errors(lambda: list(reversed(value.value)))
        return ListIterator([tx.python_object(item) for item in items], reversed_tuple)
    if isinstance(value, ObjectValue):
        method = special_method(tx, value, "__reversed__")
        if method is not None:
            return tx.call(method, [], {})  # anything
        if not has_special(value, "__getitem__") or issubclass(value.cls, dict):
            raise refused("reversed")
        return ReversedIterator(value, tx.constant_of(value.length(tx)) - 1)
    if isinstance(value, ClassValue) and isinstance(value.cls, enum.EnumMeta):
        tx.reliance.classes[value.cls] = None
        members: list[Any] = list(value.cls)
        return ListIterator([tx.python_object(member) for member in reversed(members)])
    raise GraphBreak(f"reversed() of {value.describe()}")


@handles(functools.partial)
def call_partial(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    function = args[0].realize()
    if not has_special(function, "__call__"):
        raise refused("functools.partial")
    if isinstance(function, PartialValue):
        return PartialValue(function.function, [*function.args, *args[1:]], {**function.kwargs, **kwargs})
    return PartialValue(function, args[1:], kwargs)


@handles(itertools.count)
def call_count(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    start = args[0] if args else kwargs.get("start", ConstantValue(0))
    step = args[1] if len(args) > 1 else kwargs.get("step", ConstantValue(1))
    if not all(issubclass(value.python_type(), (int, float, complex)) for value in (start, step)):
        raise GraphBreak("itertools.count() of something else than numbers")
    if start.python_type() is bool and issubclass(step.python_type(), int) and tx.constant_of(step) == 1:
        start = tx.binary("+", start, ConstantValue(0))  # by one, it counts in integers from the start
    return CountIterator(start, step)


@handles(types.MappingProxyType)
def make_mapping_proxy(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``types.MappingProxyType(mapping)``."""
    mapping = args[0].realize() if len(args) == 1 and not kwargs else None
    if isinstance(mapping, DictValue) and mapping.cls is not types.MappingProxyType or \
            isinstance(mapping, ObjectValue) and isinstance(mapping.storage, DictValue):
        return MappingProxyValue(mapping)
    raise GraphBreak("a mappingproxy of something that is no dictionary")


@handles(weakref.ref)
def make_weak_reference(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``weakref.ref(obj)``."""
    referent = args[0].realize() if args else None
    if referent is None or len(args) != 1 or kwargs or referent.source is None or referent.is_constant():
        raise GraphBreak("a weak reference with a callback, or to an object made in the compiled function")
    return WeakReference(referent=referent)
