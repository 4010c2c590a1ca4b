"""Weak references that existed before the call, or are made to what existed before."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from ..signals import GraphBreak
from ..source import CalledSource, Source
from .base import Value, identity_key
from .tensors import TensorValue

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer


class WeakReference(Value):
    """A ``weakref.ref`` without a callback of its own class; calling it gives the object it refers to."""

    __slots__ = ("real", "referent")
    fixed_type = weakref.ref

    def __init__(self, real: Any = None, source: Source | None = None, referent: Value | None = None) -> None:
        super().__init__(source)
        self.real = real
        self.referent = referent

    def key(self, tx: Tracer) -> Any:
        """References to equal objects are equal, as long as both are alive."""
        referent = self.call(tx, [], {}).realize()
        if referent.is_constant() and referent.as_constant() is None:
            return identity_key(tx, self)
        if isinstance(referent, TensorValue):
            # Python compares what two references refer to: only a number can be the answer of a tensor.
            raise GraphBreak("a weak reference to a tensor as a key, which is found by comparing tensors")
        return (WeakReference, referent.key(tx))

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if args or kwargs:
            raise GraphBreak("a weak reference called with arguments")
        if self.source is not None and tx.resumed:
            referent = self.real()
            if referent is not None and not _is_held(tx, referent):
                # only variables of the function may have held it, and it may be gone by now
                raise GraphBreak("a weak reference to an object that no variable holds any more")
        if self.referent is None:
            assert self.source is not None
            # whether it is still alive, and what it is, are guarded as for any other way to reach an object
            self.referent = tx.wrap(self.real(), CalledSource(self.source))
        return self.referent

    def emit(self, code: EntryCode) -> str:
        assert self.referent is not None
        return code.assign(self, f"{code.constant(weakref.ref)}({code.value(self.referent)})")


def _is_held(tx: Tracer, obj: Any) -> bool:
    """Whether a variable of a running function holds the object itself."""
    return any(getattr(value, "real", None) is obj
               for frame in tx.frames
               for value in (*frame.locals.values(), *frame.stack, *(cell.content for cell in frame.cells.values())))
