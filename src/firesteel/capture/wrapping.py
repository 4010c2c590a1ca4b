"""From real Python objects to Values, with the guards that each kind needs."""

from __future__ import annotations

import collections
import enum
import functools
import gc
import itertools
import math
import operator
import random
import re
import sys
import types
import weakref
from typing import TYPE_CHECKING, Any, Literal

import numpy
import torch

from .. import config, torch_compat
from ..fake import FakeUnsupported, unsupported_reason
from ..shapes.symnode import make_symbolic
from ..torch_compat import collectives, distributed_tensors
from .dynamism import TensorSeen, symbolic_layout, tensor_conditions
from .guards import NumberSeen, asks_for_hashes, constant_condition, is_constant_key, same_constant
from .outside_iterators import wrap_iterator
from .pure_functions import VALUE_TYPES, rely_on_context
from .signals import GraphBreak
from .source import (
    AttrSource,
    ConstantSource,
    Source,
    StorageSource,
    _ById,
    has_own_getter,
    instance_table,
    item_source,
    written_in_python,
)
from .values.base import LazyValue, Value
from .values.constants import ConstantValue, NumberValue, PythonObject, SliceValue
from .values.functions import FunctionValue, PartialValue, closure_cells
from .values.generators import RandomGenerator
from .values.mappings import DictValue, DictViewValue, SetValue
from .values.methods import MethodValue, NativeMethod
from .values.modules import MODULE_TABLES, CompiledModuleValue, ModuleValue
from .values.objects import ExceptionValue, InstanceDict, ObjectValue
from .values.opaque import OpaqueIterator, OpaqueValue
from .values.progress_bars import ProgressBarValue, is_progress_bar
from .values.sequences import ListValue, TupleValue
from .values.subclass_tensors import tensor_of_class
from .values.tensors import TensorValue
from .values.thread_state import wrap_thread_state
from .values.weak_references import WeakReference

if TYPE_CHECKING:
    from .tracer import Tracer

SINGLETONS = frozenset({
    type(None), bool, type(Ellipsis), type(NotImplemented), torch.dtype, torch.layout, torch.memory_format,
})
EQUAL_CONSTANTS = frozenset({str, bytes, complex, torch.device, range, torch_compat.ATTENTION_BACKEND,
                             *collectives.reduction_classes()})
NUMBERS = frozenset({int, float})
CONSTANT_TYPES = SINGLETONS | EQUAL_CONSTANTS | NUMBERS
# C types whose attribute lookup is the generic one.
PLAIN_GETTERS = frozenset({cls.__getattribute__ for cls in (
    object, dict, list, set, frozenset, tuple, collections.OrderedDict, collections.defaultdict, collections.deque,
    BaseException,
)})
# Classes are told apart by identity or hash: a metaclass may say that everything equals.
DICT_VIEWS: dict[type, str] = {type({}.keys()): "keys", type({}.values()): "values", type({}.items()): "items"}
DICTIONARIES: frozenset[type] = frozenset({dict, collections.OrderedDict})
SETS: frozenset[type] = frozenset({set, frozenset})
NUMPY_SCALARS = (numpy.generic, numpy.dtype)


CYTHON_FUNCTION = type(numpy.random.default_rng)
GENERATORS = frozenset({numpy.random.Generator, numpy.random.RandomState, random.Random})


def _nothing() -> None:
    """Something to wrap, for the type of the wrapper."""


CACHED_FUNCTION = type(functools.lru_cache(_nothing))

# Callable objects that are one thing for the whole process: operators of torch.ops, functions behind
# functools.lru_cache.
KNOWN_BY_IDENTITY = (*torch_compat.OPERATOR_TYPES, CACHED_FUNCTION, numpy.ufunc, type(numpy.prod),
                     operator.itemgetter, operator.attrgetter, operator.methodcaller)

_SOME_ITERATORS: tuple[Any, ...] = (
    iter([]), iter(()), iter({}), iter({}.values()), iter({}.items()), iter(set()), iter(range(0)), iter(""),
    zip(), enumerate(()), map(str, ()), filter(None, ()), reversed([]), (x for x in ""), iter(int, 1),
    iter(collections.deque()), itertools.count(),
)
ITERATORS = tuple(type(iterator) for iterator in _SOME_ITERATORS)


