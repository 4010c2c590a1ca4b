"""What Python raises where it refuses something: learned by letting Python do the same thing with stand-ins.

Messages name classes, functions and arguments, and differ between versions of Python. A stand-in has the name of what
it stands for and lacks the same method, so Python says the same about it; none of the program's code runs.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .signals import GraphBreak, NotConstant, UserRaise
from .source import name_in_messages, written_in_python

if TYPE_CHECKING:
    from .tracer import Tracer
    from .values.base import Value
    from .values.functions import FunctionValue


def _enter(obj: Any) -> None:
    with obj:
        pass


# What asks for a special method; each is only used where the method is missing or its result is refused.
ASKS: dict[str, Callable[[Any], Any]] = {
    "__bool__": bool, "__len__": len, "__hash__": hash, "__int__": int, "__index__": operator.index,
    "__float__": float, "__complex__": complex, "__str__": str, "__repr__": repr, "__format__": format,
    "__length_hint__": operator.length_hint, "__iter__": iter, "__next__": next, "__call__": lambda obj: obj(),
    "__getitem__": lambda obj: obj[0], "__setitem__": lambda obj: operator.setitem(obj, 0, 0),
    "__delitem__": lambda obj: operator.delitem(obj, 0), "__enter__": _enter, "__exit__": _enter,
    "__reversed__": reversed, "__contains__": lambda obj: 0 in obj,
    "__neg__": operator.neg, "__pos__": operator.pos, "__invert__": operator.invert, "__abs__": abs,
}


# The same with a key that is no number, of which Python speaks in other words.
WITH_OTHER_KEYS: dict[str, Callable[[Any], Any]] = {
    "__setitem__": lambda obj: operator.setitem(obj, "", 0), "__delitem__": lambda obj: operator.delitem(obj, ""),
}

# Methods that Python has one place for in a class, or asks for first: with the other one, it says something else.
BESIDE = {"__setitem__": "__delitem__", "__delitem__": "__setitem__", "__exit__": "__enter__"}


def _error_of(ask: Callable[[], Any]) -> Exception | None:
    try:
        ask()
    except Exception as error:
        return error.with_traceback(None)
    return None


def missing_method(tx: Tracer, cls: type, name: str, key: type = int) -> UserRaise | None:
    """What Python raises because objects of `cls` do not have the special method `name`, for a key of class `key`."""
    ask = ASKS.get(name) if hasattr(key, "__index__") else WITH_OTHER_KEYS.get(name, ASKS.get(name))
    if ask is None:
        return None
    stand_in = object() if cls is object else type(name_in_messages(cls), (), {})()
    beside = BESIDE.get(name)
    if beside is not None and (name == "__exit__" or hasattr(cls, beside)):
        tx.reliance.classes[cls] = None
        setattr(type(stand_in), beside, lambda self, *args: None)
    error = _error_of(lambda: ask(stand_in))
    return tx.raised(error) if error is not None else None


def descriptor_error(tx: Tracer, kind: type, change: Callable[[Any], Any]) -> Exception:
    """What Python raises because a descriptor of a class cannot be set, or cannot be deleted."""
    methods = {name: lambda self, *rest: None for name in ("__get__", "__set__", "__delete__") if hasattr(kind, name)}
    owner = type("owner", (), {"name": type(kind.__name__, (), methods)()})
    error = _error_of(lambda: change(owner()))
    return tx.raised(error) if error is not None else GraphBreak(f"a descriptor {kind.__name__}")


def refused_result(tx: Tracer, cls: type, name: str, result: Value) -> UserRaise | None:
    """What Python raises because the special method `name` of `cls` gave `result`; None where Python accepts it."""
    ask = ASKS.get(name)
    if ask is None:
        return None
    try:
        constant = result.as_constant()
    except NotConstant:
        return None
    stand_in = type(name_in_messages(cls), (), {name: lambda self, *rest: constant})()
    error = _error_of(lambda: ask(stand_in))
    return tx.raised(error) if error is not None else None


def wrong_arguments(tx: Tracer, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Exception:
    """What Python raises because a function does not take these arguments, whose values do not matter."""
    code = function.code
    if str(function.globals.get("__name__")).startswith("firesteel."):  # it stands for one written in C
        return GraphBreak(f"{function.describe()} does not take these arguments")
    closure = tuple(types.CellType() for _ in code.co_freevars)
    defaults = (None,) * len(function.defaults)
    stand_in = types.FunctionType(code, {"__builtins__": {}}, function.name, defaults, closure)
    stand_in.__kwdefaults__ = dict.fromkeys(function.kwdefaults)
    name = function.get_attr(tx, "__qualname__").realize()
    if name.is_constant():
        stand_in.__qualname__ = name.as_constant()
    error = _error_of(lambda: stand_in(*(None for _ in args), **dict.fromkeys(kwargs)))
    if isinstance(error, TypeError):
        return tx.raised(error)
    return GraphBreak(f"{function.describe()} does not take these arguments")


# Functions that do something besides giving a result.
ACTING = frozenset({"print", "input", "open", "exec", "eval", "compile", "breakpoint", "__import__", "setattr",
                    "delattr", "globals", "locals", "vars", "dir", "id", "super", "type", "getattr", "hasattr"})


def is_pure(target: Any) -> bool:
    """Whether calling a builtin on copies of constants changes nothing: a method of a builtin class, or a function."""
    if isinstance(target, (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)):
        return target.__objclass__.__module__ in ("builtins", "collections")
    if isinstance(target, type):
        return target.__module__ in ("builtins", "collections") and target.__name__ not in ACTING
    if not isinstance(target, types.BuiltinFunctionType):
        return False
    return target.__module__ in ("builtins", "math", "_operator", "_functools") and target.__name__ not in ACTING


def refused_call(tx: Tracer, target: Any, args: list[Value], kwargs: dict[str, Value]) -> UserRaise | None:
    """What Python raises for a call of a builtin on constants; None if that is not known, or if it does not raise."""
    if not is_pure(target):
        return None
    try:
        constants = [arg.realize().as_constant() for arg in args]
        named = {name: value.realize().as_constant() for name, value in kwargs.items()}
    except (NotConstant, GraphBreak):
        return None
    if any(isinstance(known, type) and written_in_python(known) for known in (*constants, *named.values())):
        return None  # it may run code of the program's
    error = _error_of(lambda: target(*constants, **named))
    return tx.raised(error) if error is not None else None
