"""What symbols cannot do: decisions that depend on data, and operations that want plain sizes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from .. import shapes
from ..functional.jagged_tensors import inner_parts, is_jagged
from ..shapes.symnode import expr_of
from .signals import GraphBreak, StaticNeeded
from .source import SizeSource

if TYPE_CHECKING:
    from .tracer import Tracer

_NUMBERS = torch.__file__
_FUNCTIONS = torch.nn.functional.__file__
_OURS = __file__.removesuffix("capture/undecidable.py")
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Undecidable(GraphBreak):
    """The break at a decision that nothing known decides."""

    def __init__(self, error: shapes.UndecidableError) -> None:
        what = str(error).partition("\n")[0]
        origins = "; ".join(error.origins)
        super().__init__(f"{what} ({origins})" if origins else what, error.advice)
        self.error = error


def undecidable(error: shapes.UndecidableError) -> Undecidable:
    """The break at a decision that nothing known decides."""
    return Undecidable(error)


def decided_in_python() -> bool:
    """Whether Python code of torch.nn.functional asks about sizes now: no operator repeats that when it runs."""
    frame = sys._getframe(1)
    by_number = False
    while frame.f_back is not None and (frame.f_code.co_filename.startswith(_OURS)
                                        or frame.f_code.co_filename == _NUMBERS):
        by_number = by_number or frame.f_code.co_filename == _NUMBERS  # otherwise C++ asks
        frame = frame.f_back
    return by_number and frame.f_code.co_filename == _FUNCTIONS


def sizes_in(tx: Tracer, message: str) -> str:
    """What the symbols in a message are, in the words of the program: `` (s0 = x.shape[0] = 3)``."""
    infos = {info.symbol.name: info for info in tx.shape_env.symbols.values()}
    texts = []
    for name in sorted(name for name in infos if re.search(rf"(?<![a-wyz0-9_.]){name}(?!\d)", message)):  # also s0xs1
        info = infos[name]
        where = re.sub(r"\.size\((\d+)\)", r".shape[\1]", info.source_name)
        texts.append(f"{name} = {where}" + ("" if info.hint is None else f" = {info.hint}"))
    return f" ({', '.join(texts)})" if texts else ""


def static_needed(tx: Tracer, args: Iterable[Any], operation: str) -> GraphBreak | StaticNeeded:
    """What to raise when an operation does not work with the symbolic sizes in its arguments."""
    symbols = symbols_in(args)
    sources = [tx.symbols.sources.get(symbol) for symbol in symbols]
    sizes = frozenset((source.parent.name, source.dim) for source in sources if isinstance(source, SizeSource))
    if (not sizes or len(sizes) < len(symbols)) and all(map(tx.shape_env.is_backed, symbols)):
        # inside of transforms arguments hide their sizes, or have those of slices: which come from those of inputs
        sizes = frozenset((source.parent.name, source.dim) for source in tx.symbols.sources.values()
                          if isinstance(source, SizeSource))
        symbols = set()
    if not sizes or len(sizes) < len(symbols):
        return GraphBreak(f"{operation} needs plain sizes, and a size here is not that of an input",
                          "keep sizes that depend on data or numbers out of this operation")
    if not tx.sizes_settle:
        return GraphBreak(f"{operation} needs plain sizes, and those here change from call to call",
                          "give it tensors of few different sizes, padded for example")
    return StaticNeeded(sizes, operation)


def symbols_in(values: Iterable[Any]) -> set[shapes.Symbol]:
    """The symbols in arguments of an operation: in numbers, sizes and strides."""
    symbols: set[shapes.Symbol] = set()
    _collect(values, symbols)
    return symbols


def _collect(values: Iterable[Any], symbols: set[shapes.Symbol]) -> None:
    for value in values:
        if is_jagged(value):
            _collect(inner_parts(value), symbols)
        elif isinstance(value, torch.Tensor):
            _collect((*value.shape, *value.stride()), symbols)
        elif isinstance(value, (tuple, list)):
            _collect(value, symbols)
        elif isinstance(value, dict):
            _collect(value.values(), symbols)
        elif isinstance(value, SYMBOLIC):
            symbols.update(expr_of(value).free_symbols)
