"""Numbers as nodes: sizes are read from the inputs that have them, expressions become arithmetic on their parts."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import torch
import torch.fx

from .. import torch_compat
from ..fake import FakeTensor
from ..fake.dims import layout_of, offset_of
from ..shapes import Expr, Sum, Symbol, as_expr
from ..shapes.expr import ONE
from ..shapes.expression_nodes import ExpressionNodes
from ..shapes.polynomials import parts
from ..shapes.symnode import SymNode, computed, expr_of
from .graph import FunctionalGraph, Unsupported

_ATEN = torch.ops.aten
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
NewNode = Callable[[Any, tuple[Any, ...], Any], torch.fx.Node]


class Doubt(IntEnum):
    """Where a symbol is read from: sizes before strides, and strides of dimensions of size 1 last, which values of a
    program may have any of."""

    SIZE = 0
    PART_OF_SIZE = 1
    """A size is a multiple of it, such as 4*s0 + 1 of s0."""
    STRIDE = 2
    STRIDE_OF_ONE = 3


def symbols_told(sizes: Sequence[Any], strides: Sequence[Any]) -> Iterator[tuple[Symbol, str, int, Doubt]]:
    """The symbols among the sizes and strides of a tensor: "size" or "stride", the dimension, and the doubt of each."""
    for dim, size in enumerate(sizes):
        if isinstance(size, Symbol):
            yield size, "size", dim, Doubt.SIZE
    for dim, (size, step) in enumerate(zip(sizes, strides, strict=True)):
        if isinstance(step, Symbol):
            yield step, "stride", dim, Doubt.STRIDE_OF_ONE if size is ONE else Doubt.STRIDE


class _Place(NamedTuple):
    """What gives the value of a symbol: a function of a node, or the size of a node that the symbol is a part of."""

    doubt: Doubt
    function: Any
    args: tuple[Any, ...]
    size: Expr | None = None


class SizeNodes(ExpressionNodes):
    """The nodes of one graph's numbers, made when they are needed."""

    def __init__(self, new_node: NewNode) -> None:
        super().__init__()
        self._new_node = new_node
        self._places: dict[Symbol, _Place] = {}

    def bind(self, value: Any, node: torch.fx.Node) -> None:
        """A symbolic number that is the value of a node."""
        expr = expr_of(value)
        if isinstance(expr, Symbol):
            self.by_expr.setdefault(expr, node)

    def bind_read(self, value: Any, node: torch.fx.Node) -> None:
        """A symbolic number that a node reads from data. The program may state it to be a size, and that is checked:
        the size itself is still read from the tensor that has it."""
        expr = expr_of(value)
        if isinstance(expr, Symbol) and not self.knows(expr):
            self.by_expr[expr] = node

    def read_from(self, fake: FakeTensor, node: torch.fx.Node) -> None:
        """Symbols that are sizes or strides of a tensor can be read from it."""
        if not torch_compat.has_symbolic_layout(fake):
            return
        sizes, strides = ([as_expr(getattr(number, "expr", number)) for number in part] for part in layout_of(fake))
        for symbol, kind, dim, doubt in symbols_told(sizes, strides):
            function = _ATEN.sym_size.int if kind == "size" else _ATEN.sym_stride.int
            self._note(symbol, _Place(doubt, function, (node, dim)))
        for dim, size in enumerate(sizes):
            if isinstance(size, Sum) and len(size.terms) == 1 and isinstance(size.terms[0][0], Symbol):
                self._note(size.terms[0][0], _Place(Doubt.PART_OF_SIZE, _ATEN.sym_size.int, (node, dim), size))
        # Under the names that sizes have had before they were stated to be something else: that is to be checked.
        for dim, expr in enumerate(raw_sizes(fake)):
            if isinstance(expr, Symbol):
                self._note(expr, _Place(Doubt.SIZE, _ATEN.sym_size.int, (node, dim)))
        expr = getattr(offset_of(fake), "expr", None)
        if isinstance(expr, Symbol):
            self._note(expr, _Place(Doubt.SIZE, _ATEN.sym_storage_offset.default, (node,)))

    def _note(self, symbol: Symbol, place: _Place) -> None:
        known = self._places.get(symbol)
        if known is None or place.doubt < known.doubt:
            self._places[symbol] = place

    def knows(self, symbol: Symbol) -> bool:
        """Whether the graph has, or can have, a node for a symbol."""
        return symbol in self.by_expr or symbol in self._places

    def node_of(self, value: Any) -> Any:
        """The node that computes a symbolic number, or a plain number where it has become one."""
        return self.expression(expr_of(value))

    def symbol_node(self, symbol: Symbol) -> Any:
        place = self._places.get(symbol)
        if place is None:
            raise Unsupported(f"the number {symbol} is nowhere in the graph")
        if place.size is None:
            return self._new_node(place.function, place.args, symbol)
        constant, ((_, factor),) = parts(place.size)
        number = self._new_node(place.function, place.args, place.size)
        if constant:
            number = self._new_node(operator.sub, (number, constant), place.size - constant)
        return self._new_node(operator.floordiv, (number, factor), symbol) if factor != 1 else number

    def call_node(self, function: Any, args: list[Any]) -> Any:
        values = [arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg for arg in args]
        return self._new_node(function, tuple(args), computed(function, values))


def collect_symbols(value: Any, symbols: set[Symbol]) -> None:
    """Add the symbols in a node's value: in a tensor's sizes and strides, or in a number."""
    if isinstance(value, torch.Tensor):
        if torch_compat.has_symbolic_layout(value):
            for number in (*value.shape, *value.stride()):
                collect_symbols(number, symbols)
    elif isinstance(value, _SYMBOLIC):
        symbols.update(expr_of(value).free_symbols)
    elif isinstance(value, (tuple, list)):
        for item in value:
            collect_symbols(item, symbols)


def raw_sizes(fake: torch.Tensor) -> list[Expr | None]:
    """The expressions that sizes were made with, before the program stated them to be something else."""
    return [getattr(getattr(size, "node", None), "raw_expr", None) for size in fake.shape]


def hints_of(functional: FunctionalGraph) -> dict[Symbol, int]:
    """The sizes that a program was captured with, by their symbols."""
    hints: dict[Symbol, int] = {}
    for node in functional.graph.nodes:
        if node.op != "placeholder":
            break
        value = node.meta.get("val")
        numbers = (*value.shape, *value.stride()) if isinstance(value, torch.Tensor) else (value,)
        for number in numbers:
            if isinstance(number, torch.SymInt) and isinstance(number.node, SymNode):
                symbol, hint = expr_of(number), number.node.hint
                if isinstance(symbol, Symbol) and hint is not None:
                    hints[symbol] = int(hint)
    return hints
