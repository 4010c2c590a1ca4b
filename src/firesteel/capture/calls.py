"""Calls: argument binding and inlining of Python functions, and dispatch of C callables to what models them."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from .. import config, torch_compat
from . import number_rules
from .break_reasons import not_known
from .builtin_calls import attribute_name, is_foldable
from .builtin_text import is_logger, replay_logging
from .cached_functions import call_cached
from .call_handlers import HANDLERS
from .call_signatures import call_native_method, checked, handled
from .callable_objects import SINGLE_DISPATCH, call_callable_object, call_single_dispatch
from .classes import instantiate
from .drawn_numbers import call_draw, is_draw
from .equivalents import REGISTRY
from .equivalents.collections_methods import fromkeys
from .equivalents.torch_functions import BY_NAME
from .frame import Frame
from .graph_arguments import UngraphableArgument
from .graph_functions import is_graph_function
from .markers import is_disallowed, marker_of
from .numpy_calls import call_numpy, is_numpy_function
from .objects import generic_del_attr, generic_set_attr, plain_get_attr
from .operators import DUNDER_TO_COMPARE, comparison_of_objects
from .pure_functions import computed
from .python_errors import wrong_arguments
from .signals import GraphBreak, SkipFrame
from .skipping import around_module, opaque_module
from .undecidable import Undecidable
from .values.base import Value
from .values.constants import ConstantValue, NumberValue, PythonObject
from .values.functions import FunctionValue
from .values.iterators import GeneratorValue
from .values.mappings import DictValue
from .values.objects import ClassValue, ObjectValue
from .values.ranges import RangeValue
from .values.sequences import ListValue, TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .entry_code import EntryCode
    from .tracer import Tracer

# what dict does otherwise than its own subclasses, or object than the builtin containers
DIFFERENT_IN_BASES = frozenset({"__repr__", "__reversed__", "copy", "pop", "popitem", "__or__", "__ror__"})
VARARGS, VARKEYWORDS, GENERATOR, COROUTINE, ASYNC_GENERATOR = 0x04, 0x08, 0x20, 0x80, 0x200


def bind_arguments(
    tx: Tracer, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]
) -> dict[str, Value]:
    """Locals of the callee, or the TypeError that Python raises."""
    code = function.code
    count, keyword_only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    bound: dict[str, Value] = dict(zip(names[:count], args, strict=False))
    extra: dict[str, Value] = {}
    if len(args) > count and not code.co_flags & VARARGS:
        raise wrong_arguments(tx, function, args, kwargs)
    positional_only = code.co_posonlyargcount
    accepted = names[positional_only: count + keyword_only]
    for name, value in kwargs.items():
        if name in accepted:
            if name in bound:
                raise wrong_arguments(tx, function, args, kwargs)
            bound[name] = value
        elif code.co_flags & VARKEYWORDS:
            extra[name] = value
        else:
            raise wrong_arguments(tx, function, args, kwargs)
    defaults = function.defaults
    for position in range(count):
        name = names[position]
        if name not in bound:
            index = position - (count - len(defaults))
            if index < 0:
                raise wrong_arguments(tx, function, args, kwargs)
            bound[name] = defaults[index]
    for name in names[count: count + keyword_only]:
        if name not in bound:
            if name not in function.kwdefaults:
                raise wrong_arguments(tx, function, args, kwargs)
            bound[name] = function.kwdefaults[name]
    position = count + keyword_only
    if code.co_flags & VARARGS:
        bound[names[position]] = TupleValue(list(args[count:]))
        position += 1
    if code.co_flags & VARKEYWORDS:
        bound[names[position]] = DictValue({name: (ConstantValue(name), value) for name, value in extra.items()})
    return bound


def call_function(tx: Tracer, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call a Python function: modelled as a whole, put into the graph, or inlined."""

    real = function.real
    if real is not None:
        handler = HANDLERS.get(real)
        if handler is not None:
            return handler(tx, args, kwargs)
        original = torch_compat.behind_torchs_compiler(real)
        if original is not None:
            return tx.call(tx.python_object(original), args, kwargs)
        if is_graph_function(real) and not is_disallowed(real):
            try:
                return tx.call_torch(real, args, kwargs)
            except (UngraphableArgument, Undecidable):  # torch's own Python may know what to do with it
                return inline(tx, function, args, kwargs)
        if args and is_tensor_method(real) and isinstance(receiver := args[0].realize(), TensorValue):
            return receiver.call_method(tx, real.__name__, args[1:], kwargs)
        marker = marker_of(real)
        if marker is not None:
            return marker.apply(tx, function, args, kwargs)
        equivalent = REGISTRY.get(real) or BY_NAME.get((real.__module__, real.__qualname__))
        if equivalent is not None:
            return tx.call(tx.python_object(equivalent), args, kwargs)
        if real.__code__ is SINGLE_DISPATCH and len(args) == 1:
            return call_single_dispatch(tx, function, args)
        if opaque_module(function.globals.get("__name__") or ""):
            return call_opaque(tx, function, args, kwargs)
        reason = around_module(function.code, function.globals)
        if reason is not None and not tx.compiler.fullgraph:
            raise GraphBreak(reason, "nothing: this costs no more than the wrapper itself")
        result = computed(tx, real, args, kwargs)
        if result is not None:
            return result
    return inline(tx, function, args, kwargs)


