"""What programs share between threads, or keep apart: locks, ``threading.local`` and context variables."""

from __future__ import annotations

import _thread
import contextvars
import threading
from typing import TYPE_CHECKING, Any

from ..call_handlers import handles
from ..signals import GraphBreak, Restart
from ..source import InstanceDictSource, Source, call_source, item_source, name_in_messages
from .base import LazyValue, Value, identity_key
from .constants import ConstantValue
from .methods import NativeMethod

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer

# sets, not tuples: a metaclass may say that its classes are equal to anything
LOCKS: frozenset[Any] = frozenset({_thread.LockType, _thread.RLock})


class LockValue(Value):
    """A lock. What was done with one from outside is done again with the other effects, in order.

    Capture reads before the graph and changes behind it. That is as good as holding the lock while there is one thread,
    which `Tracer.in_one_step` sees to.
    """

    __slots__ = ("kind", "real", "held")
    native_methods = True

    def __init__(self, kind: type, source: Source | None = None, real: Any = None) -> None:
        super().__init__(source)
        self.kind = kind
        self.real = real
        self.held: int | None = 0 if source is None else None  # None: nothing was done with it so far

    def python_type(self) -> type:
        return self.kind

    def truth(self, tx: Tracer) -> bool:
        return True

    def key(self, tx: Tracer) -> Any:
        return identity_key(tx, self)

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if hasattr(self.kind, name) and not name.startswith("_") or name in ("__enter__", "__exit__"):
            return NativeMethod(self, name)
        return super().get_attr(tx, name)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "locked":
            if self.held is None:
                assert self.source is not None
                held = self.real.locked()
                tx.guard(self.source, "lock", f"{{0}}.locked() is {held}")
                return ConstantValue(held)
            return ConstantValue(self.held > 0)
        if name in ("release", "__exit__"):
            self.change(tx, "release", -1)
            return ConstantValue(None)
        if name not in ("acquire", "__enter__") or args or kwargs:
            self.unsupported(f"method {name!r}")
        if self.held and self.kind is not _thread.RLock:
            raise GraphBreak("a lock is waited for that the program itself holds")
        self.change(tx, "acquire", 1)
        return ConstantValue(True)

    def change(self, tx: Tracer, name: str, by: int) -> None:
        """Acquire or release."""
        tx.in_one_step(self, name)
        if self.held is None and by < 0 or self.held == 0 and by < 0:
            raise GraphBreak("a lock is released that the compiled code has not acquired")
        self.held = (self.held or 0) + by
        if self.source is not None:
            tx.effects.replay(getattr(self.kind, name), [self], {})
        else:
            tx.effects.version += 1

    def emit(self, code: EntryCode) -> str:
        name = code.assign(self, f"{code.constant(_new_lock)}({code.constant(self.kind)})")
        for _ in range(self.held or 0):
            code.line(f"{name}.acquire()")
        return name


def _new_lock(kind: Any) -> Any:
    return _thread.allocate_lock() if kind is _thread.LockType else kind()