def wrap(tx: Tracer, real: Any, source: Source | None) -> Value:
    """The Value of `real`, reached through `source`."""
    if source is None:
        return value_of_known(tx, real)
    stand_in = tx.made_classes.stand_ins.get(id(real))
    if stand_in is not None:
        return stand_in
    kind = type(real)
    known = tx.known.get(id(real))
    if known is not None and known.source is not None and kind not in CONSTANT_TYPES:
        if known.source != source:
            tx.guard(source, "same object", "{0} is {1}", (), (known.source,))
        return known
    owner = tx.table_owners.get(id(real))
    if owner is not None:
        owner[0].look_up_in_table(tx, owner[1])
    value = _wrap_new(tx, real, kind, source)
    if kind not in CONSTANT_TYPES:
        tx.remember(real, value)
    if isinstance(value, ModuleValue):
        tables = instance_table(value.real)
        tx.table_owners.update({id(tables[name]): (value, name) for name in MODULE_TABLES if tables.get(name)})
    if isinstance(value, ObjectValue) and kind.__dictoffset__ and not _refuses_symbolic_attributes(kind):
        _remember_table(tx, value)
    return value


def _remember_table(tx: Tracer, value: ObjectValue) -> None:
    """Whoever holds the dictionary of an object from outside as well sees what becomes of the object."""
    table = instance_table(value.real)
    known = tx.known.get(id(table))
    if type(table) is not dict:
        return
    if known is None:
        value.instance_dict(tx)
    elif isinstance(known, DictValue) and not isinstance(known, InstanceDict):
        raise GraphBreak(f"{value.describe()}, whose dictionary the program holds beside it")


def _wrap_constant(tx: Tracer, real: Any, source: Source) -> Value:
    if type(real) is str and source.name in tx.unsettled:
        raise GraphBreak(f"the text {source.name} is another one from call to call",
                         "make numbers or tensors of it outside of the compiled function")
    tx.guard(source, "constant", *constant_condition(real))
    return ConstantValue(real, source)


