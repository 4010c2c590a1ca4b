"""Which arguments callables written in C accept: every call is held against that before a handler sees it.

Handlers model calls that succeed. A call that Python would refuse for the number or the names of its arguments raises
Python's own error; so does one that a handler cannot digest. Where that error is not known (`python_errors`), the call
becomes a break, so that Python itself raises it.
"""

from __future__ import annotations

import collections
import functools
import itertools
import types
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..records import dataclass
from .python_errors import refused_call
from .signals import GraphBreak
from .source import written_in_python

if TYPE_CHECKING:
    from .call_handlers import Handler
    from .tracer import Tracer
    from .values.base import Value

C_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)

# Python publishes the signatures of most; these are the others, in the same notation (for 3.11, which has the fewest).
UNPUBLISHED: dict[Any, str] = {
    max: "($module, first, /, *args, key=None, default=None)",
    min: "($module, first, /, *args, key=None, default=None)",
    getattr: "($module, object, name, default=None, /)", iter: "($module, object, sentinel=None, /)",
    next: "($module, iterator, default=None, /)", vars: "($module, object=None, /)", dir: "($module, object=None, /)",
    functools.reduce: "($module, function, iterable, initial=None, /)", functools.cmp_to_key: "(mycmp)",
    functools.partial: "(func, /, *args, **keywords)",
    int: "(x=0, /, base=10)", bool: "(x=False, /)", str: "(object='', encoding='utf-8', errors='strict')",
    dict: "(iterable=(), /, **kwargs)", collections.OrderedDict: "(iterable=(), /, **kwargs)",
    collections.defaultdict: "(*args, **kwargs)", set: "(iterable=(), /)", frozenset: "(iterable=(), /)",
    collections.deque: "(iterable=(), maxlen=None)", range: "(start, stop=0, step=1, /)",
    slice: "(start, stop=None, step=None, /)", zip: "(*iterables, strict=False)",
    map: "(function, iterable, /, *iterables)", filter: "(function, iterable, /)",
    itertools.chain: "(*iterables)", itertools.product: "(*iterables, repeat=1)",
    itertools.repeat: "(object, times=None)", itertools.zip_longest: "(*iterables, fillvalue=None)",
    itertools.islice: "(iterable, start, stop=None, step=None, /)",
}
_NOTHING, _ONE = "($self, /)", "($self, object, /)"
_MANY, _RANGE = "($self, /, *others)", "($self, sub, start=None, end=None, /)"
METHODS: dict[str, tuple[str, str]] = {
    "list": ("", "__getitem__"),
    "dict": ("keys items values clear copy", "__getitem__"),
    "set": ("clear copy pop __sizeof__", "__contains__ add discard isdisjoint issubset issuperset remove "
            "symmetric_difference symmetric_difference_update"),
    "frozenset": ("copy", "__contains__ isdisjoint issubset issuperset symmetric_difference"),
    "str": ("", "format_map"),
    "int": ("conjugate __trunc__ __floor__ __ceil__", ""),
    "bytes": ("capitalize isalnum isalpha isascii isdigit islower isspace istitle isupper lower swapcase title upper",
              ""),
    "range": ("__reversed__", "count index"),
    "slice": ("", "indices"),
    "collections.deque": ("clear __copy__ copy pop popleft __reversed__ reverse",
                          "append appendleft count extend extendleft remove"),
    "collections.OrderedDict": ("keys items values clear copy __reversed__", ""),
    "collections.defaultdict": ("copy __copy__", "__missing__"),
    "dict_keys": ("__reversed__", "isdisjoint"),
    "dict_items": ("__reversed__", "isdisjoint"),
    "dict_values": ("__reversed__", ""),
    "generator": ("close", "send"),
}
SOME_METHODS: dict[str, tuple[str, str]] = {
    "set": ("difference difference_update intersection intersection_update union update", _MANY),
    "frozenset": ("difference intersection union", _MANY),
    "str": ("count find index rfind rindex startswith endswith", _RANGE),
    "bytes": ("count find index rfind rindex startswith endswith", _RANGE),
    "dict": ("update", "($self, iterable=(), /, **kwargs)"),
    "collections.OrderedDict": ("update", "($self, iterable=(), /, **kwargs)"),
}
DEQUE_METHODS = {"index": _RANGE, "insert": "($self, index, object, /)", "rotate": "($self, n=1, /)"}


