"""Numbers as nodes: sizes are read from the inputs that have them, expressions become arithmetic on their parts."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..fake import FakeTensor
from ..fake.dims import known_equal, layout_of, offset_of
from ..shapes import Expr, Sum, Symbol
from ..shapes.expression_nodes import ExpressionNodes
from ..shapes.polynomials import parts
from ..shapes.symnode import choose, expr_of
from .graph import Unsupported

_ATEN = torch.ops.aten
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
NewNode = Callable[[Any, tuple[Any, ...], Any], torch.fx.Node]


class SizeNodes(ExpressionNodes):
    """The nodes of one graph's numbers, made when they are needed."""

    def __init__(self, new_node: NewNode) -> None:
        super().__init__()
        self._new_node = new_node
        self._places: dict[Symbol, tuple[Any, torch.fx.Node, tuple[Any, ...]]] = {}
        # symbols that sizes are multiples of, such as s0 of a size 4*s0 + 1: the node, its dimension, the size
        self._in_sizes: dict[Symbol, tuple[torch.fx.Node, int, Expr]] = {}
        # Asked after sizes, and those of dimensions of size 1 last: a program's values may have any stride there.
        self._in_strides: dict[Symbol, tuple[torch.fx.Node, int]] = {}
        self._in_strides_of_one: dict[Symbol, tuple[torch.fx.Node, int]] = {}

    def bind(self, value: Any, node: torch.fx.Node) -> None:
        """A symbolic number that is the value of a node."""
        expr = expr_of(value)
        if isinstance(expr, Symbol):
            self.by_expr.setdefault(expr, node)

    def bind_read(self, value: Any, node: torch.fx.Node) -> None:
        """The same for a number that is read from data. The program may state it to be a size, and that is checked: the
        size itself is still read from the tensor that has it."""
        expr = expr_of(value)
        if isinstance(expr, Symbol) and not self.knows(expr):
            self.by_expr[expr] = node

    def read_from(self, fake: FakeTensor, node: torch.fx.Node) -> None:
        """Symbols that are sizes or strides of a tensor can be read from it."""
        if not torch_compat.has_symbolic_layout(fake):
            return
        shape, stride = layout_of(fake)
        for dim, size in enumerate(shape):
            expr = getattr(size, "expr", None)
            if isinstance(expr, Symbol):
                self._places.setdefault(expr, (_ATEN.sym_size.int, node, (dim,)))
            elif isinstance(expr, Sum) and len(expr.terms) == 1 and isinstance(expr.terms[0][0], Symbol):
                self._in_sizes.setdefault(expr.terms[0][0], (node, dim, expr))
        for dim, (size, step) in enumerate(zip(shape, stride, strict=True)):
            expr = getattr(step, "expr", None)
            if isinstance(expr, Symbol):
                places = self._in_strides_of_one if known_equal(size, 1) else self._in_strides
                places.setdefault(expr, (node, dim))
        # Under the names that sizes have had before they were stated to be something else: that is to be checked.
        for dim, expr in enumerate(raw_sizes(fake)):
            if isinstance(expr, Symbol):
                self._places.setdefault(expr, (_ATEN.sym_size.int, node, (dim,)))
        expr = getattr(offset_of(fake), "expr", None)
        if isinstance(expr, Symbol):
            self._places.setdefault(expr, (_ATEN.sym_storage_offset.default, node, ()))

    def knows(self, symbol: Symbol) -> bool:
        """Whether the graph has, or can have, a node for a symbol."""
        return any(symbol in places for places in (self.by_expr, self._places, self._in_sizes, self._in_strides,
                                                   self._in_strides_of_one))

    def node_of(self, value: Any) -> Any:
        """The node that computes a symbolic number, or a plain number where it has become one."""
        return self.expression(expr_of(value))

    def symbol_node(self, symbol: Symbol) -> Any:
        place = self._places.get(symbol)
        if place is None and symbol in self._in_sizes:
            node, dim, size = self._in_sizes[symbol]
            constant, ((_, factor),) = parts(size)
            number = self._new_node(_ATEN.sym_size.int, (node, dim), size)
            if constant:
                number = self._new_node(operator.sub, (number, constant), size - constant)
            return self._new_node(operator.floordiv, (number, factor), symbol) if factor != 1 else number
        stride = self._in_strides.get(symbol) or self._in_strides_of_one.get(symbol)
        if place is None and stride is not None:
            return self._new_node(_ATEN.sym_stride.int, stride, symbol)
        if place is None:
            raise Unsupported(f"the number {symbol} is nowhere in the graph")
        function, node, args = place
        return self._new_node(function, (node, *args), symbol)

    def call_node(self, function: Any, args: list[Any]) -> Any:
        values = [arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg for arg in args]
        compute = choose if function is torch.sym_ite else function
        return self._new_node(function, tuple(args), compute(*values))


def collect_symbols(value: Any, found: set[Symbol]) -> None:
    """Add the symbols in a node's value: in a tensor's sizes and strides, or in a number."""
    if isinstance(value, torch.Tensor):
        if torch_compat.has_symbolic_layout(value):
            for number in (*value.shape, *value.stride()):
                collect_symbols(number, found)
    elif isinstance(value, _SYMBOLIC):
        found.update(expr_of(value).free_symbols)
    elif isinstance(value, (tuple, list)):
        for item in value:
            collect_symbols(item, found)


def raw_sizes(fake: torch.Tensor) -> list[Expr | None]:
    """The expressions that sizes were made with, before the program stated them to be something else."""
    return [getattr(getattr(size, "node", None), "raw_expr", None) for size in fake.shape]