def _wrap_new(tx: Tracer, real: Any, kind: type, source: Source) -> Value:
    if kind in NUMBERS:
        return _wrap_number(tx, real, source)
    if kind in SINGLETONS:
        tx.guard(source, "constant", f"{{0}} is {real!r}" if real is None or kind is bool else "{0} is {k[0]}",
                 () if real is None or kind is bool else (real,))
        return ConstantValue(real, source)
    if kind in EQUAL_CONSTANTS:
        return _wrap_constant(tx, real, source)
    if issubclass(kind, torch.Tensor):
        return _wrap_tensor(tx, real, kind, source)
    if issubclass(kind, torch.nn.Module):
        _guard_type(tx, kind, source)
        if _refuses_symbolic_attributes(kind):
            return OpaqueValue(real, source, "its class overrides __getattribute__")
        # a module that was compiled before is captured as the module behind it, whose __dict__ it shares
        original = kind.__dict__.get("_firesteel_original", real)
        kind_of_value = ModuleValue if original is real else CompiledModuleValue
        return kind_of_value(type(original), source, original)
    if kind is types.FunctionType:
        return _wrap_function(tx, real, source)
    if kind is types.MethodType:
        return _wrap_method(tx, real, source)
    if issubclass(kind, type):
        tx.guard(source, "identity", "{0} is {k[0]}", (real,))
        return tx.class_value(real)
    if kind is types.ModuleType or issubclass(kind, types.ModuleType):
        tx.guard(source, "identity", "{0} is {k[0]}", (real,))
        return PythonObject(real, source)
    container = _wrap_container(tx, real, kind, source)
    if container is not None:
        return container
    if issubclass(kind, (enum.Enum, *NUMPY_SCALARS)):
        if issubclass(kind, enum.Enum):
            tx.guard(source, "identity", "{0} is {k[0]}", (real,))
        else:
            scalar = tx.arrays.wrap_scalar(tx, real, source) if issubclass(kind, numpy.number) else None
            if scalar is not None:
                return scalar
            tx.guard(source, "constant", *constant_condition(real))
        return ConstantValue(real, source)
    if kind is slice:
        if all(type(part) in CONSTANT_TYPES for part in (real.start, real.stop, real.step)):
            tx.guard(source, "constant", *constant_condition(real))
            return SliceValue(*(ConstantValue(part) for part in (real.start, real.stop, real.step)))
    if kind is functools.partial:
        return _wrap_partial(tx, real, source)
    if kind is weakref.ref:
        _guard_type(tx, kind, source)
        return WeakReference(real, source)
    if issubclass(kind, BaseException):
        _guard_type(tx, kind, source)
        args_source = AttrSource(source, "args")
        _guard_type(tx, type(real.args), args_source)
        if type(real.args) is not tuple:  # some functions in C take a key that is a tuple for all arguments
            return OpaqueValue(real, source)
        tx.guard(args_source, "length", f"len({{0}}) == {len(real.args)}")
        args: list[Value] = [LazyValue(tx, arg, item_source(args_source, i)) for i, arg in enumerate(real.args)]
        return ExceptionValue(kind, args, source, real)
    if kind is types.CellType:
        return tx.cell(real, source)
    if issubclass(kind, KNOWN_BY_IDENTITY):
        tx.guard(source, "identity", "{0} is {k[0]}", (real,))
        return PythonObject(real, source)
    if issubclass(kind, ITERATORS):
        tx.guard(source, "type", "type({0}) is {k[0]}", (kind,))
        return wrap_iterator(tx, real, kind, source) or OpaqueIterator(real, source)
    if _is_plain_c_callable(real):
        bound = getattr(real, "__self__", None)
        # functions of C modules name their module, bound methods of C objects do not
        named = isinstance(getattr(real, "__module__", None), str)
        if bound is None or isinstance(bound, (types.ModuleType, type)) or named:
            same = "==" if isinstance(bound, type) else "is"
            tx.guard(source, "identity", f"{{0}} {same} {{k[0]}}", (real,))
            return PythonObject(real, source)
        tx.guard(source, "type", "type({0}) is {k[0]}", (kind,))
        return _bound_c_method(tx, real, bound, source)
    return _wrap_of_standard_library(tx, real, kind, source) or _wrap_instance(tx, real, kind, source)


def _wrap_method(tx: Tracer, real: Any, source: Source) -> Value:
    tx.guard(source, "type", "type({0}) is {k[0]}", (types.MethodType,))
    receiver = tx.wrap(real.__self__, AttrSource(source, "__self__"))
    if type(real.__self__) in GENERATORS and (type(real.__func__) is not types.FunctionType
                                              or real.__name__ in tx.draws.primitive):
        tx.guard(AttrSource(source, "__func__"), "identity", "{0} is {k[0]}", (real.__func__,))
        return NativeMethod(receiver, real.__name__)
    return MethodValue(receiver, tx.wrap(real.__func__, AttrSource(source, "__func__")), source)


def _wrap_of_standard_library(tx: Tracer, real: Any, kind: type, source: Source) -> Value | None:
    """The Value of a lock, a regular expression, a date and the like; None for other objects."""
    state = wrap_thread_state(tx, real, kind, source)
    if state is not None:
        tx.guard(source, "type", "type({0}) is {k[0]}", (kind,))
        return state
    if kind not in VALUE_TYPES or kind is re.Match:
        return None
    rely_on_context(tx, kind)
    if kind is re.Pattern:
        tx.guard(source, "identity", "{0} is {k[0]}", (real,))
    else:  # equal ones may differ in what they look like
        tx.guard(source, "constant", "type({0}) is {k[0]} and {k[1]}({0}) == {k[2]}", (kind, repr, repr(real)))
    return ConstantValue(real, source)


def _bound_c_method(tx: Tracer, real: Any, bound: Any, source: Source) -> Value:
    receiver = tx.wrap(bound, AttrSource(source, "__self__"))
    tx.guard(AttrSource(source, "__name__"), "constant", f"{{0}} == {real.__name__!r}")
    if receiver.native_methods:
        method = NativeMethod(receiver, real.__name__)
        method.source = source
        return method
    return OpaqueValue(real, source, "a method implemented in C")