def _publish_methods() -> None:
    types_ = {"dict_keys": type({}.keys()), "dict_items": type({}.items()), "dict_values": type({}.values()),
              "generator": types.GeneratorType, "collections.deque": collections.deque,
              "collections.OrderedDict": collections.OrderedDict, "collections.defaultdict": collections.defaultdict,
              "list": list, "dict": dict, "set": set, "frozenset": frozenset, "str": str, "int": int, "bytes": bytes,
              "range": range, "slice": slice}
    for owner, (none, one) in METHODS.items():
        for names, text in ((none, _NOTHING), (one, _ONE)):
            for name in names.split():
                UNPUBLISHED[types_[owner].__dict__[name]] = text
    for owner, (names, text) in SOME_METHODS.items():
        for name in names.split():
            UNPUBLISHED[types_[owner].__dict__[name]] = text
    for name, text in DEQUE_METHODS.items():
        UNPUBLISHED[collections.deque.__dict__[name]] = text


_publish_methods()


@dataclass(frozen=True)
class Accepted:
    """The arguments that a callable takes. `names` are those that have a position, of which the first `unnamed` cannot
    be given by name and the first `required` must be given."""

    names: tuple[str, ...]
    unnamed: int
    required: int
    more: bool
    keyword_only: frozenset[str]
    keywords_required: frozenset[str]
    any_keyword: bool

    def fits(self, count: int, keywords: dict[str, Any]) -> bool:
        if count > len(self.names) and not self.more:
            return False
        known = 0
        for position in range(min(count, len(self.names)), self.required):
            if position < self.unnamed or self.names[position] not in keywords:
                return False
        for name in keywords:
            if name in self.keyword_only:
                known += name in self.keywords_required
            elif name in self.names[self.unnamed:]:
                if self.names.index(name) < count:
                    return False
            elif not self.any_keyword:
                return False
        return known == len(self.keywords_required)

    def ordered(self, args: list[Value], kwargs: dict[str, Value]) -> tuple[list[Value], dict[str, Value]]:
        """The same arguments, with those that have a position put there as long as none is left out before them."""
        while len(args) < len(self.names) and (name := self.names[len(args)]) in kwargs and len(args) >= self.unnamed:
            args = [*args, kwargs[name]]
            kwargs = {other: value for other, value in kwargs.items() if other != name}
        return args, kwargs


_KNOWN: dict[Any, Accepted | None] = {}


def accepted_by(target: Any) -> Accepted | None:
    """What a callable written in C accepts; None when that is not known, or when it is not written in C."""
    try:
        return _KNOWN[target]
    except KeyError:
        accepted = _KNOWN[target] = _read(target)
        return accepted
    except TypeError:  # a bound method of something that cannot be hashed
        return _read(target)


