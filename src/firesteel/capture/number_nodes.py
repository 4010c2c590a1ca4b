"""Numbers as nodes of the graph: sizes are read from inputs, expressions become arithmetic on what they are made of."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from .. import shapes
from ..shapes.operations import MATH_FUNCTIONS
from ..shapes.symnode import make_symbolic
from .signals import GraphBreak
from .source import SizeSource, StrideSource
from .values.constants import NumberValue

if TYPE_CHECKING:
    from .tracer import Tracer

# How operations of expressions are spelled in a graph, for two or any number of operands.
BINARY: dict[str, Any] = {
    "floordiv": operator.floordiv, "ffloordiv": operator.floordiv, "mod": operator.mod, "fmod": operator.mod,
    "truediv": operator.truediv, "mul": operator.mul, "fmul": operator.mul, "fadd": operator.add, "fsub": operator.sub,
    "lshift": operator.lshift, "rshift": operator.rshift, "bitand": operator.and_, "bitxor": operator.xor,
    "bitor": operator.or_, "pow": operator.pow, "fpow": operator.pow, "min": torch.sym_min, "max": torch.sym_max,
    "fmin": torch.sym_min, "fmax": torch.sym_max, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "and": operator.and_, "or": operator.or_,
}
UNARY: dict[str, Any] = {
    "fneg": operator.neg, "abs": abs, "fabs": abs, "float": torch.sym_float, "not": torch.sym_not,
    "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round,
    **{name: getattr(torch, f"_sym_{name}") for name in MATH_FUNCTIONS if hasattr(torch, f"_sym_{name}")},
}
COMPARED_WITH_ZERO: dict[str, Any] = {"eq0": operator.eq, "ne0": operator.ne, "ge0": operator.ge}


class NumberNodes:
    """The nodes made so far, one for each expression."""

    def __init__(self, tx: Tracer) -> None:
        self.tx = tx
        self.by_expr: dict[shapes.Expr, Any] = {}
        # where symbols are read that no node has been made for: a node, a method or None for subscripts, its arguments
        self.parts: dict[tuple[Any, ...], torch.fx.Node] = {}
        self.places: dict[shapes.Symbol, tuple[torch.fx.Node, str | None, tuple[Any, ...]]] = {}

    def bind(self, symbol: shapes.Symbol, node: torch.fx.Node) -> None:
        """A symbol whose value is that of a node."""
        self.by_expr[symbol] = node

    def place(self, symbol: shapes.Symbol, node: torch.fx.Node, method: str | None, *args: Any) -> None:
        """A symbol that can be read from the value of a node: by a method, or by subscripts one after the other."""
        self.places[symbol] = (node, method, args)

    def is_readable(self, symbol: shapes.Symbol) -> bool:
        """Whether the graph has, or can have, a node for a symbol."""
        return symbol in self.by_expr or symbol in self.places or symbol in self.tx.symbol_sources

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

    def expression(self, expr: shapes.Expr) -> Any:
        """The node that computes an expression."""
        if isinstance(expr, shapes.Const):
            return expr.value
        node = self.by_expr.get(expr)
        if node is None:
            node = self.by_expr[expr] = self._make(expr)
        return node

    def _make(self, expr: shapes.Expr) -> Any:
        if isinstance(expr, shapes.Symbol):
            return self._symbol(expr)
        if isinstance(expr, shapes.Sum):
            return self._sum(expr)
        if isinstance(expr, shapes.Product):
            return self._product(expr)
        assert isinstance(expr, shapes.Call)
        if expr.op in COMPARED_WITH_ZERO:
            return self._call(COMPARED_WITH_ZERO[expr.op], [self.expression(side) for side in _sides(expr.operands[0])])
        operands = [self.expression(operand) for operand in expr.operands]
        if expr.op == "ifelse":
            return self._call(torch.sym_ite, operands)
        if expr.op in UNARY:
            return self._call(UNARY[expr.op], operands)
        function = BINARY[expr.op]
        result = operands[0]
        for operand in operands[1:]:
            result = self._call(function, [result, operand])
        return result

    def _symbol(self, symbol: shapes.Symbol) -> Any:
        if symbol in self.places:
            return self._at_place(symbol, *self.places[symbol])
        source = self.tx.symbol_sources.get(symbol)
        if source is None:
            name = self.tx.shape_env.symbols[symbol].source_name
            raise GraphBreak(f"a number is needed that only an operation inside sees: {name}")
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
                made = graph.call_method(method, (node, *args))
        else:
            made = node
            for depth, index in enumerate(args):
                path = (node, *args[: depth + 1])
                found = self.parts.get(path)
                if found is None:
                    with graph.inserting_after(made):
                        found = self.parts[path] = graph.call_function(operator.getitem, (made, index))
                made = found
        made.meta["example_value"] = make_symbolic(self.tx.shape_env, symbol)
        return made

    def _sum(self, expr: shapes.Sum) -> Any:
        result: Any = None
        for monomial, coefficient in expr.terms:
            term = self.expression(monomial)
            if result is None:
                result = term if coefficient == 1 else self._call(operator.mul, [term, coefficient])
            elif abs(coefficient) == 1:
                result = self._call(operator.add if coefficient == 1 else operator.sub, [result, term])
            else:
                scaled = self._call(operator.mul, [term, coefficient])
                result = self._call(operator.add, [result, scaled])
        return self._call(operator.add, [result, expr.const]) if expr.const else result

    def _product(self, expr: shapes.Product) -> Any:
        result: Any = None
        for base, exponent in expr.factors:
            factor = self.expression(base)
            if exponent != 1:
                factor = self._call(operator.pow, [factor, exponent])
            result = factor if result is None else self._call(operator.mul, [result, factor])
        return result

    def _call(self, function: Any, args: list[Any], example: Any = None) -> Any:
        if not any(isinstance(arg, torch.fx.Node) for arg in args):
            return function(*args)
        node = self.tx.graph.call(function, tuple(args), {}, self.tx.user_frames())
        if example is None:
            example = function(*(arg.meta["example_value"] if isinstance(arg, torch.fx.Node) else arg for arg in args))
        node.meta["example_value"] = example
        return node


def _sides(expr: shapes.Expr) -> tuple[shapes.Expr, shapes.Expr]:
    """What is compared when an expression is compared with 0, without negative terms: ``a - b - 2`` is ``a, b + 2``."""
    if not isinstance(expr, shapes.Sum):
        return expr, shapes.const(0)
    left: shapes.Expr = shapes.const(max(expr.const, 0))
    right: shapes.Expr = shapes.const(max(-expr.const, 0))
    for monomial, coefficient in expr.terms:
        if coefficient > 0:
            left = left + monomial * coefficient
        else:
            right = right - monomial * coefficient
    return left, right
