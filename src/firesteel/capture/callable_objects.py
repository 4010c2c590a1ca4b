"""Calls of objects that are neither functions nor classes: generic aliases, operator.itemgetter, singledispatch."""

from __future__ import annotations

import _thread
import functools
import operator
import sys
import types
import typing
from typing import TYPE_CHECKING, Any

from .call_handlers import handles
from .equivalents import REGISTRY
from .frame import handled_exception
from .signals import UserRaise
from .values.base import Value
from .values.constants import ConstantValue, PythonObject
from .values.exceptions import traceback_of
from .values.functions import FunctionValue
from .values.objects import ObjectValue

if TYPE_CHECKING:
    from .entry_code import EntryCode
    from .tracer import Tracer

GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)


class ThreadNumber(Value):
    """``threading.get_ident()``: only known when the entry runs."""

    __slots__ = ()
    fixed_type = int

    def truth(self, tx: Tracer) -> bool:
        return True

    def key(self, tx: Tracer) -> Any:
        return ("thread",)

    def emit(self, code: EntryCode) -> str:
        return f"{code.constant(_thread.get_ident)}()"


handles(_thread.get_ident)(lambda tx, args, kwargs: ThreadNumber())


@handles(sys.exc_info)
def call_exc_info(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``sys.exc_info()``."""
    handled = handled_exception(tx)
    if handled is None:
        return tx.make_tuple([ConstantValue(None)] * 3)
    return tx.make_tuple([tx.python_object(handled.python_type()), handled, traceback_of(handled)])


@handles(sys.exception)
def call_exception(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``sys.exception()``."""
    return handled_exception(tx) or ConstantValue(None)


def call_callable_object(tx: Tracer, value: PythonObject, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """Call an object whose call is Python that capture can execute; None when it is something else."""
    obj = value.obj
    if isinstance(obj, GETTERS):
        reduced: Any = obj.__reduce__()
        maker: Any = reduced[0]
        parts = reduced[1]
        names: dict[str, Any] = {}
        if isinstance(maker, functools.partial):  # methodcaller with keyword arguments
            maker, parts, names = maker.func, maker.args, maker.keywords
        known = {name: tx.python_object(item) for name, item in names.items()}
        getter = tx.call(tx.python_object(REGISTRY[maker]), [tx.python_object(part) for part in parts], known)
        return tx.call(getter, args, kwargs)
    if isinstance(obj, typing.NewType) and len(args) == 1 and not kwargs:
        return args[0]
    origin = typing.get_origin(obj)
    if isinstance(origin, type) and not isinstance(obj, type):
        instance = tx.call(tx.python_object(origin), args, kwargs).realize()
        if isinstance(instance, ObjectValue):
            try:
                instance.set_attr(tx, "__orig_class__", value)
            except UserRaise as raised:
                if not issubclass(raised.value.python_type(), (AttributeError, TypeError)):
                    raise
        return instance
    return None


def _dispatch_code() -> types.CodeType:
    """The code of the ``dispatch`` function that every ``functools.singledispatch`` function has."""
    return next(const for const in functools.singledispatch.__code__.co_consts
                if isinstance(const, types.CodeType) and const.co_name == "dispatch")


SINGLE_DISPATCH = _dispatch_code()


def call_single_dispatch(tx: Tracer, function: FunctionValue, args: list[Value]) -> Value:
    """The implementation for a class, relied on as such: its cache of weak references is no concern of the program."""
    real = function.real
    assert real is not None and function.source is not None
    cls = tx.constant_of(args[0])
    implementation = real(cls)
    tx.guard(function.source, "single dispatch", "{0}({k[0]}) is {k[1]}", (cls, implementation))
    return tx.python_object(implementation)
