"""What of the standard library is computed while capturing: functions that only make a result of plain data.

A regular expression, a date or a decimal number is a constant like a string: nothing can change it.
"""

from __future__ import annotations

import datetime
import decimal
import re
import types
from typing import TYPE_CHECKING, Any

from .call_handlers import handles
from .signals import GraphBreak, NotConstant
from .values.base import Value
from .values.constants import ConstantValue, NumberValue
from .values.iterators import ListIterator
from .values.text import join

if TYPE_CHECKING:
    from .tracer import Tracer

VALUE_TYPES: frozenset[type] = frozenset({
    datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone, decimal.Decimal,
    re.Pattern, re.Match, re.RegexFlag,
})
"""Classes written in C whose objects cannot be changed."""
MADE_OF_CONSTANTS = VALUE_TYPES - {re.Pattern, re.Match}
"""Those that are called to make an object."""
CONSTRUCTORS = frozenset({"fromisoformat", "fromisocalendar", "fromordinal", "combine", "strptime", "from_float"})
"""Their class methods that do not look at a clock."""
PLAIN = frozenset({str, bytes, int, float, complex, bool, type(None), range, *VALUE_TYPES})
PURE_MODULES = frozenset({
    "re", "json", "json.decoder", "json.encoder", "textwrap", "pprint", "fnmatch", "posixpath", "ntpath", "genericpath",
    "base64", "html", "urllib.parse", "difflib", "shlex", "keyword", "colorsys", "quopri", "zlib", "statistics",
})
"""Modules whose functions do nothing but make their result of their arguments."""
ASKS_THE_SYSTEM = frozenset({
    "exists", "isfile", "isdir", "islink", "lexists", "getsize", "getmtime", "getatime", "getctime", "samefile",
    "sameopenfile", "samestat", "realpath", "abspath", "expanduser", "expandvars", "ismount", "relpath", "pprint", "pp",
    "load", "dump", "main", "isdevdrive", "isjunction", "decode", "encode", "test", "template",
})
"""Functions of those modules that do more."""


def arithmetic_context() -> tuple[Any, ...]:
    """What decides on results of decimal numbers besides the numbers."""
    context = decimal.getcontext()
    traps = tuple(sorted(signal.__name__ for signal, is_set in context.traps.items() if is_set))
    return context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp, traps


def rely_on_context(tx: Tracer, kind: type) -> None:
    """Guard the context that objects of a class are computed with."""
    if kind is decimal.Decimal:
        tx.guard(None, "decimal context", "{k[0]}() == {k[1]}", (arithmetic_context, arithmetic_context()))


def is_plain(data: Any) -> bool:
    """Whether something is a constant, or a container of constants, of Python's own classes."""
    if type(data) in {list, tuple, set, frozenset}:
        return all(map(is_plain, data))
    if type(data) is dict:
        return all(map(is_plain, data)) and all(map(is_plain, data.values()))
    return type(data) in PLAIN


def _plain_constant(tx: Tracer, value: Value) -> Any:
    value = value.realize()
    if isinstance(value, NumberValue):
        raise NotConstant("a number of the graph")
    data = tx.constant_of(value)
    if not is_plain(data):
        raise NotConstant("an object of the program's")
    return data


def computed(tx: Tracer, function: types.FunctionType, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """The result of a function of the standard library, where it follows from its arguments; otherwise None."""
    if function.__globals__.get("__name__") not in PURE_MODULES or function.__name__ in ASKS_THE_SYSTEM:
        return None
    before = tx.effects.version
    try:
        constants = [_plain_constant(tx, arg) for arg in args]
        named = {name: _plain_constant(tx, value) for name, value in kwargs.items()}
    except (NotConstant, GraphBreak):
        if tx.effects.version != before:
            raise
        return None
    if function.__name__ == "finditer":
        return ListIterator([ConstantValue(match) for match in tx.user_errors(lambda: list(function(*constants)))])
    return tx.fold(function, constants, named)


@handles(vars(re)["_compile"])
def call_compile(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The compiled form of a regular expression."""
    pattern, flags = (tx.constant_of(arg) for arg in args)
    return tx.fold(re.compile, [pattern, flags], {})


def call_pattern(tx: Tracer, pattern: re.Pattern[Any], name: str, args: list[Value],
                 kwargs: dict[str, Value]) -> Value | None:
    """Methods of regular expressions that give an iterator, or call a function of the program's for each match."""
    if name == "finditer":
        parts = [tx.constant_of(arg) for arg in args]
        return ListIterator([ConstantValue(match) for match in tx.user_errors(lambda: list(pattern.finditer(*parts)))])
    if name not in ("sub", "subn") or not args or args[0].realize().is_constant() or len(args) < 2:
        return None
    text, count = tx.constant_of(args[1]), tx.constant_of(args[2]) if len(args) > 2 else 0
    if kwargs or type(text) is not str:
        raise GraphBreak(f"re.Pattern.{name} with these arguments")
    pieces: list[Value] = []
    end = calls = 0
    for match in pattern.finditer(text):
        if count and calls == count:
            break
        pieces += [ConstantValue(text[end:match.start()]), tx.call(args[0], [ConstantValue(match)], {}).realize()]
        if pieces[-1].python_type() is not str:
            raise GraphBreak("a function for re.sub that does not give a string")
        end, calls = match.end(), calls + 1
    result = join(tx, [*pieces, ConstantValue(text[end:])])
    return result if name == "sub" else tx.make_tuple([result, ConstantValue(calls)])
