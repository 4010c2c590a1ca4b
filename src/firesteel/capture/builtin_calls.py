"""Builtins and a few stdlib functions, called on Values."""

from __future__ import annotations

import abc
import builtins
import inspect
import operator
import os
import sys
import threading
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy
import torch

from . import operators
from .call_handlers import handles
from .call_signatures import refused
from .frame import Frame
from .objects import call_special, class_member, find_on_class, has_special, own_special_method, special_result
from .pure_functions import CONSTRUCTORS, VALUE_TYPES
from .signals import GraphBreak, SkipFrame, UserRaise
from .source import ConstantSource, has_own_getter, written_in_python
from .values.arrays import ArrayValue
from .values.base import IdentityHash, IdentityKey, IdentityNumber, Value, inherits_method
from .values.constants import ConstantValue, PythonObject
from .values.functions import FunctionValue
from .values.iterators import CallableIterator, GeneratorValue
from .values.mappings import DictValue
from .values.methods import MethodValue
from .values.objects import ClassValue, ObjectValue
from .values.sequences import ListValue, sorted_items
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer

FOLDABLE_MODULES = frozenset({"math", "cmath", "_operator", "_bisect", "unicodedata", "zlib", "binascii", "_struct"})
FOLDABLE_BUILTINS = frozenset({
    abs, ascii, bin, callable, chr, divmod, format, hash, hex, oct, ord, pow, repr, round, len, min, max, sum, sorted,
    issubclass, sys.getsizeof, sys.intern, int.from_bytes, bytes.fromhex, float.fromhex,
    str.maketrans, dict.fromkeys, os.fspath,
})

# Functions of NumPy that give a scalar for a scalar or for a list of numbers.
NUMPY_REDUCTIONS = frozenset({
    numpy.prod, numpy.sum, numpy.mean, numpy.median, numpy.std, numpy.var, numpy.min, numpy.max,
    numpy.argmin, numpy.argmax, numpy.all, numpy.any,
    numpy.round, numpy.clip, numpy.ndim, numpy.isclose, numpy.allclose, numpy.array_equal,
    numpy.dot, numpy.ptp, numpy.percentile, numpy.quantile, numpy.interp, numpy.count_nonzero,
})


def is_foldable(obj: Any) -> bool:
    """Whether a callable is a pure function that may be computed while capturing when its arguments are constants."""
    if isinstance(obj, numpy.ufunc) or (isinstance(obj, type(numpy.prod)) and obj in NUMPY_REDUCTIONS):
        return True
    if isinstance(obj, types.BuiltinFunctionType):
        if obj.__name__ in CONSTRUCTORS and isinstance(obj.__self__, type) and obj.__self__ in VALUE_TYPES:
            return True
        return obj in FOLDABLE_BUILTINS or getattr(obj, "__module__", None) in FOLDABLE_MODULES
    return isinstance(obj, types.MethodDescriptorType) and obj.__objclass__ in (str, bytes, int, float, complex, bool)


# Attributes and types


def attribute_name(tx: Tracer, value: Value) -> str:
    """The name given to ``getattr`` and its like."""
    name = tx.constant_of(value)
    if not isinstance(name, str):
        raise refused("an attribute whose name is no string")
    return name


