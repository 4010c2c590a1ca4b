"""Numbers as nodes of the graph: sizes are read from inputs, expressions become arithmetic on what they are made of."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch.fx

from .. import shapes, torch_compat
from ..fake import FakeTensor
from ..shapes.expression_nodes import ExpressionNodes
from ..shapes.symnode import computed, make_symbolic
from .signals import GraphBreak
from .source import DerivedSizeSource, SizeSource, StrideSource
from .values.constants import NumberValue

if TYPE_CHECKING:
    from .tracer import Tracer
    from .values.base import Value
    from .values.tensors import TensorValue


class NumberNodes(ExpressionNodes):
    """The nodes of one capture's numbers."""

    def __init__(self, tx: Tracer) -> None:
        super().__init__()
        self.tx = tx
        # where symbols are read that no node has been made for: a node, a method or None for subscripts, its arguments
        self.parts: dict[tuple[Any, ...], torch.fx.Node] = {}
        self.places: dict[shapes.Symbol, tuple[torch.fx.Node, str | None, tuple[Any, ...]]] = {}
        # numbers that were read, by the tensor and the place in it, and how often that was changed before
        self.elements: dict[tuple[Any, ...], Value] = {}

    def bind(self, symbol: shapes.Symbol, node: torch.fx.Node) -> None:
        """A symbol whose value is that of a node."""
        self.by_expr[symbol] = node

    def place(self, symbol: shapes.Symbol, node: torch.fx.Node, method: str | None, *args: Any) -> None:
        """A symbol that can be read from the value of a node: by a method, or by subscripts one after the other."""
        self.places[symbol] = (node, method, args)

    def is_readable(self, symbol: shapes.Symbol) -> bool:
        """Whether the graph has, or can have, a node for a symbol."""
        return symbol in self.by_expr or symbol in self.places or symbol in self.tx.symbols.sources

    def element(self, value: TensorValue) -> tuple[Any, ...] | None:
        """What stands for an element, `x[0]`, for as long as nothing is written to `x`; None for other tensors."""
        node = value.node
        base = node.args[0] if node.target is operator.getitem else None
        example = base.meta.get("example_value") if isinstance(base, torch.fx.Node) else None
        if not isinstance(example, FakeTensor) or type(node.args[1]) is not int or example.is_inference() \
                or example.storage_key in self.tx.fake.written:
            return None
        return base, node.args[1], torch_compat.version_of(example)

    def of(self, number: NumberValue) -> Any:
        """The node that computes a number, or a plain number where the expression has become a constant."""
        if isinstance(number.node, tuple):
            function, operands = number.node
            operands = [self.operand(value) for value in operands]
            number.node = self._call(function, operands, make_symbolic(self.tx.shape_env, number.expr))
        elif number.node is None:
            number.node = self.expression(number.expr)
        return number.node

    def operand(self, value: Any) -> Any:
        """An operand of a computation on numbers."""
        value = value.realize()
        return self.of(value) if isinstance(value, NumberValue) else value.as_constant()

    def symbol_node(self, symbol: shapes.Symbol) -> Any:
        if symbol in self.places:
            return self._at_place(symbol, *self.places[symbol])
        source = self.tx.symbols.sources.get(symbol)
        if source is None:
            name = self.tx.shape_env.symbols[symbol].source_name
            raise GraphBreak(f"a number is needed that only an operation inside sees: {name}")
        if isinstance(source, DerivedSizeSource):
            size = self.tx.graph.call_on_input(source.parent, "size", source.dim)
            size.meta["example_value"] = make_symbolic(self.tx.shape_env, symbol * source.scale + source.offset)
            return self._call(operator.floordiv, [self._call(operator.sub, [size, source.offset]), source.scale])
        assert isinstance(source, (SizeSource, StrideSource))
        method = "size" if isinstance(source, SizeSource) else "stride"
        node = self.tx.graph.call_on_input(source.parent, method, source.dim)
        node.meta["example_value"] = make_symbolic(self.tx.shape_env, symbol)
        return node

    def _at_place(self, symbol: shapes.Symbol, node: torch.fx.Node, method: str | None, args: tuple[Any, ...]) -> Any:
        """Read right behind the node: later the tensor may have been changed in place."""
        graph = self.tx.graph.graph
        if method is not None:
            with graph.inserting_after(node):
                part = graph.call_method(method, (node, *args))
        else:
            part = node
            for depth, index in enumerate(args):
                path = (node, *args[: depth + 1])
                known = self.parts.get(path)
                if known is None:
                    with graph.inserting_after(part):
                        known = self.parts[path] = graph.call_function(operator.getitem, (part, index))
                part = known
        part.meta["example_value"] = make_symbolic(self.tx.shape_env, symbol)
        return part

    def call_node(self, function: Any, args: list[Any]) -> Any:
        return self._call(function, args)

    def _call(self, function: Any, args: list[Any], example: Any = None) -> Any:
        if not any(isinstance(arg, torch.fx.Node) for arg in args):
            return function(*args)
        node = self.tx.graph.call(function, tuple(args), {}, self.tx.user_frames())
        if example is None:
            example = computed(function, [arg.meta["example_value"] if isinstance(arg, torch.fx.Node) else arg
                                          for arg in args])
        node.meta["example_value"] = example
        return node
