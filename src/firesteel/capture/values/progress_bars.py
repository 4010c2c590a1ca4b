"""Progress bars (`tqdm`): the loop is captured, and the bar is made and moved for real behind its graph.

    for step in tqdm(range(3)):          bar = tqdm(total=3)         after the graph, or in front of the next break
        x = x + step               ->    bar.update(1)
                                         bar.update(1)
                                         bar.update(1); bar.close()

Nothing of tqdm is imported here: programs that have a bar have imported it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..signals import GraphBreak
from ..source import Source
from .base import Value
from .methods import NativeMethod

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer

# Methods that show something and return nothing that programs use.
SHOWING = frozenset({"update", "close", "refresh", "clear", "set_description", "set_description_str", "set_postfix",
                     "set_postfix_str", "unpause"})


def is_progress_bar(cls: type) -> bool:
    """Whether a class is tqdm's, for terminals or notebooks."""
    module = sys.modules.get("tqdm.std")
    return module is not None and issubclass(cls, module.tqdm) and cls.__module__.partition(".")[0] == "tqdm"


class ProgressBarValue(Value):
    """A progress bar, made inside or before."""

    __slots__ = ("cls", "given", "iterable", "real")
    native_methods = True

    def __init__(self, cls: type, given: dict[str, Value], iterable: Value | None = None, source: Source | None = None,
                 real: Any = None) -> None:
        super().__init__(source)
        self.cls = cls
        self.given = given
        self.iterable = iterable
        self.real = real

    def python_type(self) -> type:
        return self.cls

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name in SHOWING or name in ("__enter__", "__exit__", "__iter__"):
            return NativeMethod(self, name)
        raise GraphBreak(f"reading {name!r} of a progress bar, which is made when the graph has run")

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in SHOWING:
            function: Any = getattr(self.cls, name)
            tx.effects.replay(function, [self, *args], kwargs)
            return tx.constant(None)
        if name == "__enter__":
            return self
        if name == "__exit__":
            return self.call_method(tx, "close", [], {})
        if name == "__iter__":
            return self.iterate(tx)
        self.unsupported(f"method {name!r}")

    def iterate(self, tx: Tracer) -> Value:
        if self.iterable is None:
            self.unsupported("iteration")
        from ..equivalents.progress_bars import Progress

        return tx.call(tx.python_object(Progress), [self.iterable, self], {})

    def length(self, tx: Tracer) -> Value:
        if self.iterable is None:
            self.unsupported("len()")
        return self.iterable.realize().length(tx)

    def truth(self, tx: Tracer) -> bool:
        raise GraphBreak("the truth of a progress bar")

    def emit(self, code: EntryCode) -> str:
        parts = [f"{name}={code.value(value)}" for name, value in self.given.items()]
        return code.assign(self, f"{code.constant(self.cls)}({', '.join(parts)})")


PARAMETERS = ("iterable", "desc", "total", "leave", "file", "ncols")


def make_progress_bar(tx: Tracer, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``tqdm(iterable, ...)``: the bar that will be shown knows how much there is to do, and not what."""
    if len(args) > len(PARAMETERS):
        raise GraphBreak("a progress bar with many positional arguments", "pass them by name")
    given = dict(zip(PARAMETERS, args, strict=False)) | kwargs
    iterable = given.pop("iterable", None)
    if iterable is not None and iterable.is_constant() and iterable.as_constant() is None:
        iterable = None
    if iterable is not None and "total" not in given and tx.objects.has_special(iterable.realize(), "__len__"):
        given["total"] = iterable.realize().length(tx)
    bar = ProgressBarValue(cls, given, iterable)
    tx.effects.built(bar)
    return bar