def _guard_type(tx: Tracer, kind: type, source: Source) -> None:
    tx.guard(source, "type", "type({0}) is {k[0]}", (kind,))


def _refuses_symbolic_attributes(kind: type) -> bool:
    getter: Any = kind.__getattribute__
    return getter not in PLAIN_GETTERS and not has_own_getter(kind)


def _is_plain_c_callable(real: Any) -> bool:
    return issubclass(type(real), (
        types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
        types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType))


def number_bounds(real: int) -> dict[str, Any] | None:
    """The range within which an integer argument may vary in one entry; None for one that is a constant.

    Graphs compute with 64 bits. Products of two integers of the usual range fit, and what may not is guarded
    (see `number_rules`).
    """
    for bits in (31, 61):
        if -(1 << bits) <= real < 1 << bits:
            return {"lower": -(1 << bits), "upper": (1 << bits) - 1}
    return None


def _wrap_number(tx: Tracer, real: Any, source: Source) -> Value:
    name = source.name
    tx.symbols.numbers_seen[name] = NumberSeen(source, real)
    known = tx.symbols.number_inputs.get(source)
    if known is not None:
        return known
    # arithmetic on zeros, infinities and NaN has rules of its own, and so has that on integers of many digits
    bounds = number_bounds(real) if isinstance(real, int) else {}
    plain = bounds is not None if isinstance(real, int) else math.isfinite(real) and real != 0.0
    if plain and tx.symbols.dynamism.number(source, real, source in tx.symbols.changing):
        kind: Literal["int", "float"] = "int" if isinstance(real, int) else "float"
        finite = "type({0}) is float and {0} - {0} == 0.0 != {0}"
        tx.guard(source, "type", "type({0}) is int" if kind == "int" else finite)
        symbol = tx.shape_env.new_symbol(real, name, kind=kind, is_size=False, **(bounds or {}))
        tx.symbols.sources[symbol] = source
        node = tx.graph.add_input(source, make_symbolic(tx.shape_env, symbol))
        tx.number_nodes.bind(symbol, node)
        value = tx.symbols.number_inputs[source] = NumberValue(symbol, real, node, source)
        return value
    tx.guard(source, "constant", *constant_condition(real))
    return ConstantValue(real, source)


def _wrap_function(tx: Tracer, real: types.FunctionType, source: Source) -> Value:
    tx.guard(source, "function code", "type({0}) is {k[0]} and {0}.__code__ is {k[1]}",
             (types.FunctionType, real.__code__))
    if real.__defaults__:
        defaults: list[Value] = [LazyValue(tx, default, item_source(AttrSource(source, "__defaults__"), i))
                                 for i, default in enumerate(real.__defaults__)]
        tx.guard(AttrSource(source, "__defaults__"), "length", f"len({{0}}) == {len(defaults)}")
    else:
        defaults = []
    kwdefaults: dict[str, Value] = {}
    for name, default in (real.__kwdefaults__ or {}).items():
        kwdefaults[name] = LazyValue(tx, default, item_source(AttrSource(source, "__kwdefaults__"), name))
    return FunctionValue(real.__code__, real.__globals__, real.__name__, defaults, kwdefaults,
                         closure_cells(tx, real, source), source, real)


def _wrap_partial(tx: Tracer, real: functools.partial[Any], source: Source) -> Value:
    _guard_type(tx, functools.partial, source)
    args_source, kwargs_source = AttrSource(source, "args"), AttrSource(source, "keywords")
    tx.guard(args_source, "length", f"len({{0}}) == {len(real.args)}")
    tx.guard_keys(kwargs_source, real.keywords)
    return PartialValue(
        LazyValue(tx, real.func, AttrSource(source, "func")),
        [LazyValue(tx, arg, item_source(args_source, i)) for i, arg in enumerate(real.args)],
        {name: LazyValue(tx, arg, item_source(kwargs_source, name)) for name, arg in real.keywords.items()}, source)


