"""Numbers as nodes: sizes are read from the inputs that have them, expressions become arithmetic on their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..fake import FakeTensor
from ..fake.dims import layout_of, offset_of
from ..shapes import Symbol
from ..shapes.expression_nodes import ExpressionNodes
from ..shapes.symnode import choose, expr_of
from .graph import Unsupported

_ATEN = torch.ops.aten
NewNode = Callable[[Any, tuple[Any, ...], Any], torch.fx.Node]


class SizeNodes(ExpressionNodes):
    """The nodes of one graph's numbers, made when they are needed."""

    def __init__(self, new_node: NewNode) -> None:
        super().__init__()
        self._new_node = new_node
        self._places: dict[Symbol, tuple[Any, torch.fx.Node, tuple[Any, ...]]] = {}

    def bind(self, value: Any, node: torch.fx.Node) -> None:
        """A symbolic number that is the value of a node."""
        expr = expr_of(value)
        if isinstance(expr, Symbol):
            self.by_expr.setdefault(expr, node)

    def read_from(self, fake: FakeTensor, node: torch.fx.Node) -> None:
        """Symbols that are sizes or strides of a tensor can be read from it."""
        if not torch_compat.has_symbolic_layout(fake):
            return
        shape, stride = layout_of(fake)
        for function, numbers in ((_ATEN.sym_size.int, shape), (_ATEN.sym_stride.int, stride)):
            for dim, number in enumerate(numbers):
                expr = getattr(number, "expr", None)
                if isinstance(expr, Symbol):
                    self._places.setdefault(expr, (function, node, (dim,)))
        expr = getattr(offset_of(fake), "expr", None)
        if isinstance(expr, Symbol):
            self._places.setdefault(expr, (_ATEN.sym_storage_offset.default, node, ()))

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
        function, node, args = place
        return self._new_node(function, (node, *args), symbol)

    def call_node(self, function: Any, args: list[Any]) -> Any:
        values = [arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg for arg in args]
        compute = choose if function is torch.sym_ite else function
        return self._new_node(function, tuple(args), compute(*values))
