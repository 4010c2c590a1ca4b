"""Calls of functions behind ``functools.lru_cache`` and ``functools.cache``: the program sees what the cache holds.

Where the cache holds a result for the arguments, the capture relies on that result as on any object from outside, and
the entry makes the call itself, so that the cache counts it. A result that is not there yet is worked out by inlining;
when it is a constant and the body does nothing else, the entry's own call will find the same. Everything else runs
between two graphs.
"""

from __future__ import annotations

import functools
import gc
import types
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..records import dataclass
from .guards import same_constant
from .signals import GraphBreak, UserRaise
from .source import ConstantSource, Source, _ById, _Derived, _source
from .values.base import Value, inherits_method
from .values.constants import ConstantValue, NumberValue, PythonObject
from .values.objects import ClassValue, ObjectValue
from .values.sequences import TupleValue

if TYPE_CHECKING:
    from .tracer import Tracer

MISSING = object()
# Caches of these do not show in what a program computes.
UNOBSERVED = ("torch", "typing", "functools", "inspect", "re", "einops", "firesteel")


@dataclass
class CachedCalls:
    """The calls of functions with caches in one capture."""

    #: their results, by the identity of the function and the key of the arguments
    calls: dict[tuple[int, Any], Value] = field(default_factory=dict)
    #: the functions to whose caches they add
    additions: set[int] = field(default_factory=set)


def _table_of(cached: Any) -> dict[Any, Any] | None:
    """The dictionary in which a cache keeps its results or, where it has a size, the links of its list."""
    referents = gc.get_referents(cached)
    if len(referents) < _FROM_END:
        return None
    table = referents[-_FROM_END]
    return table if type(table) is dict else None


def _probe() -> tuple[int, Any, type]:
    """How caches are laid out: where the dictionary stands among what one refers to, what separates keywords in keys,
    and the type of the links of those that have a size."""
    @functools.cache
    def unbounded(**named: int) -> int:
        return 0

    @functools.lru_cache(maxsize=2)
    def bounded(number: int) -> int:
        return 0

    unbounded(a=1)
    bounded(1)
    tables = []
    for cached in (unbounded, bounded):
        referents = gc.get_referents(cached)
        places = [n for n, referent in enumerate(referents) if type(referent) is dict and referent is not vars(cached)]
        if len(places) != 1:
            return 1 << 30, None, object  # another Python: nothing is looked up
        tables.append((len(referents) - places[0], referents[places[0]]))
    (from_end, table), (also, links) = tables
    return (from_end if from_end == also else 1 << 30), next(iter(table))[0], type(links[1])


_FROM_END, _KEYWORD_MARK, _LINK = _probe()


def _key(args: tuple[Any, ...], kwargs: dict[str, Any], typed: bool) -> Any:
    """The key under which a cache keeps the result of a call."""
    if not typed and not kwargs:
        return args[0] if len(args) == 1 and type(args[0]) in (int, str) else args
    parts = list(args)
    if kwargs:
        parts.append(_KEYWORD_MARK)
        for item in kwargs.items():
            parts.extend(item)
    if typed:
        parts.extend(type(argument) for argument in (*args, *kwargs.values()))
    return tuple(parts)


def cached_result(cached: Any, key: Any) -> Any:
    """What a cache holds under a key, or MISSING; the cache does not notice."""
    table = _table_of(cached)
    if table is None or key not in table:
        return MISSING
    link = table[key]
    if type(link) is not _LINK:
        return link
    stored = next(known for known, its in table.items() if its is link)
    referents = gc.get_referents(cached)
    for position in range(len(referents) - _FROM_END - 1):
        # a link is seen as its key, its result and its type
        if referents[position] is stored and referents[position + 2] is _LINK:
            return referents[position + 1]
    raise LookupError("the cache is laid out otherwise")


def held_result(cached: Any, key: Any) -> Any:
    """What a cached function holds under a key; a LookupError when it holds nothing."""
    result = cached_result(cached, key)
    if result is MISSING:
        raise LookupError(key)
    return result


def fits(cached: Any, key: Any, result: Any) -> bool:
    """Whether a cache holds nothing under a key, or this constant."""
    held = cached_result(cached, key)
    return held is MISSING or held is result or same_constant(held, result)