def _wrap_container(tx: Tracer, real: Any, kind: type, source: Source) -> Value | None:
    if kind is list:
        _guard_type(tx, kind, source)
        return ListValue(None, source, real)
    if issubclass(kind, tuple):
        _guard_type(tx, kind, source)
        if kind is torch.Size:
            tx.guard(source, "constant", "{0} == {k[0]}", (real,))
            return TupleValue([ConstantValue(size) for size in real], torch.Size, source)
        if written_in_python(kind):
            tx.reliance.classes[kind] = None
        if not plain_tuple(kind) or getattr(real, "__dict__", None):
            if _refuses_symbolic_attributes(kind):
                return OpaqueValue(real, source)
            where = StorageSource(source, _ById(tuple))
            tx.guard(where, "length", f"{{k[0]}}({{0}}) == {tuple.__len__(real)}", (tuple.__len__,))
            return ObjectValue(kind, source, real, TupleValue(_tuple_items(tx, real, where), source=where))
        tx.guard(source, "length", f"len({{0}}) == {len(real)}")
        if kind.__dictoffset__:
            tx.guard(source, "attributes", "not {0}.__dict__")
        return TupleValue(_tuple_items(tx, real, source), kind, source)
    if kind in DICTIONARIES:
        _guard_type(tx, kind, source)
        if kind is collections.OrderedDict and asks_for_hashes(real):
            return OpaqueValue(real, source, "an ordered dictionary whose keys have hashes of their own")
        return DictValue({}, source, real, kind)
    if kind is types.MappingProxyType:
        _guard_type(tx, kind, source)
        if not shows_dictionary(real):
            return OpaqueValue(real, source, "a mappingproxy of something that is no dictionary")
        if not isinstance(source, AttrSource) or source.attribute not in ("__dict__", "__members__"):
            tx.guard(source, "shown", "{k[0]}({0})", (shows_dictionary,))
        return DictValue({}, source, real, kind)
    if kind in DICT_VIEWS:
        _guard_type(tx, kind, source)
        mapping = tx.wrap(real.mapping, AttrSource(source, "mapping"))
        return DictViewValue(mapping, DICT_VIEWS[kind]) if isinstance(mapping, DictValue) else None
    if kind is collections.defaultdict:
        _guard_type(tx, kind, source)
        factory = LazyValue(tx, real.default_factory, AttrSource(source, "default_factory"))
        # a guard that reads an item must not make one
        return DictValue({}, StorageSource(source, _ById(kind)), real, kind,
                         factory if real.default_factory is not None else None)
    if kind is collections.deque:
        _guard_type(tx, kind, source)
        tx.guard(AttrSource(source, "maxlen"), "constant", *constant_condition(real.maxlen))
        return ListValue(None, source, real, kind, real.maxlen)
    if kind in SETS:
        if all(is_constant_key(item) for item in real):
            tx.guard(source, "constant", "type({0}) is {k[1]} and {k[2]}([*{0}], {k[0]})",
                     (list(real), kind, same_constant))
            items, held = _set_items(tx, real)
            return SetValue(items, kind, source, held, room=sys.getsizeof(real))
        _guard_type(tx, kind, source)
        return OpaqueValue(real, source, "a set of tensors or objects")
    for base in (dict, list, set, frozenset):
        if issubclass(kind, base):
            if _refuses_symbolic_attributes(kind):
                return None
            _guard_type(tx, kind, source)
            storage = _wrap_storage(tx, real, base, source)
            return ObjectValue(kind, source, real, storage) if storage is not None else OpaqueValue(real, source)
    return None


def shows_dictionary(proxy: types.MappingProxyType[Any, Any]) -> bool:
    """Whether a proxy can be read without calling methods of the program."""
    return all(type(shown) in DICTIONARIES for shown in gc.get_referents(proxy))


def _tuple_items(tx: Tracer, real: Any, source: Source) -> list[Value]:
    return [LazyValue(tx, item, item_source(source, i)) for i, item in enumerate(tuple.__iter__(real))]


# What a class made by collections.namedtuple defines.
NAMED_TUPLE_METHODS = frozenset({"__new__", "__repr__", "__getnewargs__", "__replace__", "__init_subclass__"})


