"""Text of Values, and what writes text: ``format``, ``print``, ``logging``."""

from __future__ import annotations

import _string
import collections
import functools
import logging
import operator
import re
import string
from typing import TYPE_CHECKING, Any

import torch

from .. import config
from .call_handlers import Handler, handles
from .call_signatures import refused
from .equivalents import REGISTRY
from .objects import find_on_class, own_special_method, special_method, special_result
from .signals import GraphBreak
from .user_frames import called_from
from .values.base import Value
from .values.constants import ConstantValue, NumberValue, PythonObject
from .values.mappings import DictValue
from .values.methods import MethodValue, NativeMethod
from .values.objects import ClassValue, ExceptionValue, InstanceDict, ObjectValue
from .values.opaque import OpaqueValue
from .values.sequences import ListValue, TupleValue
from .values.sets import SetValue
from .values.tensors import TensorValue
from .values.text import TextValue, has_plain_text, join, text_of_numbers

if TYPE_CHECKING:
    from .tracer import Tracer


def format_text(tx: Tracer, value: Value, conversion: str = "", spec: str = "") -> Value:
    """What an f-string field becomes."""
    value = value.realize()
    if isinstance(value, TensorValue) and not conversion and value.cls is torch.Tensor and not value.fake.dim():
        value = value.item(tx).realize()  # as Tensor.__format__ does
    if isinstance(value, NumberValue) and (conversion or not spec.endswith("c")):
        # a format that does not suit the type is refused here and now; "c" asks for a character, which few numbers are
        tx.fold(format, ["" if conversion else value.python_type()(1), spec], {})
        return TextValue(tx, [(value, conversion, spec)])
    if isinstance(value, TensorValue) and conversion and spec and has_plain_text(tx, value):
        tx.fold(format, ["", spec], {})
        return TextValue(tx, [(value, conversion, spec)])
    if isinstance(value, TextValue) and spec and not conversion and len(value.parts) == 1:
        # Python 3.13 converts first and formats the text then
        part = value.parts[0]
        if not isinstance(part, str) and part[1] and not part[2]:
            tx.fold(format, ["", spec], {})
            return TextValue(tx, [(part[0], part[1], spec)])
    if not spec:
        text = text_with_numbers(tx, value, conversion in ("", "s"))
        if text is not None:
            return text
    if conversion:
        function = {"s": str, "r": repr, "a": ascii}[conversion]
        return tx.fold(format, [text_of(tx, value, function), spec], {})
    if isinstance(value, ObjectValue) and not isinstance(value, ExceptionValue):
        method = own_special_method(tx, value, "__format__")
        if method is not None:
            return special_result(tx, value.cls, "__format__", tx.call(method, [ConstantValue(spec)], {}))
        if not spec:
            return ConstantValue(text_of(tx, value, str))
        if isinstance(value.storage, ConstantValue):
            return tx.fold(format, [value.storage.value, spec], {})
        raise GraphBreak(f"formatting {value.describe()}")
    if isinstance(value, ExceptionValue) and not spec:
        return ConstantValue(text_of(tx, value, str))
    return tx.fold(format, [tx.constant_of(value), spec], {})


def text_with_numbers(tx: Tracer, value: Value, plain: bool) -> Value | None:
    """The text of something that holds numbers of the graph, otherwise None; `plain` is that of str, not of repr."""
    value = value.realize()
    if isinstance(value, TextValue):
        return value if plain else None
    parts = text_of_numbers(tx, value)
    return TextValue(tx, parts) if parts is not None else text_of_items(tx, value, ())


def text_of_items(tx: Tracer, value: Value, around: tuple[Value, ...]) -> Value | None:
    """``repr(value)`` of a list, tuple or dict that holds objects, made of theirs; None for everything else.

    `around` are the containers that `value` is in: one of those is shown as dots.
    """
    if isinstance(value, ListValue) and value.cls is list:
        before, after, items = "[", "]", value.elements(tx)
    elif isinstance(value, TupleValue) and value.cls is tuple:
        before, after, items = "(", ",)" if len(value.items) == 1 else ")", value.items
    elif isinstance(value, DictValue) and value.python_type() is dict and not isinstance(value, InstanceDict):
        before, after, items = "{", "}", [part for pair in value.fill(tx).values() for part in pair]
    else:
        return None
    if not any(isinstance(item.realize(), (ObjectValue, ListValue, TupleValue, DictValue, TensorValue))
               for item in items):
        return None
    if any(value is outer for outer in around):
        return ConstantValue(f"{before}...{after.removeprefix(',')}")
    pieces: list[Value] = []
    for position, item in enumerate(items):
        item = item.realize()
        separator = ": " if before == "{" and position % 2 else ", "
        text = text_of_items(tx, item, (*around, value)) or call_repr(tx, [item], {})
        pieces += [ConstantValue(separator), text] if position else [text]
    return join(tx, [ConstantValue(before), *pieces, ConstantValue(after)])


