"""What symbols cannot do: decisions that depend on data, and operations that want plain sizes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from .. import shapes
from ..shapes.symnode import expr_of
from .signals import GraphBreak, StaticNeeded
from .source import SizeSource

if TYPE_CHECKING:
    from .tracer import Tracer

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Undecidable(GraphBreak):
    """The break at a decision that nothing known decides."""

    def __init__(self, error: shapes.UndecidableError) -> None:
        what = str(error).partition("\n")[0]
        origins = "; ".join(error.origins)
        checks = " or ".join(error.suggestions)
        super().__init__(f"{what} ({origins})" if origins else what,
                         f"if one answer always holds, state it before this line: {checks}")
        self.error = error


def undecidable(error: shapes.UndecidableError) -> Undecidable:
    """The break at a decision that nothing known decides."""
    return Undecidable(error)


def static_needed(tx: Tracer, args: Iterable[Any], operation: str) -> GraphBreak | StaticNeeded:
    """What to raise when an operation does not work with the symbolic sizes in its arguments."""
    symbols = symbols_in(args)
    sources = [tx.symbol_sources.get(symbol) for symbol in symbols]
    sizes = frozenset((source.parent.name, source.dim) for source in sources if isinstance(source, SizeSource))
    if not sizes or len(sizes) < len(symbols):
        return GraphBreak(f"{operation} needs plain sizes, and a size here is not that of an input",
                          "keep sizes that depend on data or numbers out of this operation")
    return StaticNeeded(sizes, operation)


def symbols_in(values: Iterable[Any]) -> set[shapes.Symbol]:
    """The symbols in arguments of an operation: in numbers, sizes and strides."""
    symbols: set[shapes.Symbol] = set()
    _collect(values, symbols)
    return symbols


def _collect(values: Iterable[Any], symbols: set[shapes.Symbol]) -> None:
    for value in values:
        if isinstance(value, torch.Tensor):
            _collect((*value.shape, *value.stride()), symbols)
        elif isinstance(value, (tuple, list)):
            _collect(value, symbols)
        elif isinstance(value, dict):
            _collect(value.values(), symbols)
        elif isinstance(value, SYMBOLIC):
            symbols.update(expr_of(value).free_symbols)