def plain_tuple(kind: type) -> bool:
    """Whether a subclass of tuple behaves as tuples do, but for the names of its fields and methods it adds."""
    for base in kind.__mro__:
        if not written_in_python(base):
            return True
        if any(name not in NAMED_TUPLE_METHODS and (
                _is_special(name) or hasattr(tuple, name) and isinstance(member, types.FunctionType))
               for name, member in vars(base).items()):
            return False
    return True


def _wrap_storage(tx: Tracer, real: Any, base: type, source: Source) -> Value | None:
    """The items of an instance of a user's subclass of a builtin container."""
    kind = type(real)
    if base is dict:
        builtin = next(b for b in kind.__mro__ if b in (collections.OrderedDict, collections.defaultdict, dict))
        factory = None
        if builtin is collections.defaultdict and real.default_factory is not None:
            factory = LazyValue(tx, real.default_factory, AttrSource(source, "default_factory"))
        return DictValue({}, StorageSource(source, _ById(builtin)), real, builtin, factory)
    if base is list:
        return ListValue(None, StorageSource(source, _ById(list)), real)
    items = list(set.__iter__(real) if base is set else frozenset.__iter__(real))
    if not all(is_constant_key(item) for item in items):
        return None
    where = StorageSource(source, _ById(base))
    if base is set:
        tx.guard(where, "constant", "{k[0]}({0}) == {k[1]}", (set.copy, set(items)))
    else:
        tx.guard(where, "constant", "{k[2]}([*{k[0]}({0})], {k[1]})", (frozenset.__iter__, items, same_constant))
    values, held = _set_items(tx, items)
    return SetValue(values, base, where, held)


def _set_items(tx: Tracer, real: Any) -> tuple[dict[Any, Value], dict[Any, Any]]:
    """The elements of a set by key: as Values and as they are."""
    values = [(tx.python_object(item), item) for item in real]
    keys = [value.key(tx) for value, _ in values]
    return dict(zip(keys, (value for value, _ in values), strict=True)), dict(zip(keys, real, strict=True))


def _wrap_tensor(tx: Tracer, real: torch.Tensor, kind: type, source: Source) -> Value:
    if kind is not torch.Tensor and kind is not torch.nn.Parameter and kind is not torch.nn.Buffer:
        return tx.wrap_subclass(real, kind, source)
    return wrap_plain_tensor(tx, real, kind, source)


def wrap_plain_tensor(tx: Tracer, real: torch.Tensor, kind: type, source: Source) -> Value:
    """The Value of a tensor that torch functions treat as a plain one."""
    # the base of a view that came before has been given the sizes it has now
    static = tx.fake.knows(real) or unsupported_reason(real) is not None
    layout = None if static else symbolic_layout(tx, real, source)
    try:
        fake = tx.fake.from_real(real, layout)
    except FakeUnsupported as error:
        tx.guard(source, "tensor", "type({0}) is {k[0]} and {k[1]}({0}) == {k[2]} and {0}.layout is {k[3]}",
                 (kind, torch_compat.dispatch_keys, torch_compat.dispatch_keys(real), real.layout))
        return tx.wrap_sparse(real, kind, source) or OpaqueValue(real, source, error.reason)
    guard_tensor(tx, real, kind, source, layout[0] if layout is not None else None)
    tx.symbols.tensors_seen[source.name] = TensorSeen(source, tuple(real.shape), real.stride())
    node = tx.graph.add_input(source, fake)
    plain = kind is torch.Tensor or kind is torch.nn.Parameter or kind is torch.nn.Buffer
    value = TensorValue(node, fake, source, kind, real) if plain else \
        tensor_of_class(node, fake, kind, source, real)
    tx.tensor_of_fake[id(fake)] = value
    tx.kept_alive.append(fake)
    return value