def _inherited_text(tx: Tracer, value: ObjectValue) -> str | None:
    """``repr`` of an object of a subclass of list, tuple, dict, set or deque that has no text of its own; sets and
    deques say the name of their class."""
    storage = value.storage
    kind = None if storage is None else storage.python_type()
    if storage is None or kind not in (list, tuple, dict, set, frozenset, collections.deque):
        return None
    owners = [find_on_class(value.cls, name, tx)[1] for name in ("__repr__", "__str__")]
    if owners != [kind, object]:
        return None
    if isinstance(storage, SetValue) and storage.items and _iterates_its_own_way(tx, value, kind):
        items = ListValue(tx.to_list(value, hint=True))  # what the original makes a text of
        return f"{value.cls.__name__}({{{text_of(tx, items, repr)[1:-1]}}})"
    text = text_of(tx, storage, repr)
    if kind in (list, tuple, dict):
        return text
    name = value.cls.__name__
    if kind is set:
        return f"{name}({text})" if text.startswith("{") else f"{name}()"
    return name + text.removeprefix(kind.__name__)


def _iterates_its_own_way(tx: Tracer, value: ObjectValue, kind: type) -> bool:
    """Whether a class says anew what its objects hold, or how many."""
    return any(find_on_class(value.cls, name, tx)[1] is not kind for name in ("__iter__", "__len__"))


def text_of(tx: Tracer, value: Value, function: Any) -> str:
    """``str``, ``repr`` or ``ascii`` of a value, where that is known."""
    value = value.realize()
    if isinstance(value, ObjectValue):
        names = ("__str__", "__repr__") if function is str else ("__repr__",)
        for name in names:
            own = own_special_method(tx, value, name)
            method = own or special_method(tx, value, name)
            if method is not None and (own is not None or isinstance(method, MethodValue) and isinstance(
                    method.function, PythonObject) and method.function.obj in REGISTRY):
                # what refuses the result is ``__str__`` also where that only passes on what ``__repr__`` gives
                text = tx.constant_of(special_result(tx, value.cls, names[0], tx.call(method, [], {})))
                return ascii(text)[1:-1] if function is ascii else text
            if isinstance(value.storage, ConstantValue) and isinstance(method, NativeMethod) and \
                    name in vars(value.storage.python_type()):
                return tx.constant_of(value.call_method(tx, name, [], {}))
        if isinstance(value, ExceptionValue):
            return tx.constant_of(value.call_method(tx, "__str__" if function is str else "__repr__", [], {}))
        inherited = _inherited_text(tx, value)
        if inherited is None:
            raise GraphBreak(f"the text of {value.describe()}")
        return ascii(inherited)[1:-1] if function is ascii else inherited
    if isinstance(value, TensorValue):
        raise GraphBreak("the text of a tensor needs its data")
    return tx.user_errors(lambda: function(tx.constant_of(value)))


HAVE_TEXT = (ObjectValue, TensorValue, TextValue)
"""What ``str.format`` cannot be computed with."""