@handles(*{_thread.allocate_lock, threading.Lock})
def call_lock(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``threading.Lock()``."""
    return LockValue(_thread.LockType)


@handles(_thread.RLock)
def call_rlock(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``threading.RLock()``."""
    return LockValue(_thread.RLock)


class ThreadLocalValue(Value):
    """A ``threading.local``: its attributes are those of the thread that calls."""

    __slots__ = ("real", "attrs")

    def __init__(self, source: Source, real: Any) -> None:
        super().__init__(source)
        self.real = real
        self.attrs: dict[str, Value | None] = {}

    def python_type(self) -> type:
        return threading.local

    def truth(self, tx: Tracer) -> bool:
        return True

    def key(self, tx: Tracer) -> Any:
        return identity_key(tx, self)

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "__class__":
            return tx.python_object(threading.local)
        if name.startswith("__"):
            self.unsupported(f"reading attribute {name!r}")
        assert self.source is not None
        table, where = self.real.__dict__, InstanceDictSource(self.source)
        if name not in self.attrs and name in table:
            self.attrs[name] = tx.looked_up(table[name], item_source(where, name))
        attribute = self.attrs.get(name)
        if attribute is not None:
            return attribute
        if name not in self.attrs:
            tx.guard(where, "missing attribute", f"{name!r} not in {{0}}")
        called = name_in_messages(threading.local)
        raise tx.raised(AttributeError(f"{called!r} object has no attribute {name!r}", name=name))

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        if name.startswith("__"):
            self.unsupported(f"setting attribute {name!r}")
        self.attrs[name] = value
        tx.effects.attribute(self, name)

    def del_attr(self, tx: Tracer, name: str) -> None:
        self.get_attr(tx, name)
        self.attrs[name] = None
        tx.effects.attribute(self, name)


NOTHING = object()


def current_value(variable: contextvars.ContextVar[Any]) -> Any:
    """What a context variable gives where it is, NOTHING without a value."""
    return variable.get(NOTHING) if not _has_default(variable) else variable.get()


def _has_default(variable: contextvars.ContextVar[Any]) -> bool:
    try:
        contextvars.Context().run(variable.get)
    except LookupError:
        return False
    return True


class ContextVariable(Value):
    """A ``contextvars.ContextVar``: set at the end of the entry to what the program has left in it."""

    __slots__ = ("real", "content")
    native_methods = True

    def __init__(self, source: Source, real: contextvars.ContextVar[Any]) -> None:
        super().__init__(source)
        self.real = real
        self.content: Value | None = None  # what the program has set

    def python_type(self) -> type:
        return contextvars.ContextVar

    def truth(self, tx: Tracer) -> bool:
        return True

    def key(self, tx: Tracer) -> Any:
        return identity_key(tx, self)

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "name":
            return tx.constant(self.real.name)
        return NativeMethod(self, name) if name in ("get", "set", "reset") else super().get_attr(tx, name)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "get" and not kwargs:
            if self.content is not None:
                return self.content
            assert self.source is not None
            real, where = current_value(self.real), call_source(self.source, current_value)
            if real is not NOTHING and not (args and _has_default(self.real)):
                return LazyValue(tx, real, where).realize()
            if real is NOTHING:
                tx.guard(where, "context variable", "{0} is {k[0]}", (NOTHING,))
                if args:
                    return args[0]
            raise GraphBreak(f"context variable {self.real.name} without a value")
        if name == "set" and len(args) == 1:
            token = ContextToken(self, self.content, tx.root_step)
            self.content = args[0]
            tx.effects.mutated(self)
            return token
        token_given = args[0].realize() if args else None
        if name == "reset" and isinstance(token_given, ContextToken) and token_given.variable is self:
            self.content = token_given.before
            tx.effects.mutated(self)
            return ConstantValue(None)
        self.unsupported(f"method {name!r}")

    def emit_mutation(self, code: EntryCode, target: str, owner: type | None = None) -> None:
        if self.content is not None:
            code.line(f"{target}.set({code.value(self.content)})")


class ContextToken(Value):
    """What ``ContextVar.set`` gives, for ``reset``."""

    __slots__ = ("variable", "before", "step")

    def __init__(self, variable: ContextVariable, before: Value | None, step: int) -> None:
        super().__init__(None)
        self.step = step
        self.variable = variable
        self.before = before

    def python_type(self) -> type:
        return contextvars.Token

    def truth(self, tx: Tracer) -> bool:
        return True

    def emit(self, code: EntryCode) -> str:
        raise Restart(self.step, GraphBreak("a token of a context variable is needed after the graph"))


def wrap_thread_state(tx: Tracer, real: Any, kind: type, source: Source) -> Value | None:
    """The Value of a lock, a ``threading.local`` or a context variable from outside; None for other objects."""
    if kind in LOCKS:
        return LockValue(kind, source, real)
    if kind is threading.local:
        return ThreadLocalValue(source, real)
    if kind is contextvars.ContextVar:
        tx.guard(source, "identity", "{0} is {k[0]}", (real,))
        return ContextVariable(source, real)
    return None
