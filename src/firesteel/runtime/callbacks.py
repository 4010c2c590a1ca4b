"""Builtins that call what the program has written, with that dispatched to compiled entries.

    sorted(xs, key=g)      ->  sorted(xs, key=NestedCall(g))
    map(g, xs)             ->  map(NestedCall(g), xs)
    len(box)               ->  len of what NestedCall(type(box).__len__)(box) returns
    sum(xs)                ->  NestedCall(add_all)(iter(xs), 0), the same in Python
    Box(x)                 ->  NestedCall(Box.__init__)(object.__new__(Box), x)
"""

from __future__ import annotations

import contextvars
import functools
import itertools
import operator
import sys
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.utils.checkpoint

from ..capture.equivalents.reductions import sum_as_python_does
from ..capture.user_frames import called_at
from ..own_frames import passed_over
from ..torch_compat.autograd_functions import apply_of_functions, function_applied_by
from .protocols import MISSING, member

if TYPE_CHECKING:
    from .compiler import Compiler

Around = Callable[..., Any]
"""Called with the compiler, the builtin and what the builtin is called with."""
AROUND: dict[Any, Around] = {}


def around(*targets: Any) -> Callable[[Around], Around]:
    """Register what is called in place of builtins."""
    def register(function: Around) -> Around:
        for target in targets:
            AROUND[target] = passed_over(function)
        return function

    return register


def calling_back(compiler: Compiler, target: Any) -> Any:
    """What to call in place of a builtin or a class: itself, where it calls nothing of the program's."""
    try:
        function = AROUND.get(target)
    except TypeError:
        return target
    if function is None:
        applied = function_applied_by(target)
        if applied is not None:
            return functools.partial(calling_back(compiler, apply_of_functions()), applied)
        if isinstance(target, type):
            return _constructor(compiler, target)
        function = _of_object(target)
        if function is None:
            return target
    instead: Any = functools.partial(function, compiler, target)
    for name in ("__qualname__", "__module__"):  # Python names it in errors
        if hasattr(target, name):
            setattr(instead, name, getattr(target, name))
    return instead


def _of_object(target: Any) -> Around | None:
    """What stands for methods of builtin objects, and for getters."""
    kind = type(target)
    if kind is operator.methodcaller:
        return _method_caller
    if kind is operator.attrgetter:
        return _attribute_getter
    if target is list.sort:
        return _with_key
    receiver = getattr(target, "__self__", None)
    if type(receiver) is list and target.__name__ == "sort":
        return _with_key
    if type(receiver) is contextvars.Context and target.__name__ == "run":
        return _with_function
    return None