def guard_tensor(tx: Tracer, real: torch.Tensor, kind: type, source: Source, sizes: list[Any] | None = None) -> None:
    """Everything about a tensor that fake execution relied on, most telling first; `sizes` where some are symbols."""
    if sizes is None:
        shape, stride = f"{{0}}.shape == {tuple(real.shape)!r}", f"and {{0}}.stride() == {real.stride()!r} "
    else:
        shape, stride = tensor_conditions(tx, real, source, sizes), ""
    leaf = f" and {{0}}.is_leaf is {real.is_leaf}" if real.requires_grad else ""
    if kind is torch.nn.Parameter:
        tx.guard_stamp(torch_compat.PARAMETER_METHODS)
    tx.guard(source, "tensor",
             f"type({{0}}) is {{k[0]}} and {shape} and {{0}}.dtype is {{k[1]}} "
             f"{stride}and {{0}}.requires_grad is {real.requires_grad} "
             f"and {{0}}.device == {{k[2]}} and {{k[3]}}({{0}}) == {{k[4]}}{leaf}",
             (kind, real.dtype, real.device, torch_compat.dispatch_keys, torch_compat.dispatch_keys(real)))


def _wrap_instance(tx: Tracer, real: Any, kind: type, source: Source) -> Value:
    if kind is CYTHON_FUNCTION:
        tx.guard(source, "identity", "{0} is {k[0]}", (real,))
        return PythonObject(real, source)
    if kind in GENERATORS and not tx.compiler.exports:
        _guard_type(tx, kind, source)
        return RandomGenerator(real, source)
    if kind is torch.Generator and (generator := tx.wrap_generator(real, source)) is not None:
        return generator
    if kind is numpy.ndarray and config.trace_numpy and not tx.compiler.exports:
        return tx.arrays.wrap_array(tx, real, source)
    _guard_type(tx, kind, source)
    if kind.__module__.partition(".")[0] == "tqdm" and is_progress_bar(kind):
        return ProgressBarValue(kind, {}, None, source, real)
    if issubclass(kind, numpy.ndarray):
        return OpaqueValue(real, source, "a NumPy array" if kind is numpy.ndarray else "a subclass of NumPy's arrays")
    if kind.__module__ == "typing":  # Optional, Union and the like
        tx.guard(source, "identity", "{0} is {k[0]}", (real,))
        return PythonObject(real, source)
    if issubclass(kind, (int, float, str, bytes)):
        if not plain_subclass(kind) or real != real or (real == 0 and issubclass(kind, float)) or \
                not all(type(attr) in CONSTANT_TYPES for attr in getattr(real, "__dict__", {}).values()):
            return _wrap_number_or_text(tx, real, kind, source)
        tx.guard(source, "constant", "{0} == {k[0]}", (real,))
        if hasattr(real, "__dict__"):
            tx.guard(AttrSource(source, "__dict__"), "attributes", "{0} == {k[0]}", (dict(real.__dict__),))
        return ConstantValue(real, source)
    if issubclass(kind, collectives.group_classes()):
        from .collectives import wrap_group

        return wrap_group(tx, real, source)
    if distributed_tensors.placement_class(kind):
        tx.guard(source, "constant", "{0} == {k[0]}", (real,))
        return ConstantValue(real, source)
    if not written_in_python(kind) or _refuses_symbolic_attributes(kind):
        if issubclass(kind, types.SimpleNamespace):
            return ObjectValue(kind, source, real)
        if any(real is space for space in torch_compat.operation_namespaces()):
            tx.guard(source, "identity", "{0} is {k[0]}", (real,))
            return PythonObject(real, source)
        return OpaqueValue(real, source)
    for base in kind.__mro__:
        if base is object or written_in_python(base):
            continue
        if base.__module__ in ("typing", "abc", "_abc", "_thread", "torch._C") or base is types.SimpleNamespace:
            if base.__module__ == "torch._C":
                return OpaqueValue(real, source)
            continue
        return OpaqueValue(real, source)
    return ObjectValue(kind, source, real)


def _wrap_number_or_text(tx: Tracer, real: Any, kind: type, source: Source) -> Value:
    """An object of a subclass of int, float, str or bytes with methods of its own."""
    base: Any = next(base for base in (int, float, str, bytes) if issubclass(kind, base))
    solid = next(cls for cls in kind.__mro__ if not written_in_python(cls))
    plain = base.__add__(real, base())
    if solid is not base or has_own_getter(kind) or plain != plain or base is float and plain == 0:
        return OpaqueValue(real, source)
    tx.guard(source, "constant", "{k[0]}({0}, {k[1]}) is True", (base.__eq__, plain))
    return ObjectValue(kind, source, real, ConstantValue(plain))