def format_fields(tx: Tracer, text: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``text.format(*args, **kwargs)``, field by field."""
    pieces: list[Value] = []
    for position, (literal, field, spec, conversion) in enumerate(string.Formatter().parse(text)):
        pieces.append(ConstantValue(literal))
        if field is None:
            continue
        first, rest = _string.formatter_field_name_split(field)
        automatic = sum(name is not None and not name[:1].isalnum()
                        for _, name, _, _ in list(string.Formatter().parse(text))[:position])
        where = automatic if first == "" else first
        if where not in kwargs if isinstance(where, str) else where >= len(args):
            raise GraphBreak("str.format with a field that is not given")  # Python raises
        value = kwargs[where] if isinstance(where, str) else args[where]
        for is_attribute, key in rest:
            value = tx.get_attr(value, key) if is_attribute else tx.get_item(value, ConstantValue(key))
        if spec and "{" in spec:
            raise GraphBreak("str.format with a field in a field")
        pieces.append(format_text(tx, value, conversion or "", spec or ""))
    return join(tx, pieces)


def joined(tx: Tracer, separator: Value, items: list[Value]) -> Value | None:
    """``separator.join(items)`` where some of the strings have numbers or tensors in them, otherwise None."""
    strings = [item.realize() for item in items]
    if not any(isinstance(item, TextValue) for item in strings) or not all(
            isinstance(item, (TextValue, ConstantValue)) and item.python_type() is str for item in strings):
        return None
    return join(tx, [piece for item in strings for piece in (separator, item)][1:])


_PERCENT_FIELD = re.compile(r"%(?P<key>\([^()]*\))?[-+ #0]*(?:\*|\d*)(?:\.(?:\*|\d*))?[hlL]?(?P<kind>.)", re.DOTALL)


def percent_fields(tx: Tracer, text: Any, given: Value) -> Value:
    """``text % given`` where tensors are given, to plain fields ``%s`` and ``%r``."""
    if not isinstance(text, str):
        raise GraphBreak("a tensor in formatted bytes")
    items = given.items if isinstance(given, TupleValue) else [given]
    pieces: list[Value] = []
    end = position = 0
    for field in _PERCENT_FIELD.finditer(text):
        pieces.append(ConstantValue(text[end:field.start()]))
        end = field.end()
        if field["kind"] == "%":
            pieces.append(tx.fold(operator.mod, [field[0], ()], {}))
            continue
        if field["key"] is not None or "*" in field[0] or position == len(items):
            raise GraphBreak("a tensor in a text with unusual fields", "use an f-string")
        value, position = items[position].realize(), position + 1
        if isinstance(value, TensorValue) and field[0] in ("%s", "%r", "%a"):
            pieces.append(text_with_numbers(tx, value, True) or ConstantValue(text_of(tx, value, str)))
        else:
            pieces.append(tx.fold(operator.mod, [field[0], (tx.constant_of(value),)], {}))
    if position != len(items) or "%" in text[end:]:
        raise GraphBreak("a tensor in a text whose fields it does not fit", "use an f-string")  # Python raises
    return join(tx, [*pieces, ConstantValue(text[end:])])


@handles(repr)
def call_repr(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return text_with_numbers(tx, args[0], False) or ConstantValue(text_of(tx, args[0], repr))


@handles(format)
def call_format(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    spec = tx.constant_of(args[1]) if len(args) > 1 else ""
    if not isinstance(spec, str):
        raise refused("format")
    return format_text(tx, args[0], "", spec)


def _replayable(tx: Tracer, value: Value) -> bool:
    """Whether the printed text of a value cannot change between now and the end of the graph."""
    value = value.realize()
    return isinstance(value, (ConstantValue, ClassValue, NumberValue, TextValue))


@handles(print)
def call_print(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if not config.print_replay or "file" in kwargs:
        raise GraphBreak("print()", "print outside of the compiled function")
    if not all(kwargs[word].python_type() in {str, type(None)} for word in ("sep", "end") if word in kwargs):
        raise refused("print")
    parts: list[Value] = []
    for arg in args:
        value = arg.realize()
        if _replayable(tx, value):
            parts.append(value)
        elif isinstance(value, (TensorValue, OpaqueValue)):
            raise GraphBreak("print() of a value that is only known at run time",
                             "print outside of the compiled function")
        else:
            parts.append(text_with_numbers(tx, value, True) or ConstantValue(text_of(tx, value, str)))
    tx.effects.replay(print, parts, {k: ConstantValue(tx.constant_of(v)) for k, v in kwargs.items()})
    return ConstantValue(None)


def _logged(tx: Tracer, value: Value) -> Value:
    value = value.realize()
    return value if isinstance(value, (NumberValue, TextValue)) else tx.python_object(tx.constant_of(value))


def is_logger(value: Value) -> bool:
    """Whether a value is a logger."""
    value = value.realize()
    return isinstance(value, ObjectValue) and issubclass(value.python_type(), logging.Logger)


def _has_own_handlers(logger: Any) -> bool:
    """Whether code of the user's runs for a record of this logger."""
    while logger is not None:
        modules = (type(handler).__module__ for handler in logger.handlers)
        if logger.filters or any(name.partition(".")[0] != "logging" for name in modules):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def replay_logging(tx: Tracer, method: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Have a method of a logger called when the compiled code runs."""
    logger = args[0].realize()
    if not isinstance(logger, ObjectValue) or logger.real is None:
        raise GraphBreak("logging through a logger made inside")
    plain = [_logged(tx, arg) for arg in args[1:]]
    if kwargs:
        raise GraphBreak("logging with keyword arguments")
    if tx.effects.changed_values() and _has_own_handlers(logger.real):
        raise GraphBreak("logging to a handler of the user's, which may look at what has changed")
    # the record names the function and the line that the call stands in
    places = tuple((frame.code, frame.user_frame().lineno) for frame in tx.frames if not frame.hidden)
    tx.effects.replay(functools.partial(called_from, places, method), [logger, *plain], {})
    return ConstantValue(None)


def _logging_handler(name: str) -> Handler:
    def call(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return replay_logging(tx, getattr(logging.Logger, name), args, kwargs)

    return call


for _name in ("debug", "info", "warning", "error", "critical", "log"):
    handles(getattr(logging.Logger, _name))(_logging_handler(_name))
