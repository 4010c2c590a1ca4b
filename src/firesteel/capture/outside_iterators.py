"""Iterators that were made outside: what they will yield is read off them, and they are advanced behind the graph.

So it is where an iterator has not begun yet, or the program has to be one graph. Others, and those that a loop with
breaks has advanced, are stepped in plain Python: each round would be compiled otherwise.
"""

from __future__ import annotations

import gc
import itertools
import operator
import re
from typing import TYPE_CHECKING, Any

from .signals import GraphBreak
from .source import Source, call_source, item_source
from .values.base import Value
from .values.iterators import (
    ConstantIterator,
    CountIterator,
    EnumerateIterator,
    FilterIterator,
    IteratorValue,
    ListIterator,
    MapIterator,
    SequenceIterator,
    ZipIterator,
)
from .values.sequences import ListValue, TupleValue

if TYPE_CHECKING:
    from .entry_code import EntryCode
    from .tracer import Tracer

SEQUENCES: tuple[Any, ...] = (type(iter([])), type(iter(())))
CONSTANTS: tuple[Any, ...] = (type(iter(range(0))), type(iter("a")), type(iter("\u0100")))
COPIED: tuple[Any, ...] = (type(iter({})), type(iter({}.values())), type(iter({}.items())), type(iter(set())))
"""Iterators that give what is left as a list."""
REVERSED: Any = type(reversed([]))
MOST_ITEMS = 256
"""Loops over more than this, such as that of a comprehension that was not unrolled, are stepped in plain Python."""
_COUNT = re.compile(r"count\((-?\d+)(?:, (-?\d+))?\)")


class OutsideIterator(IteratorValue):
    """An iterator from outside that has a state of its own, and the model that is stepped in its place."""

    __slots__ = ("real", "model", "steps")

    def __init__(self, real: Any, source: Source, model: Value) -> None:
        super().__init__(source)
        self.real = real
        self.model = model
        self.steps = 0

    def python_type(self) -> type:
        return type(self.real)

    def next_item(self, tx: Tracer) -> Value | None:
        item = self.model.next_item(tx)
        self.steps += 1
        tx.effects.mutated(self)
        return item

    def emit_mutation(self, code: EntryCode, target: str, owner: type | None = None) -> None:
        """Advance the real one."""
        code.line(f"{code.constant(advance)}({target}, {self.steps})")


class CopiedIterator(SequenceIterator):
    """Goes through what was left of an iterator of a dictionary or set, as long as that stays as it was."""

    __slots__ = ("real",)

    def __init__(self, rest: ListValue, real: Any) -> None:
        super().__init__(rest)
        self.real = real

    def next_item(self, tx: Tracer) -> Value | None:
        for container in gc.get_referents(self.real):
            known = tx.known.get(id(container))
            if known is not None and tx.effects.is_changed(getattr(known, "storage", None) or known):
                raise GraphBreak("an iterator from outside over a container that has been changed")
        return super().next_item(tx)


def advance(iterator: Any, steps: int) -> None:
    """Take items off an iterator; the last step may find that there are no more."""
    for _ in range(steps):
        next(iterator, None)


def parts(iterator: Any) -> tuple[Any, ...]:
    """What an iterator is made of."""
    return iterator.__reduce__()[1]  # type: ignore[no-any-return]


def state(iterator: Any) -> Any:
    """How far an iterator of a sequence is; what else is kept beside the parts."""
    reduced = iterator.__reduce__()
    return reduced[2] if len(reduced) > 2 else None


def left(iterator: Any) -> Any:
    """What is left of a range or text, or of what gives it as a list."""
    rest = parts(iterator)[0]
    return rest[state(iterator) or 0:]


def counted(iterator: Any) -> tuple[int, int] | None:
    """The next number of ``itertools.count`` and the step, where they are integers."""
    match = _COUNT.fullmatch(repr(iterator))
    return (int(match[1]), int(match[2] or 1)) if match else None


def wrap_iterator(tx: Tracer, real: Any, kind: type, source: Source) -> Value | None:
    """The Value of an iterator from outside; None where it is stepped in Python."""
    if tx.resumed and not tx.compiler.fullgraph:
        return None
    if kind in (zip, map, filter):
        return _over_others(tx, real, kind, source)
    if not tx.compiler.fullgraph and kind in (*SEQUENCES, *CONSTANTS) and state(real) not in (0, None):
        return None
    if not tx.compiler.fullgraph and operator.length_hint(real) > MOST_ITEMS:
        return None
    model = _model(tx, real, kind, source)
    return None if model is None else OutsideIterator(real, source, model)


def _model(tx: Tracer, real: Any, kind: type, source: Source) -> Value | None:
    """An iterator that yields the same, and advances nothing from outside."""
    if kind is itertools.count:
        now = counted(real)
        if now is None:
            return None
        where = call_source(source, counted)
        tx.guard(where, "type", "type({0}) is tuple")
        start, step = [tx.wrap(number, item_source(where, i)) for i, number in enumerate(now)]
        return CountIterator(start, step)
    try:
        inside = parts(real)
        position = state(real)
    except (RuntimeError, TypeError):  # of a dictionary that has changed
        return None
    if kind in CONSTANTS:
        tx.guard(call_source(source, left), "constant", "{0} == {k[0]}", (left(real),))
        return ConstantIterator(left(real))
    where = call_source(source, parts)
    if kind is enumerate:
        inner = _model(tx, inside[0], type(inside[0]), item_source(where, 0))
        if inner is None:
            return None
        tx.guard(item_source(where, 0), "type", "type({0}) is {k[0]}", (type(inside[0]),))
        return EnumerateIterator(inner, tx.wrap(inside[1], item_source(where, 1)))
    if kind in (*SEQUENCES, REVERSED):
        items = tx.wrap(inside[0], item_source(where, 0)).realize()
        if not isinstance(items, (ListValue, TupleValue)):
            return None
        tx.guard(call_source(source, state), "constant", "{0} == {k[0]}", (position,))
        if kind is REVERSED:
            return ListIterator([] if position is None else items.elements(tx)[position::-1])
        model = SequenceIterator(items)
        model.position = position or 0
        return model
    if kind in COPIED:
        rest = tx.wrap(left(real), call_source(source, left)).realize()
        return CopiedIterator(rest, real) if isinstance(rest, ListValue) else None
    return None


def _over_others(tx: Tracer, real: Any, kind: Any, source: Source) -> Value | None:
    """``zip``, ``map`` and ``filter``, whose state is that of what they go through."""
    where = call_source(source, parts)
    inside = [tx.wrap(part, item_source(where, i)).realize() for i, part in enumerate(parts(real))]
    own = 0 if kind is zip else 1
    if not all(isinstance(part, IteratorValue) for part in inside[own:]):
        return None
    tx.guard(where, "length", f"len({{0}}) == {len(inside)}")
    model: IteratorValue
    if kind is zip:
        strict = state(real) is True
        tx.guard(call_source(source, state), "constant", "({0} is True) is {k[0]}", (strict,))
        model = ZipIterator(inside, strict)
    elif kind is map:
        model = MapIterator(inside[0], inside[1:])
    else:
        model = FilterIterator(inside[0], inside[1])
    model.source = source
    return model