@around(sorted, max, min)
def _with_key(compiler: Compiler, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A builtin that may be given a function by the name of `key`."""
    if kwargs.get("key") is not None:
        kwargs["key"] = compiler.nested(kwargs["key"])
    if len(args) == 1 and function is not list.sort:
        args = (compiler.protocols.stepped(args[0]),)
    return function(*args, **kwargs)


@around(functools.reduce, map, filter, itertools.starmap, itertools.takewhile, itertools.dropwhile,
        itertools.filterfalse)
def _with_function(compiler: Compiler, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A builtin whose first argument is a function, and the others iterables."""
    if args and callable(args[0]):
        args = (compiler.nested(args[0]), *args[1:])
    return function(*args, **kwargs)


@around(itertools.accumulate, itertools.groupby)
def _with_second_function(compiler: Compiler, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A builtin whose second argument is a function."""
    if len(args) > 1 and callable(args[1]):
        args = (args[0], compiler.nested(args[1]), *args[2:])
    for name in ("func", "key"):
        if callable(kwargs.get(name)):
            kwargs[name] = compiler.nested(kwargs[name])
    return function(*args, **kwargs)


@around(set, frozenset)
def _of_elements(compiler: Compiler, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A set of what an iterable gives; what another set holds is taken from its memory, whatever iterating gives."""
    return function(*[arg if isinstance(arg, (set, frozenset)) else compiler.protocols.stepped(arg) for arg in args],
                    **kwargs)


@around(list, tuple, any, all, enumerate, zip)
def _of_iterables(compiler: Compiler, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A builtin that steps through what it is given."""
    return function(*[compiler.protocols.stepped(arg) for arg in args], **kwargs)


@around(apply_of_functions())
def _apply_function(compiler: Compiler, function: Any, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    """``Function.apply(...)``, which calls `forward`."""
    forward: Any = getattr(cls, "forward", None)
    usual = type(cls) is type(torch.autograd.Function) and type(forward) is types.FunctionType
    if usual and compiler.compiles(forward):
        cls = _with_nested_forward(compiler, cls)
    return cls.apply(*args, **kwargs)


_FUNCTIONS: weakref.WeakKeyDictionary[Any, tuple[Any, Any, Any]] = weakref.WeakKeyDictionary()


def _with_nested_forward(compiler: Compiler, cls: Any) -> Any:
    """A class derived from an autograd function, whose `forward` is compiled for itself."""
    forward = cls.forward
    known = _FUNCTIONS.get(cls)
    if known is not None and known[0]() is compiler and known[1] is forward:
        return known[2]
    from .nested_calls import NestedCall

    names = {"forward": staticmethod(NestedCall(compiler, forward)), "__qualname__": cls.__qualname__,
             "__module__": cls.__module__}
    derived = type(cls)(cls.__name__, (cls,), names)
    _FUNCTIONS[cls] = (weakref.ref(compiler), forward, derived)
    return derived


@around(sum)
def _sum(compiler: Compiler, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """``sum(iterable, start)``, whose additions are the program's."""
    start = args[1] if len(args) > 1 else kwargs.get("start", 0)
    if not args or len(args) > 2 or kwargs.keys() - {"start"} or len(args) == 2 and kwargs or \
            isinstance(start, (str, bytes, bytearray)):
        return function(*args, **kwargs)  # raises
    from .nested_calls import NestedCall

    in_python: Any = sum_as_python_does
    return NestedCall(compiler, in_python)(compiler.protocols.iterate(args[0]), start)


@around(len)
def _len(compiler: Compiler, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    return compiler.protocols.length(*args) if len(args) == 1 and not kwargs else function(*args, **kwargs)


@around(iter)
def _iter(compiler: Compiler, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        return compiler.protocols.iterate(*args)
    if len(args) == 2 and callable(args[0]):
        args = (compiler.nested(args[0]), args[1])
    return function(*args, **kwargs)


@around(next)
def _next(compiler: Compiler, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    return compiler.protocols.following(*args) if args and not kwargs else function(*args, **kwargs)


@around(format)
def _format(compiler: Compiler, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) in (1, 2) and not kwargs and isinstance(args[-1], str):
        return compiler.protocols.formatted(*args)
    return function(*args, **kwargs)


@around(getattr)
def _getattr(compiler: Compiler, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) not in (2, 3) or kwargs or type(args[1]) is not str:
        return function(*args, **kwargs)
    try:
        return compiler.protocols.attribute(args[0], args[1])
    except AttributeError:
        if len(args) == 3:
            return args[2]
        raise


@around(setattr)
def _setattr(compiler: Compiler, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) != 3 or kwargs or type(args[1]) is not str:
        return function(*args, **kwargs)
    return compiler.protocols.set_attribute(*args)


@around(torch.utils.checkpoint.checkpoint)
def _checkpoint(compiler: Compiler, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """``checkpoint(function, ...)``: the function is compiled for itself, and goes the same way in backward. A sharded
    module is called as one, the functions around its forward included."""
    if not args:
        return function(*args, **kwargs)
    module = getattr(args[0], "__self__", None) if type(args[0]) is types.MethodType and \
        args[0].__func__ is torch.nn.Module.__call__ else args[0]
    sharded = compiler.sharded_call(module) if isinstance(module, torch.nn.Module) else None
    return function(compiler.nested(args[0]) if sharded is None else sharded, *args[1:], **kwargs)


SPECIAL: dict[Any, str] = {str: "__str__", repr: "__repr__", hash: "__hash__", float: "__float__", int: "__int__",
                           abs: "__abs__", bool: "__bool__"}


@around(*SPECIAL)
def _converted(compiler: Compiler, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A builtin that asks one special method of its argument."""
    if len(args) != 1 or kwargs or not type(args[0]).__flags__ & 1 << 9:
        return function(*args, **kwargs)
    if type(args[0]) in (torch.Tensor, torch.nn.Parameter):  # which may warn: of the line that asks
        return called_at(sys._getframe(1), function, *args)
    if function is bool:
        return compiler.protocols.truth(args[0])
    if function is abs:
        method = compiler.protocols.special(args[0], "__abs__")
        return abs(args[0]) if method is None else method()
    return compiler.protocols.converted(function, SPECIAL[function], args[0])


@passed_over
def _method_caller(compiler: Compiler, target: Any, /, *args: Any, **kwargs: Any) -> Any:
    """``operator.methodcaller(name, ...)(obj)``."""
    recipe = target.__reduce__()
    if len(args) != 1 or kwargs or recipe[0] is not operator.methodcaller:
        return target(*args, **kwargs)
    name, *given = recipe[1]
    return compiler.nested(compiler.protocols.attribute(args[0], name))(*given)


@passed_over
def _attribute_getter(compiler: Compiler, target: Any, /, *args: Any, **kwargs: Any) -> Any:
    """``operator.attrgetter(...)(obj)``."""
    if len(args) != 1 or kwargs:
        return target(*args, **kwargs)
    values = tuple(functools.reduce(compiler.protocols.attribute, path.split("."), args[0])
                   for path in target.__reduce__()[1])
    return values if len(values) > 1 else values[0]


# Classes


def _constructor(compiler: Compiler, cls: Any) -> Any:
    """What makes an object of a class, with its ``__new__`` and ``__init__`` compiled for themselves."""
    if type(cls).__call__ is not type.__call__ or not cls.__flags__ & 1 << 9 or issubclass(cls, torch.nn.Module):
        return cls  # a module that is not made yet is nothing that guards could look at
    new, init = member(cls, "__new__"), member(cls, "__init__")
    new = new.__func__ if isinstance(new, staticmethod) else new
    follows_new = type(new) is types.FunctionType and compiler.compiles(new)
    follows_init = type(init) is types.FunctionType and compiler.compiles(init)
    if not follows_new and not (follows_init and new is object.__new__):
        return cls
    if not follows_init and init is not object.__init__:
        return cls
    instead: Any = functools.partial(_construct, compiler, cls, new if follows_new else MISSING,
                                     init if follows_init else MISSING)
    instead.__qualname__, instead.__module__ = cls.__qualname__, cls.__module__
    return instead


@passed_over
def _construct(compiler: Compiler, cls: Any, new: Any, init: Any, /, *args: Any, **kwargs: Any) -> Any:
    from .nested_calls import NestedCall

    obj = object.__new__(cls) if new is MISSING else NestedCall(compiler, new)(cls, *args, **kwargs)
    if init is not MISSING and isinstance(obj, cls):
        own = member(type(obj), "__init__")
        result = NestedCall(compiler, init)(obj, *args, **kwargs) if own is init else own(obj, *args, **kwargs)
        if result is not None:
            raise TypeError(f"__init__() should return None, not '{type(result).__name__}'")
    return obj


