"""What it depends on that a step of the program raises, where the whole program is to be one graph.

A step that breaks the graph leaves nothing of itself behind: all before it is captured again, and Python runs the step.
With ``fullgraph=True`` a step that raises is no break, but the end of the program. The entry is then for calls in which
it raises, so it has the guards that were found on the way to the exception:

    def f(x, table, key):
        y = x * 2
        return y + table[key]        # KeyError: guarded is that the table has no such key
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ..records import dataclass
from ..shapes import ShapeGuard
from .dynamism import TensorSeen, layout_guards
from .guards import Guard, NumberSeen
from .reliance import guard_reliance
from .signals import SkipFrame
from .source import DrawnSource, Source

if TYPE_CHECKING:
    from .tracer import Tracer


@dataclass(frozen=True)
class RaisedUnder:
    """What a capture had relied on when a step of it raised."""

    guards: list[Guard]
    shape_guards: list[ShapeGuard]
    sources: dict[Any, Source]
    numbers: dict[str, NumberSeen]
    tensors: dict[str, TensorSeen]


def raised_under(tx: Tracer) -> RaisedUnder:
    """What the capture has relied on so far, as far as another one can look at it before it has begun."""
    with contextlib.suppress(SkipFrame):
        guard_reliance(tx)
    shape_guards = [*layout_guards(tx), *tx.shape_env.assumptions(), *tx.shape_env.guards]
    sources = {symbol: source for symbol, source in tx.symbols.sources.items() if _is_there_before(tx, source)}
    return RaisedUnder(
        [guard for guard in tx.guards.guards
         if all(_is_there_before(tx, source) for source in (guard.source, *guard.others))],
        [guard for guard in shape_guards if all(symbol in sources for symbol in guard.expr.free_symbols)],
        sources, dict(tx.symbols.numbers_seen), dict(tx.symbols.tensors_seen))


def _is_there_before(tx: Tracer, source: Source | None) -> bool:
    """Whether a source leads to something that is there when a call begins."""
    if tx.made_classes.own(source):
        return False
    while source is not None and source.base is not None:
        source = source.base
    return not isinstance(source, DrawnSource)


def rely_on(tx: Tracer, raised: RaisedUnder) -> list[ShapeGuard]:
    """Rely on the same in the capture that ends before the step; returns what is asked of sizes besides."""
    for guard in raised.guards:
        tx.guards.add(guard)
    known = tx.symbols.sources
    if any(known.get(symbol, source) != source for symbol, source in raised.sources.items()):
        return []
    known.update(raised.sources)
    for name, number in raised.numbers.items():
        tx.symbols.numbers_seen.setdefault(name, number)
    for name, tensor in raised.tensors.items():
        tx.symbols.tensors_seen.setdefault(name, tensor)
    return raised.shape_guards