@_source
class CachedSource(_Derived):
    """What the cache that the parent is holds for a call."""

    key: _ById

    def code(self, base: str, constant: Any) -> str:
        return f"{constant(held_result)}({base}, {constant(self.key.obj)})"

    @property
    def name(self) -> str:
        return f"{self.parent.name}[...]"


def call_cached(tx: Tracer, value: PythonObject, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A call of a function with a cache."""
    cached = value.obj
    wrapped = cached.__wrapped__
    module = getattr(wrapped, "__module__", None) or ""
    if module.partition(".")[0] in UNOBSERVED:
        return tx.call(tx.python_object(wrapped), args, kwargs)
    key = _constant_key(tx, cached, args, kwargs)
    source: Source = value.source or ConstantSource.of(cached, getattr(cached, "__name__", "cached"))
    known = tx.caches.calls.get((id(cached), key))
    if known is None:
        known = _result(tx, cached, source, key, args, kwargs)
        if known is None:  # in one graph there is no other way
            return tx.call(tx.python_object(wrapped), args, kwargs)
        tx.caches.calls[id(cached), key] = known
    tx.effects.replay(cached, args, kwargs)
    return known


def _constant_key(tx: Tracer, cached: Any, args: list[Value], kwargs: dict[str, Value]) -> Any:
    parameters = getattr(cached, "cache_parameters", None)
    if parameters is None or cached.cache_parameters()["maxsize"] == 0:
        raise GraphBreak("a call of a function that functools.lru_cache wraps")
    constants = []
    for argument in (*args, *kwargs.values()):
        argument = argument.realize()
        if isinstance(argument, NumberValue) and not tx.compiler.fullgraph:
            raise GraphBreak("a call of a cached function with a number that may change")
        if isinstance(argument, ObjectValue) and argument.source is not None and argument.storage is None and all(
                inherits_method(argument.cls, name, object) for name in ("__hash__", "__eq__")):
            # the cache itself keeps such an object alive
            tx.guard(argument.source, "identity", "{0} is {k[0]}", (argument.real,))
            constants.append(argument.real)
            continue
        if not isinstance(argument, (ConstantValue, NumberValue, ClassValue)) and not (
                isinstance(argument, TupleValue) and argument.cls is tuple and argument.is_constant()):
            raise GraphBreak(f"a call of a cached function with {argument.describe()}")
        constants.append(tx.constant_of(argument))
    try:
        hash(tuple(constants))
    except TypeError:
        raise GraphBreak("a call of a cached function with something that has no hash") from None  # Python raises
    if any(part != part for part in constants):
        raise GraphBreak("a call of a cached function with NaN")
    named = dict(zip(kwargs, constants[len(args):], strict=True))
    return _key(tuple(constants[:len(args)]), named, parameters()["typed"])


def _result(
    tx: Tracer, cached: Any, source: Source, key: Any, args: list[Value], kwargs: dict[str, Value]
) -> Value | None:
    if cached.cache_parameters()["maxsize"] is not None and id(cached) in tx.caches.additions:
        raise GraphBreak("calls of a cached function that may push each other out of the cache")
    held = cached_result(cached, key)
    if held is not MISSING:
        return tx.wrap(held, CachedSource(source, _ById(key)))
    if any(called == id(cached) for called, _ in tx.caches.calls):
        raise GraphBreak("calls of a cached function that may push each other out of the cache")
    before = tx.effects.version, len(tx.graph.graph.nodes)
    try:
        result = tx.call(tx.python_object(cached.__wrapped__), args, kwargs).realize()
    except UserRaise:
        raise GraphBreak("a cached function that raises") from None
    if before == (tx.effects.version, len(tx.graph.graph.nodes)) and _is_plain(result):
        tx.guard(source, "cache", "{k[0]}({0}, {k[1]}, {k[2]})", (fits, key, result.as_constant()))
        tx.caches.additions.add(id(cached))
        return result
    if tx.compiler.fullgraph:
        return None
    first = GraphBreak("the first call of a cached function with these arguments",
                       "call it once before, or compute what it returns outside")
    first.relies_on = (source, "cache", "{k[0]}({0}, {k[1]}) is {k[2]}", (cached_result, key, MISSING))
    raise first


def _is_plain(value: Value) -> bool:
    """Whether equal objects of this kind are the same to a program."""
    return isinstance(value, ClassValue) or isinstance(value, PythonObject) and \
        isinstance(value.obj, types.BuiltinFunctionType) or \
        isinstance(value, ConstantValue) and not value.is_distinct()
