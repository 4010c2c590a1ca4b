"""Calling classes: builtin types, exceptions, named tuples, dataclasses and user classes."""

from __future__ import annotations

import collections
import enum
import types
from typing import TYPE_CHECKING, Any

import numpy
import torch

from ..torch_compat.distributed_tensors import placement_class
from .call_handlers import HANDLERS, handles
from .call_signatures import checked, handled, refused
from .equivalents import REGISTRY
from .graph_functions import is_graph_function
from .legacy_tensors import construct, is_legacy
from .objects import class_member, find_on_class
from .pure_functions import MADE_OF_CONSTANTS, rely_on_context
from .signals import GraphBreak
from .source import written_in_python
from .values.base import Value
from .values.constants import ConstantValue
from .values.mappings import DictValue, SetValue
from .values.methods import C_METHODS, MethodValue
from .values.objects import ClassValue, ExceptionValue, ObjectValue
from .values.progress_bars import is_progress_bar, make_progress_bar
from .values.sequences import ListValue, TupleValue
from .values.tensors import TensorValue
from .wrapping import plain_subclass, plain_tuple

if TYPE_CHECKING:
    from .tracer import Tracer

# Immutable things whose construction from constants is pure.
FOLDED = frozenset({bytes, torch.device, torch.finfo, torch.iinfo})