@handles(getattr)
def call_getattr(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    name = attribute_name(tx, args[1])
    if len(args) == 2:
        return tx.get_attr(args[0], name)
    try:
        return tx.get_attr(args[0], name)
    except UserRaise as raised:
        if issubclass(raised.value.python_type(), AttributeError):
            return args[2]
        raise


@handles(setattr)
def call_setattr(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    args[0].realize().set_attr(tx, attribute_name(tx, args[1]), args[2])
    return ConstantValue(None)


@handles(delattr)
def call_delattr(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    args[0].realize().del_attr(tx, attribute_name(tx, args[1]))
    return ConstantValue(None)


@handles(hasattr)
def call_hasattr(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return ConstantValue(tx.has_attr(args[0], attribute_name(tx, args[1])))


def is_instance(tx: Tracer, value: Value, classes: Any) -> bool:
    """``isinstance`` on a Value; `classes` are real classes, tuples or unions."""
    if isinstance(classes, tuple):
        return any(is_instance(tx, value, cls) for cls in classes)
    if isinstance(classes, types.UnionType):
        return is_instance(tx, value, classes.__args__)
    kind = value.python_type()
    if isinstance(value, TensorValue) and type(classes).__name__ == "tensortype":
        return isinstance(value.fake, classes)
    if kind is classes:
        return True  # whatever its metaclass says
    own = _own_check(tx, classes, "__instancecheck__", value)
    if own is not None:
        return own
    _guard_subclass(tx, kind, classes)
    real = getattr(value, "real", None)
    if real is not None and not isinstance(value, (TensorValue, FunctionValue)):
        return isinstance(real, classes)
    if isinstance(value, ConstantValue):
        return isinstance(value.value, classes)
    if isinstance(value, PythonObject):
        return isinstance(value.obj, classes)
    if isinstance(value, ClassValue):
        return isinstance(value.cls, classes)
    if isinstance(value, TensorValue) and not inherits_method(type(classes), "__instancecheck__", type):
        import torch

        if classes is torch.nn.Parameter:
            return issubclass(kind, torch.nn.Parameter) or kind is not torch.Tensor and \
                tx.has_attr(value, "_is_param") and tx.truth(tx.get_attr(value, "_is_param"))
        if classes is torch.nn.Buffer:
            return tx.has_attr(value, "_is_buffer") and tx.truth(tx.get_attr(value, "_is_buffer"))
    return issubclass(kind, classes)


def _own_check(tx: Tracer, cls: Any, name: str, value: Value) -> bool | None:
    """The answer of a metaclass that the user has written; None for all others."""
    raw, owner = find_on_class(type(cls), name) if isinstance(cls, type) else (None, None)
    if not isinstance(raw, types.FunctionType) or owner is None or \
            raw.__module__.partition(".")[0] in ("abc", "torch", "typing", "typing_extensions", "ctypes", "unittest"):
        return None
    find_on_class(type(cls), name, tx)
    return tx.truth(tx.call(class_member(tx, type(cls), name, raw, owner), [tx.python_object(cls), value], {}))


def _guard_subclass(tx: Tracer, kind: type, cls: Any) -> None:
    """Rely on what an abstract class says about a class: classes can be registered at any time."""
    if type(cls) is abc.ABCMeta and written_in_python(kind) and kind not in tx.made_classes \
            and cls not in kind.__mro__:
        answer = issubclass(kind, cls)
        tx.guard(ConstantSource.of(kind, kind.__qualname__), "class", f"{{k[0]}}({{0}}, {{1}}) is {answer}",
                 (issubclass,), (ConstantSource.of(cls, cls.__qualname__),))


@handles(isinstance)
def call_isinstance(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    classes = tx.constant_of(args[1])
    return ConstantValue(is_instance(tx, args[0].realize(), classes))


@handles(issubclass)
def call_issubclass(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    kind, classes = tx.constant_of(args[0]), tx.constant_of(args[1])
    for cls in classes if isinstance(classes, tuple) else (classes,):
        if not isinstance(kind, type):
            break
        own = _own_check(tx, cls, "__subclasscheck__", args[0])
        if own is not None and cls is classes:
            return ConstantValue(own)
        if own is not None:
            raise GraphBreak("issubclass() with several classes, one of which answers itself")
        _guard_subclass(tx, kind, cls)
    return tx.fold(issubclass, [kind, classes], {})


@handles(callable)
def call_callable(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = args[0].realize()
    if isinstance(value, (ClassValue, PythonObject)):
        return ConstantValue(callable(value.as_constant()))
    tx.reliance.classes[value.python_type()] = None
    return ConstantValue(any("__call__" in vars(base) for base in value.python_type().__mro__))


@handles(id)
def call_id(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = args[0].realize()
    if isinstance(value, (ClassValue, PythonObject)):
        return ConstantValue(id(value.as_constant()))
    return IdentityNumber(value)


def _hash_of(number: int) -> int:
    """What ``hash()`` makes of the result of ``__hash__``."""
    fits = -1 << (sys.hash_info.width - 1) <= number < 1 << (sys.hash_info.width - 1)
    return -2 if number == -1 else number if fits else hash(number)


@handles(hash)
def call_hash(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = args[0].realize()
    if isinstance(value, ObjectValue):
        method = own_special_method(tx, value, "__hash__")
        if method is not None:
            result = special_result(tx, value.cls, "__hash__", tx.call(method, [], {}))
            return tx.fold(_hash_of, [tx.constant_of(result)], {})
        if inherits_method(value.cls, "__hash__", object):
            return IdentityHash(value)
        raise GraphBreak("hash() of an object")
    token = value.key(tx)
    if isinstance(token, IdentityKey) and not isinstance(value, IdentityNumber):
        return IdentityHash(value)
    return tx.fold(hash, [tx.constant_of(value)], {})


# Sizes, iteration


@handles(len)
def call_len(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return args[0].realize().length(tx)


@handles(iter)
def call_iter(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) == 2:
        if not has_special(args[0], "__call__"):
            raise refused("iter")
        return CallableIterator(args[0], args[1])
    return tx.iterate(args[0])


@handles(next)
def call_next(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) == 1 and isinstance(args[0].realize(), ObjectValue):
        return call_special(tx, args[0].realize(), "__next__")  # with its own StopIteration
    item = tx.next_item(args[0])
    if item is not None:
        return item
    if len(args) == 2:
        return args[1]
    iterator = args[0].realize()
    result = []
    if isinstance(iterator, GeneratorValue) and not iterator.frame.returned_none():
        result = [iterator.frame.returned]
    raise UserRaise(tx.make_exception(StopIteration, result))


@handles(sorted)
def call_sorted(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return ListValue(sorted_items(tx, tx.to_list(args[0], hint=True), kwargs))


def _of_elements(tx: Tracer, args: list[Value], name: str) -> Value | None:
    """``any`` or ``all`` of the elements of a vector, as one operation; None for all else."""
    items = args[0].realize() if len(args) == 1 else None
    tensor = items.tensor if isinstance(items, ArrayValue) else items
    if not isinstance(tensor, TensorValue) or tensor.cls is not torch.Tensor or tensor.fake.dim() != 1:
        return None
    asked = tx.call_torch(name, [tx.call_torch("ne", [tensor, ConstantValue(0)], {})], {})
    assert isinstance(asked, TensorValue)
    return asked.number(tx, "__bool__")


@handles(any)
def call_any(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    at_once = _of_elements(tx, args, "any")
    if at_once is not None:
        return at_once
    return ConstantValue(any(tx.truth(item) for item in tx.iterate_lazily(args[0])))


@handles(all)
def call_all(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    at_once = _of_elements(tx, args, "all")
    if at_once is not None:
        return at_once
    return ConstantValue(all(tx.truth(item) for item in tx.iterate_lazily(args[0])))


# Introspection that must not be folded


@handles(globals)
def call_globals(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tx.globals_of(tx.frames[-1].globals)


def _acts_outside(function: Callable[..., Any]) -> None:
    @handles(function)
    def call_unsupported(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        raise GraphBreak(f"{function.__name__}() acts on the outside world",
                         "call it outside of the compiled function, or accept the break")


for _function in (compile, input, open, __import__):
    _acts_outside(_function)


@handles(threading.Thread.start, threading.Thread.join, threading.Thread.is_alive, threading.current_thread,
         threading.enumerate, threading.active_count)
def call_threading(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    raise GraphBreak("which threads run changes from call to call")


def looks_at_frame(tx: Tracer, name: str) -> NoReturn:
    """The caller's variables are asked for: they exist only where the caller itself runs as plain Python."""
    reason = f"{name} looks at the variables of the running function"
    if len(tx.frames) == 1 and not tx.compiler.fullgraph:
        raise SkipFrame(reason)
    raise GraphBreak(reason, "pass the variables explicitly")


@handles(breakpoint)
def call_breakpoint(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The function that is stopped in runs as it is written, for all of its variables to be there."""
    reason = "a debugger stops here"
    if all(frame.hidden for frame in tx.frames[1:]) and not tx.compiler.fullgraph:
        raise SkipFrame(reason)
    raise GraphBreak(reason, "remove the breakpoint")


@handles(sys._getframe)
def call_getframe(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    reason = "sys._getframe looks at frames of the running program"
    reads = any("f_locals" in frame.code.co_names for frame in tx.frames)
    if reads and len(tx.frames) > 1 and not tx.resumed and not tx.compiler.fullgraph:
        raise SkipFrame(f"{reason}, and their variables")  # the variables exist where the program runs as it is
    raise GraphBreak(reason)


def call_getframemodulename(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``sys._getframemodulename(depth)``: the module of a caller that is captured too."""
    depth = tx.constant_of(args[0]) if len(args) == 1 and not kwargs else None
    # those of our own stand for functions written in C, which have no frames
    names = [name for frame in reversed(tx.frames)
             if not str(name := frame.globals.get("__name__", "__main__")).startswith("firesteel.")]
    if type(depth) is not int or not 0 <= depth < len(names):
        raise GraphBreak("sys._getframemodulename asks for the caller of the compiled function")
    return ConstantValue(names[depth])


if hasattr(sys, "_getframemodulename"):  # since Python 3.12
    handles(sys._getframemodulename)(call_getframemodulename)


@handles(locals)
def call_locals(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    looks_at_frame(tx, "locals()")


@handles(dir)
def call_dir(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if not args:
        looks_at_frame(tx, "dir()")
    value = args[0].realize()
    if isinstance(value, ClassValue) and type(value.cls).__dir__ is type.__dir__:
        tx.reliance.classes[value.cls] = None
        return tx.fold(dir, [value.cls], {})
    plain = isinstance(value, ObjectValue) and inherits_method(value.cls, "__dir__", object)
    if isinstance(value, ObjectValue) and plain and value.cls.__dictoffset__ and not has_own_getter(value.cls):
        tx.reliance.classes[value.cls] = None
        own = [tx.constant_of(key) for key in tx.to_list(value.instance_dict(tx))]
        return ListValue([ConstantValue(name) for name in sorted({*dir(value.cls), *own})])
    raise GraphBreak("dir()")


def _variables(tx: Tracer) -> Value:
    """The variables of the running function, as ``eval`` reads them."""
    frame = tx.frames[-1]
    if frame.class_locals is not None:
        return frame.class_locals
    cells = {name: content for name, cell in frame.cells.items() if (content := cell.load(tx)) is not None}
    return tx.make_dict({**frame.locals, **cells})


@handles(eval)
def call_eval(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``eval(text)`` of a constant: the expression is executed where the call stands."""
    given = [arg.realize() for arg in args]
    text = given[0].as_constant() if given[0].is_constant() else None
    tables = given[1:]
    if type(text) is not str or kwargs or not all(isinstance(table, DictValue) for table in tables):
        if len(args) + len(kwargs) < 2:
            looks_at_frame(tx, "eval()")
        raise GraphBreak("eval()")
    try:
        code = compile(text.lstrip(" \t"), "<string>", "eval")
    except (SyntaxError, ValueError):
        raise GraphBreak("eval() of something that is no expression") from None  # Python raises
    functions = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    table: Any = tx.frames[-1].globals
    if tables:
        first = tables[0]
        assert isinstance(first, DictValue)
        if functions:
            raise GraphBreak("eval() of functions with variables of their own")
        table = {"__builtins__": builtins}
        if first.lookup(tx, ConstantValue("__builtins__")) is None:
            first.set_item(tx, ConstantValue("__builtins__"), PythonObject(vars(builtins)))
    frame = Frame(tx, code, table, [], {})
    names = tables[-1] if tables else _variables(tx)
    assert isinstance(names, DictValue)
    if len(tables) == 2:
        names = tx.make_dict({**{k: v for k, (_, v) in tables[0].fill(tx).items()},  # type: ignore[attr-defined]
                              **{k: v for k, (_, v) in names.fill(tx).items()}})
    frame.class_locals = names
    return frame.run()


@handles(exec)
def call_exec(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) + len(kwargs) < 2:
        looks_at_frame(tx, "exec()")
    raise GraphBreak("exec()")


@handles(vars)
def call_vars(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) == 1:
        value = args[0].realize()
        if isinstance(value, ClassValue) or isinstance(value, PythonObject) and isinstance(value.obj, types.ModuleType):
            return tx.get_attr(value, "__dict__")
        if isinstance(value, ObjectValue) and value.cls.__dictoffset__:
            return tx.get_attr(value, "__dict__") if has_own_getter(value.cls) else value.instance_dict(tx)
    elif not args:
        looks_at_frame(tx, "vars()")
    raise GraphBreak("vars()")


def _function_of_constants(tx: Tracer, value: FunctionValue) -> types.FunctionType:
    """A function with the signature of one that the program makes, whose defaults are constants."""
    closure = tuple(types.CellType() for _ in value.code.co_freevars)
    defaults = tuple(tx.constant_of(default) for default in value.defaults)
    function = types.FunctionType(value.code, value.globals, value.name, defaults, closure)
    function.__kwdefaults__ = {name: tx.constant_of(default) for name, default in value.kwdefaults.items()}
    function.__annotations__ = tx.constant_of(tx.get_attr(value, "__annotations__"))
    if tx.has_attr(value, "__wrapped__") or tx.has_attr(value, "__signature__"):
        raise GraphBreak(f"inspect.signature of {value.describe()}, which is wrapped")
    return function


def _signature(function: types.FunctionType) -> list[Any]:
    """What the signature of a function is made of."""
    tables = (function.__kwdefaults__ or {}, function.__annotations__)
    parts = [function.__code__, *(function.__defaults__ or ()), *(part for table in tables for part in table.items())]
    return [*parts, *(function.__dict__.get(name) for name in ("__signature__", "__wrapped__"))]


def _has_signature(function: types.FunctionType, parts: list[Any]) -> bool:
    def same(one: Any, two: Any) -> bool:
        return one is two or type(one) is type(two) is tuple and all(map(operator.is_, one, two))

    now = _signature(function)
    return len(now) == len(parts) and all(map(same, now, parts))


@handles(inspect.signature)
def call_signature(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The signature of a known function is a constant: functions are guarded by their code."""
    value = args[0].realize()
    function = value.function if isinstance(value, MethodValue) else value
    if isinstance(function, FunctionValue) and function.real is not None:
        parts = _signature(function.real)
        tx.guard(None, "signature", "{k[0]}({k[1]}, {k[2]})", (_has_signature, function.real, parts))
        known = function.real if function is value else types.MethodType(function.real, object())
        return tx.fold(inspect.signature, [known], {})
    if isinstance(value, (ClassValue, PythonObject)):
        return tx.fold(inspect.signature, [value.as_constant()], {})
    if isinstance(value, FunctionValue):
        return tx.fold(inspect.signature, [_function_of_constants(tx, value)], {})
    raise GraphBreak(f"inspect.signature of {value.describe()}")


# operator module


def _operator_handlers() -> None:
    for symbol, (function, _, _) in operators.BINARY.items():
        @handles(function)
        def apply(tx: Tracer, args: list[Value], kwargs: dict[str, Value], symbol: str = symbol) -> Value:
            return tx.binary(symbol, args[0], args[1])
    for symbol, (function, _) in operators.IN_PLACE.items():
        @handles(function)
        def augment(tx: Tracer, args: list[Value], kwargs: dict[str, Value], symbol: str = symbol) -> Value:
            return tx.binary(symbol, args[0], args[1], in_place=True)
    for symbol, (function, _, _) in operators.COMPARE.items():
        @handles(function)
        def comparison(tx: Tracer, args: list[Value], kwargs: dict[str, Value], symbol: str = symbol) -> Value:
            return tx.compare(symbol, args[0], args[1])
    for symbol, (function, _) in operators.UNARY.items():
        @handles(*(operator.invert, operator.inv) if function is operator.invert else (function,))
        def single(tx: Tracer, args: list[Value], kwargs: dict[str, Value], symbol: str = symbol) -> Value:
            return operators.unary(tx, symbol, args[0])


_operator_handlers()


@handles(operator.getitem)
def call_getitem(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tx.get_item(args[0], args[1])


@handles(operator.setitem)
def call_setitem(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    args[0].realize().set_item(tx, args[1], args[2])
    return ConstantValue(None)


@handles(operator.delitem)
def call_delitem(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    args[0].realize().del_item(tx, args[1])
    return ConstantValue(None)


@handles(operator.contains)
def call_contains(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return operators.contains(tx, args[0], args[1])


@handles(operator.is_)
def call_is(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return ConstantValue(tx.same(args[0], args[1]))


@handles(operator.is_not)
def call_is_not(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return ConstantValue(not tx.same(args[0], args[1]))
