"""``warnings`` in captured programs: what the program issues and filters is done with its other effects, in order."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from .call_handlers import handles
from .python_warnings import RAISING, warn_in
from .signals import GraphBreak
from .tracebacks import is_internal
from .values.base import Value
from .values.constants import ConstantValue, PythonObject
from .values.objects import ClassValue
from .values.text import TextValue

if TYPE_CHECKING:
    from .entry_code import EntryCode
    from .tracer import Tracer


class WarningsContext(Value):
    """``warnings.catch_warnings()`` that records nothing."""

    __slots__ = ()
    native_methods = True

    def python_type(self) -> type:
        return warnings.catch_warnings

    def truth(self, tx: Tracer) -> bool:
        return True

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        none = ConstantValue(None)
        if name == "__enter__":
            tx.effects.replay(warnings.catch_warnings.__enter__, [self], {})
        elif name == "__exit__":
            tx.effects.replay(warnings.catch_warnings.__exit__, [self, none, none, none], {})
        else:
            self.unsupported(f"method {name!r}")
        return none

    def emit(self, code: EntryCode) -> str:
        return code.assign(self, f"{code.constant(warnings.catch_warnings)}()")


@handles(warnings.catch_warnings.__enter__, warnings.catch_warnings.__exit__)
def call_context(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What a with statement calls of a `WarningsContext`."""
    context = args[0].realize()
    if not isinstance(context, WarningsContext):
        raise GraphBreak("warnings.catch_warnings that was made outside")
    return context.call_method(tx, "__enter__" if len(args) == 1 else "__exit__", [], {})


@handles(warnings.catch_warnings)
def call_catch_warnings(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``warnings.catch_warnings()``."""
    if args or any(tx.constant_of(value) for value in kwargs.values()):
        raise GraphBreak("warnings.catch_warnings with arguments", "filter warnings outside of the compiled function")
    return WarningsContext()


def _filters(function: Any) -> None:
    @handles(function)
    def call_filter(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        action = tx.constant_of(args[0] if args else kwargs.get("action", ConstantValue("error")))
        if action == "error":
            raise GraphBreak("warnings become exceptions")
        named = {name: tx.python_object(tx.constant_of(value)) for name, value in kwargs.items()}
        tx.effects.replay(function, [tx.python_object(tx.constant_of(arg)) for arg in args], named)
        return ConstantValue(None)


for _function in (warnings.simplefilter, warnings.filterwarnings):
    _filters(_function)


def no_errors() -> bool:
    """Whether no warning becomes an exception."""
    return not any(entry[0] == "error" and entry is not RAISING for entry in warnings.filters)


def warn_above(message: str, category: type[Warning], level: int) -> None:
    """Issue a warning that stands at the line that called compiled code, or `level` - 1 calls above that."""
    frame = sys._getframe(1).f_back  # of the entry, which stands for the outermost function that it has captured
    while frame is not None:
        if not is_internal(frame):
            level -= 1
            if not level:
                warn_in(frame.f_globals, message, category, frame.f_code.co_filename, frame.f_lineno)
                return
        frame = frame.f_back
    warn_in(sys.__dict__, message, category, "sys", 1)


@handles(warnings.warn)
def call_warn(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``warnings.warn(message, category, stacklevel)``."""
    given = dict(zip(("message", "category", "stacklevel", "source"), args, strict=False)) | kwargs
    message = given.pop("message", ConstantValue(None)).realize()
    category = given.pop("category", ConstantValue(None)).realize()
    level = tx.constant_of(given.pop("stacklevel", ConstantValue(1)))
    frames = [frame for frame in tx.frames if not frame.hidden]
    if given or message.python_type() is not str or not isinstance(message, (ConstantValue, TextValue)) or \
            not isinstance(level, int):
        raise GraphBreak("warnings.warn()", "warn outside of the compiled function, or once before it")
    if isinstance(category, ConstantValue) and category.value is None:
        category = tx.class_value(UserWarning)
    if not isinstance(category, ClassValue) or not issubclass(category.cls, Warning) or not no_errors():
        raise GraphBreak("warnings.warn() that may raise", "warn outside of the compiled function")
    tx.guard(None, "warnings", "{k[0]}()", (no_errors,))
    if level > len(frames):  # at a line that calls the compiled function, whose place the entry has
        above = ConstantValue(level - len(frames))
        tx.effects.replay(warn_above, [message, category, above], {})
        return ConstantValue(None)
    frame = frames[-max(level, 1)]
    line = ConstantValue(frame.user_frame().lineno)
    tx.effects.replay(warn_in, [PythonObject(frame.globals), message, category,
                                ConstantValue(frame.code.co_filename), line], {})
    return ConstantValue(None)