def call_class(tx: Tracer, value: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``cls(*args, **kwargs)``."""

    cls = value.cls
    handler = HANDLERS.get(cls)
    if handler is not None:
        return handled(tx, handler, cls, args, kwargs)
    if issubclass(cls, numpy.generic) and (scalar := tx.arrays.make_scalar(tx, cls, args, kwargs)) is not None:
        return scalar
    if cls in MADE_OF_CONSTANTS:
        rely_on_context(tx, cls)
    if cls is object and (args or kwargs):
        raise refused("object")
    if cls in FOLDED or cls in MADE_OF_CONSTANTS or issubclass(cls, (enum.Enum, numpy.generic, numpy.dtype)):
        return tx.fold(cls, [tx.constant_of(a) for a in args], {k: tx.constant_of(v) for k, v in kwargs.items()})
    if cls is torch.Size:
        return TupleValue(tx.to_list(args[0]) if args else [], torch.Size)
    equivalent = REGISTRY.get(cls)
    if equivalent is not None:
        checked(tx, cls, args, kwargs)
        return tx.call(tx.python_object(equivalent), args, kwargs)
    if cls is torch.nn.Buffer:
        return _make_buffer(tx, args, kwargs)
    if is_graph_function(cls):
        return tx.call_torch(cls, args, kwargs)
    if placement_class(cls):
        return tx.fold(cls, [tx.constant_of(a) for a in args], {k: tx.constant_of(v) for k, v in kwargs.items()})
    if cls is types.MethodType and len(args) == 2 and not kwargs:
        if args[0].python_type() in C_METHODS:
            raise GraphBreak("types.MethodType() of a method written in C")
        return MethodValue(args[1], args[0])
    if cls is object:
        return ObjectValue(object)
    if cls is types.SimpleNamespace:
        instance = ObjectValue(cls)
        for name, item in kwargs.items():
            instance.attrs[name] = item
        return instance
    if is_legacy(cls) and not (len(args) == 1 and isinstance(args[0].realize(), TensorValue)):
        return construct(tx, cls, args, kwargs)
    if issubclass(cls, torch.Tensor):
        return tx.call_tensor_class(value, args, kwargs)
    if type(cls).__call__ is not type.__call__:
        return _call_metaclass(tx, value, args, kwargs)
    return instantiate(tx, value, args, kwargs)


def _make_buffer(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``torch.nn.Buffer(data, persistent=)``: a tensor with a mark, by which modules know it."""
    given = dict(zip(("data", "persistent"), args, strict=False)) | kwargs
    data = given.get("data")
    tensor = tx.call(tx.python_object(torch.empty), [tx.constant(0)], {}) if data is None else \
        tx.call_torch("detach", [data], {})
    if not isinstance(tensor, TensorValue) or data is not None and data.realize().fake.requires_grad:  # type: ignore[attr-defined]
        raise GraphBreak("a torch.nn.Buffer that requires grad", "make it outside and pass it in")
    tensor.set_attr(tx, "persistent", given.get("persistent", tx.constant(True)))
    tensor.set_attr(tx, "_is_buffer", tx.constant(True))
    return tensor


def _call_metaclass(tx: Tracer, value: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    raw, owner = find_on_class(type(value.cls), "__call__")
    if isinstance(raw, types.FunctionType) and owner is not None:
        return tx.call(class_member(tx, type(value.cls), "__call__", raw, owner), [value, *args], kwargs)
    if isinstance(raw, type):  # a TypedDict is called as dict
        return tx.call(tx.class_value(raw), args, kwargs)
    raise GraphBreak(f"calling {value.describe()}, whose metaclass is implemented in C")


def instantiate(tx: Tracer, value: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``type.__call__``: ``__new__``, then ``__init__``."""
    cls = value.cls
    if cls.__module__.partition(".")[0] == "tqdm" and is_progress_bar(cls):
        return make_progress_bar(tx, cls, args, kwargs)
    if hasattr(cls, "__del__"):
        raise GraphBreak(f"making a {cls.__name__}, whose end is noticed by its __del__", "use a with statement")
    raw, owner = find_on_class(cls, "__new__", tx)
    function = raw.__func__ if isinstance(raw, staticmethod) else raw
    if isinstance(function, types.FunctionType) and owner is not None:
        instance = tx.call(tx.python_object(function), [value, *args], kwargs).realize()
        if not issubclass(instance.python_type(), cls):
            return instance
    else:
        instance = new_object(tx, cls, args, kwargs)
    init, init_owner = find_on_class(cls, "__init__", tx)
    if isinstance(init, types.FunctionType):
        assert init_owner is not None
        result = tx.call(class_member(tx, cls, "__init__", init, init_owner), [instance, *args], kwargs).realize()
        if not (isinstance(result, ConstantValue) and result.value is None):
            raise tx.raised(TypeError(f"__init__() should return None, not {result.python_type().__name__!r}"))
    elif isinstance(instance, ObjectValue) and _filled_later(instance.storage):
        instance.call_method(tx, "__init__", args, kwargs)
    elif isinstance(instance, ObjectValue) and not isinstance(instance, ExceptionValue) and (args or kwargs) \
            and init is object.__init__ and not isinstance(function, types.FunctionType) and instance.storage is None:
        if not written_in_python(cls):
            raise GraphBreak(f"{cls.__name__}() takes no arguments")
        raise tx.raised(TypeError(f"{cls.__name__}() takes no arguments"))
    elif init is not object.__init__ and not isinstance(
            instance, (ExceptionValue, TupleValue, ConstantValue, ClassValue)) and not (
            isinstance(instance, ObjectValue) and instance.storage is not None):
        raise GraphBreak(f"{cls.__name__}.__init__ is implemented in C")
    return instance


def _filled_later(storage: Value | None) -> bool:
    """Whether ``__init__``, not ``__new__``, fills a subclass of a builtin class."""
    if isinstance(storage, SetValue):
        return storage.cls is set
    return storage is not None and not isinstance(storage, (TupleValue, ConstantValue))


def new_object(tx: Tracer, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The object that a C ``__new__`` makes."""
    if issubclass(cls, type):
        return tx.call(tx.python_object(type.__new__), [tx.class_value(cls), *args], kwargs)
    if issubclass(cls, BaseException):
        if kwargs and not isinstance(cls.__init__, types.FunctionType):
            raise GraphBreak(f"{cls.__name__} with keyword arguments")
        with_own_fields = (OSError, UnicodeError, SyntaxError, ImportError, BaseExceptionGroup)
        if cls.__module__ == "builtins" and issubclass(cls, with_own_fields):
            if issubclass(cls, (UnicodeError, SyntaxError, BaseExceptionGroup)) or len(args) > 1:
                raise GraphBreak(f"making a {cls.__name__}")
        return ExceptionValue(cls, list(args))
    if issubclass(cls, tuple):
        items = tx.to_list(args[0], hint=True) if args else []
        return TupleValue(items, cls) if plain_tuple(cls) else ObjectValue(cls, storage=TupleValue(items))
    base = _solid_base(cls)
    if base in {int, float, str, bytes}:
        # What the class is made of is what its base makes of the arguments, which may ask methods of the program's.
        plain = tx.constant_of(tx.call(tx.python_object(base), args, kwargs))
        if plain != plain:
            raise GraphBreak(f"making a {cls.__name__} that is NaN")
        new: Any = base.__new__
        return ConstantValue(new(cls, plain)) if plain_subclass(cls) else ObjectValue(cls, storage=ConstantValue(plain))
    if base is frozenset:
        return ObjectValue(cls, storage=SetValue.of(tx, args[0] if args else TupleValue([]), frozenset))
    if base is object:
        if getattr(cls, "__abstractmethods__", False):
            tx.user_errors(lambda: object.__new__(cls))
        return ObjectValue(cls)
    storage = empty_storage(base)
    if storage is None:
        raise GraphBreak(f"making a {cls.__name__}, which is built on C type {base.__name__}")
    return ObjectValue(cls, storage=storage)


def empty_storage(base: type) -> Value | None:
    """The natively modelled contents of a subclass of a builtin container."""
    if base is list:
        return ListValue([])
    if base in {dict, collections.OrderedDict, collections.defaultdict}:
        return DictValue({}, cls=base)
    if base is set:
        return SetValue({})
    if base is collections.deque:
        return ListValue([], cls=base)
    return None


def _solid_base(cls: type) -> type:
    """The first base that is implemented in C."""
    for base in cls.__mro__:
        if not written_in_python(base) and base.__module__ not in ("typing", "abc", "_abc", "collections.abc"):
            return base
    return object


@handles(*{cls.__new__ for cls in (object, tuple, int, float, str, bytes, list, dict, set, frozenset,
                                   collections.deque, collections.OrderedDict,
                                   collections.defaultdict, BaseException, Exception)})
def call_new(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``object.__new__(cls)``, ``tuple.__new__(cls, items)`` and the like, called explicitly."""
    cls = args[0].realize()
    if not isinstance(cls, ClassValue):
        raise GraphBreak("__new__ of something that is not a class")
    return new_object(tx, cls.cls, args[1:], kwargs)