def _read(target: Any) -> Accepted | None:
    if isinstance(target, type) and written_in_python(target):
        return None
    if target is object.__init__:  # takes anything for an object whose class has another __new__
        return None
    if isinstance(target, types.WrapperDescriptorType) and target.__name__ == "__init__":
        init = accepted_by(target.__objclass__)  # its own signature says nothing
        if init is not None:
            return replace(init, names=("$self", *init.names), unnamed=init.unnamed + 1, required=init.required + 1)
    text = getattr(target, "__text_signature__", None)
    if not isinstance(text, str) or "[" in text:  # 3.13 has "([iterable[, maxlen]])" for one
        text = UNPUBLISHED.get(target)
    if text is None or not text.startswith("(") or not text.endswith(")"):
        return None
    names: list[str] = []
    unnamed = required = 0
    more = any_keyword = after_star = False
    keyword_only: set[str] = set()
    keywords_required: set[str] = set()
    for part in text[1:-1].split(", "):
        name, _, default = part.partition("=")
        if part == "/":
            unnamed = len(names)
        elif part.startswith("**"):
            any_keyword = True
        elif part.startswith("*"):
            after_star, more = True, len(part) > 1
        elif name == "$module" or name in ("$self", "$type") and _is_bound(target):
            continue
        elif after_star:
            keyword_only.add(name)
            if not default:
                keywords_required.add(name)
        elif not part:
            continue
        else:
            if not name.removeprefix("$").isidentifier():
                return None  # a default value with a comma in it
            names.append(name)
            if not default:
                required = len(names)
    if target is type:
        return None  # takes one or three
    return Accepted(tuple(names), unnamed, required, more, frozenset(keyword_only), frozenset(keywords_required),
                    any_keyword)


def _is_bound(target: Any) -> bool:
    """Whether the receiver is part of the callable; functions of torch's modules call their module that, too."""
    return isinstance(target, types.BuiltinFunctionType) or getattr(target, "__self__", None) is not None


def refused(what: str) -> GraphBreak:
    """The signal that Python is to make a call by itself, because it will raise."""
    signal = GraphBreak(f"{what} does not take these arguments")
    signal.raises = True
    return signal


def checked(tx: Tracer, target: Any, args: list[Value],
            kwargs: dict[str, Value]) -> tuple[list[Value], dict[str, Value]]:
    """The arguments of a call, by position where they have one; raises what Python does when it does not take them."""
    accepted = accepted_by(target)
    if accepted is None:
        return args, kwargs
    if not accepted.fits(len(args), kwargs):
        raise refused_call(tx, target, args, kwargs) or refused(getattr(target, "__qualname__", "a builtin"))
    return accepted.ordered(args, kwargs) if kwargs else (args, kwargs)


def handled(tx: Tracer, handler: Handler, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Let a handler carry out a call that its target accepts."""
    args, kwargs = checked(tx, target, args, kwargs)
    try:
        return handler(tx, args, kwargs)
    except TRIPS as error:
        signal = _for_python_to_judge(error, getattr(target, "__qualname__", "a builtin"))
        raise (None if signal is error else refused_call(tx, target, args, kwargs)) or signal from None
    except GraphBreak as signal:
        if not signal.raises:
            raise
        raise refused_call(tx, target, args, kwargs) or signal from None


def call_native_method(tx: Tracer, receiver: Value, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call a method written in C of a value that models its methods, with arguments that the method accepts."""
    descriptor = getattr(receiver.python_type(), name, None)
    if isinstance(descriptor, C_METHODS):
        (_, *args), kwargs = checked(tx, descriptor, [receiver, *args], kwargs)
    try:
        return receiver.call_method(tx, name, args, kwargs)
    except TRIPS as error:
        signal = _for_python_to_judge(error, f"{receiver.describe()}.{name}")
        known = signal is error or not isinstance(descriptor, C_METHODS)
        raise (None if known else refused_call(tx, descriptor, [receiver, *args], kwargs)) or signal from None


# what handlers trip over when they meet a string where they expect a number
TRIPS = (TypeError, IndexError, KeyError, ValueError, AttributeError, AssertionError, OverflowError,
         NotImplementedError)


class ProgramFrame:
    """What executes code of the program: an exception that comes out of it is not one of a handler's."""

    __slots__ = ()


def _for_python_to_judge(error: Exception, what: str) -> Exception:
    """The signal for an exception inside of a handler; one from a function that the handler called stays as it is."""
    traceback = error.__traceback__
    while traceback is not None:
        if isinstance(traceback.tb_frame.f_locals.get("self"), ProgramFrame):
            return error
        traceback = traceback.tb_next
    return GraphBreak(f"{what} with unusual arguments ({type(error).__name__}: {error})")