def plain_subclass(kind: type) -> bool:
    """Whether a user's subclass of int, float, str or bytes behaves as its base does, but for methods it adds."""
    for base in kind.__mro__:
        if not written_in_python(base):
            return base in {int, float, str, bytes}
        if any(_is_special(name) and name not in ("__new__", "__init__") for name in vars(base)):
            return False
    return False


# What a class statement itself leaves in a class, and what Python only reads from classes.
CLASS_FACTS = frozenset({
    "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__slots__", "__annotations__",
    "__match_args__", "__orig_bases__", "__parameters__", "__static_attributes__", "__firstlineno__", "__annotate__",
    "__annotate_func__", "__annotations_cache__", "__classdictcell__", "__type_params__",
    "__init_subclass__", "__class_getitem__",
    "__abstractmethods__", "__deprecated__", "__final__", "__dataclass_fields__", "__dataclass_params__",
})


def _is_special(name: str) -> bool:
    """Whether a class defines a special method, or something else where Python looks for one."""
    return name.startswith("__") and name.endswith("__") and name not in CLASS_FACTS


def value_of_known(tx: Tracer, obj: Any) -> Value:
    """The Value of an object that capture may treat as constant: results of folding, classes, functions by code."""
    kind = type(obj)
    if kind in CONSTANT_TYPES or kind in VALUE_TYPES or isinstance(obj, (enum.Enum, *NUMPY_SCALARS)):
        return ConstantValue(obj)
    if kind is torch.SymInt or kind is torch.SymFloat or kind is torch.SymBool:
        return tx.symbols.value_of(obj)
    if distributed_tensors.placement_class(kind):
        return ConstantValue(obj)
    known = tx.known.get(id(obj))
    if known is not None:
        return known
    if isinstance(obj, type):
        return tx.class_value(obj)
    if kind is list:
        return ListValue([value_of_known(tx, item) for item in obj])
    if kind is torch.Size or (isinstance(obj, tuple) and (kind is tuple or hasattr(kind, "_fields")
                                                          or hasattr(kind, "n_sequence_fields"))):
        return TupleValue([value_of_known(tx, item) for item in obj], kind)
    if kind in DICTIONARIES:
        items = {}
        for key, item in obj.items():
            key_value = value_of_known(tx, key)
            items[key_value.key(tx)] = (key_value, value_of_known(tx, item))
        return DictValue(items, cls=kind)
    if kind in SETS:
        values = [value_of_known(tx, item) for item in obj]
        return SetValue({value.key(tx): value for value in values}, kind, table=obj)
    if kind is slice:
        return SliceValue(*(value_of_known(tx, part) for part in (obj.start, obj.stop, obj.step)))
    if kind is types.FunctionType:
        return tx.wrap(obj, ConstantSource.of(obj, obj.__qualname__))
    if kind is types.MethodType:
        return MethodValue(value_of_known(tx, obj.__self__), value_of_known(tx, obj.__func__))
    if kind is types.CodeType:
        return ConstantValue(obj)
    if isinstance(obj, types.ModuleType) or _is_plain_c_callable(obj):
        return PythonObject(obj)
    if kind is torch.finfo or kind is torch.iinfo or kind is torch.Generator:
        return PythonObject(obj)
    if isinstance(obj, (torch.Tensor, torch.nn.Module)) or kind is functools.partial or isinstance(obj, BaseException):
        return tx.wrap(obj, ConstantSource.of(obj, getattr(kind, "__name__", "object")))
    if isinstance(obj, (staticmethod, classmethod, property)) or \
            callable(obj) and kind.__module__.startswith(("torch", "builtins", "_functools", "functools")):
        return PythonObject(obj)
    if kind.__module__ in ("typing", "types") or isinstance(obj, types.GenericAlias):
        return PythonObject(obj)
    if written_in_python(kind):
        return tx.wrap(obj, ConstantSource.of(obj, kind.__name__))
    if kind.__hash__ is None:
        raise GraphBreak(f"a {kind.__module__}.{kind.__qualname__} object as a constant")
    return PythonObject(obj)