def call_opaque(tx: Tracer, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A function of a numeric library: computed now on constants, otherwise between two graphs."""
    name, module, real = function.describe(), function.globals["__name__"], function.real
    if module.partition(".")[0] == "numpy" and config.trace_numpy:
        result = call_numpy(tx, real, args, kwargs)
        if result is not None:
            return result
    if module.partition(".")[0] == "numpy" and real is not None and \
            all(_is_known(arg) for arg in (*args, *kwargs.values())):
        keywords = {k: tx.constant_of(v) for k, v in kwargs.items()}
        result = tx.fold(real, [tx.constant_of(a) for a in args], keywords)
        if isinstance(result, ConstantValue):
            return result
    raise GraphBreak(f"{name} of {module} is outside of PyTorch",
                     "use torch functions, or accept the break")


def inline(tx: Tracer, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Execute the callee's bytecode symbolically."""
    code = function.code
    if len(tx.frames) > config.inline_depth_limit:
        root = tx.frames[0].code
        if not tx.compiler.fullgraph and any(frame.code is root for frame in tx.frames[1:]):
            # one level at a time through the dispatcher would exhaust the stack where plain recursion does not
            raise SkipFrame(f"recursion deeper than {config.inline_depth_limit} frames (config.inline_depth_limit)")
        raise GraphBreak(f"calls nest deeper than {config.inline_depth_limit} frames",
                         "raise config.inline_depth_limit")
    if code.co_flags & (COROUTINE | ASYNC_GENERATOR):
        raise GraphBreak(f"{function.describe()} is asynchronous")
    locals_ = bind_arguments(tx, function, args, kwargs)
    tx.inlined.add(code)
    frame = Frame(tx, code, function.globals, function.closure, locals_)
    if code.co_flags & GENERATOR:
        def rebuild(entry: EntryCode) -> str:
            parts = [entry.called_back(function), *(entry.value(arg) for arg in args)]
            text = ", ".join(parts[1:])
            if kwargs:
                text += ", **{" + ", ".join(f"{k!r}: {entry.value(v)}" for k, v in kwargs.items()) + "}"
            return f"{parts[0]}({text.removeprefix(', ')})"

        return GeneratorValue(frame, rebuild)
    return frame.run()


def call_object(tx: Tracer, value: PythonObject, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call something that is not a Python function."""

    obj = value.obj
    try:
        handler = HANDLERS.get(obj)
    except TypeError:
        handler = None
    if handler is not None:
        return handled(tx, handler, obj, args, kwargs)
    if is_graph_function(obj) and not is_disallowed(obj):
        return tx.call_torch(obj, args, kwargs)
    if is_draw(obj) and not tx.compiler.exports:
        return call_draw(tx, obj, args, kwargs)
    if is_numpy_function(obj) and config.trace_numpy:
        result = call_numpy(tx, obj, args, kwargs)
        if result is not None:
            return result
    marker = marker_of(obj)
    if marker is not None:
        return marker.apply(tx, value, args, kwargs)
    if isinstance(obj, (types.MethodDescriptorType, types.WrapperDescriptorType)) and args:
        return call_descriptor(tx, obj, args, kwargs)
    equivalent = REGISTRY.get(obj) if _hashable(obj) else None
    if equivalent is not None:
        checked(tx, obj, args, kwargs)
        return tx.call(tx.python_object(equivalent), args, kwargs)
    if isinstance(obj, types.BuiltinFunctionType) and obj.__name__ == "fromkeys" and \
            isinstance(obj.__self__, type) and issubclass(obj.__self__, dict):
        return tx.call(tx.python_object(fromkeys), [tx.python_object(obj.__self__), *args], kwargs)
    if is_foldable(obj):
        checked(tx, obj, args, kwargs)
        number = number_rules.call(tx, obj, args) if not kwargs else None
        if number is not None:
            return number
        for arg in args:
            if isinstance(known := arg.realize(), ListValue) and known.cls is list:
                known.elements(tx)
        if all(_is_known(arg) for arg in (*args, *kwargs.values())):
            keywords = {k: tx.constant_of(v) for k, v in kwargs.items()}
            return tx.fold(obj, [tx.constant_of(arg) for arg in args], keywords)
        raise GraphBreak(f"{value.describe()} of a value that is not known while capturing")
    if isinstance(obj, types.MethodWrapperType) and obj.__name__ == "__get__" and args and \
            isinstance(receiver := args[0].realize(), TensorValue):
        return receiver.get_attr(tx, getter_name(obj))
    result = call_callable_object(tx, value, args, kwargs)
    if result is not None:
        return result
    wrapped = getattr(obj, "__wrapped__", None)
    if type(obj).__name__ == "_lru_cache_wrapper" and wrapped is not None:
        if args and is_logger(args[0]):  # it logs what it has not logged before
            return replay_logging(tx, obj, args, kwargs)
        return call_cached(tx, value, args, kwargs)
    if isinstance(obj, (staticmethod, classmethod)):
        return tx.call(tx.python_object(obj.__func__), args, kwargs)
    raise not_known(obj, value.describe())


def is_tensor_method(function: types.FunctionType) -> bool:
    """Whether a function is a method that ``torch.Tensor`` has in Python."""
    return function.__module__ == "torch._tensor" and vars(torch.Tensor).get(function.__name__) is function


def getter_name(getter: Any) -> str:
    """The name of the attribute that ``torch.Tensor.shape.__get__`` and its like read."""
    descriptor = getter.__self__
    name = getattr(descriptor, "__name__", None)
    if name is None and isinstance(descriptor, property) and descriptor.fget is not None:
        name = descriptor.fget.__name__
    if not isinstance(name, str):
        raise GraphBreak("the getter of an attribute without a name")
    return name


def _hashable(obj: Any) -> bool:
    try:
        hash(obj)
    except TypeError:
        return False
    return True


def _is_known(value: Value) -> bool:

    value = value.realize()
    if isinstance(value, (NumberValue, RangeValue)):
        return True
    if isinstance(value, TupleValue) or isinstance(value, ListValue) and value.items is not None:
        return all(_is_known(item) for item in value.items or ())
    try:
        value.as_constant()
    except Exception:
        return False
    return True


def call_descriptor(tx: Tracer, obj: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """An unbound C method: ``list.append(items, x)``, ``object.__setattr__(self, name, value)``."""

    receiver, rest = args[0].realize(), args[1:]
    name, owner = obj.__name__, obj.__objclass__
    checked(tx, obj, args, kwargs)
    if owner is object or owner is type:
        if name == "__setattr__" and isinstance(receiver, ObjectValue):
            generic_set_attr(tx, receiver, attribute_name(tx, rest[0]), rest[1], plain=True)
            return ConstantValue(None)
        if name == "__delattr__" and isinstance(receiver, ObjectValue):
            generic_del_attr(tx, receiver, attribute_name(tx, rest[0]), plain=True)
            return ConstantValue(None)
        if name == "__setattr__" and isinstance(receiver, ClassValue):
            receiver.set_own_attr(tx, attribute_name(tx, rest[0]), rest[1])
            return ConstantValue(None)
        if name == "__getattribute__":
            return plain_get_attr(tx, receiver, attribute_name(tx, rest[0]))
        if name in ("__init__", "__init_subclass__"):
            if (rest or kwargs) and owner is object:
                raise GraphBreak("object.__init__ with arguments")
            return ConstantValue(None)
        if name in DUNDER_TO_COMPARE and not isinstance(receiver, (ConstantValue, NumberValue)):
            return comparison_of_objects(tx, name, receiver, rest[0].realize())
        if name == "__subclasscheck__" and isinstance(receiver, ClassValue):
            return tx.fold(issubclass, [rest[0].as_constant(), receiver.cls], {})
        if name == "__call__" and isinstance(receiver, ClassValue):
            return instantiate(tx, receiver, rest, kwargs)
    equivalent = REGISTRY.get(obj)
    of_object = owner is object and isinstance(receiver, ObjectValue)
    if equivalent is not None and (of_object or not receiver.native_methods):
        return tx.call(tx.python_object(equivalent), args, kwargs)
    if not issubclass(receiver.python_type(), owner):
        raise GraphBreak(f"{owner.__name__}.{name} on {receiver.describe()}")
    if isinstance(receiver, ObjectValue) and receiver.storage is None and owner is not object \
            and not issubclass(receiver.cls, BaseException):
        raise GraphBreak(f"{owner.__name__}.{name} on {receiver.describe()}")
    if isinstance(receiver, ConstantValue) and getattr(receiver.python_type(), name, None) is not obj:
        # the method of a base, past the one of the receiver's class
        return tx.fold(obj, [receiver.value, *(tx.constant_of(arg) for arg in rest)],
                       {word: tx.constant_of(value) for word, value in kwargs.items()})
    native: Any = receiver.storage if isinstance(receiver, ObjectValue) else receiver
    if (name in DIFFERENT_IN_BASES or isinstance(receiver, NumberValue)) and native is not None \
            and getattr(native.python_type(), name, None) is not obj:
        raise GraphBreak(f"{owner.__name__}.{name} on {receiver.describe()}")
    return call_native_method(tx, receiver, name, rest, kwargs)
