"""Expressions as nodes of a torch.fx graph: arithmetic on the nodes of their symbols, one node for each expression."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from typing import Any

import torch

from firesteel import torch_compat
from firesteel.shapes.expr import Call, Const, Expr, Product, Sum, Symbol
from firesteel.shapes.relations import sides

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
    "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round, **torch_compat.symbolic_functions(),
}
COMPARED_WITH_ZERO: dict[str, Any] = {"eq0": operator.eq, "ne0": operator.ne, "ge0": operator.ge}


class ExpressionNodes(ABC):
    """The nodes made so far. Subclasses say how a symbol is read and how a call is added."""

    def __init__(self) -> None:
        self.by_expr: dict[Expr, Any] = {}

    @abstractmethod
    def symbol_node(self, symbol: Symbol) -> Any:
        """A new node whose value is that of a symbol."""

    @abstractmethod
    def call_node(self, function: Any, args: list[Any]) -> Any:
        """A new node that calls a function on nodes and numbers."""

    def expression(self, expr: Expr) -> Any:
        """The node that computes an expression; a plain number for a constant."""
        if isinstance(expr, Const):
            return expr.value
        node = self.by_expr.get(expr)
        if node is None:
            node = self.by_expr[expr] = self._make(expr)
        return node

    def _make(self, expr: Expr) -> Any:
        if isinstance(expr, Symbol):
            return self.symbol_node(expr)
        if isinstance(expr, Sum):
            return self._sum(expr)
        if isinstance(expr, Product):
            return self._product(expr)
        assert isinstance(expr, Call)
        if expr.op in COMPARED_WITH_ZERO:
            compared = [self.expression(side) for side in sides(expr.operands[0])]
            return self.call_node(COMPARED_WITH_ZERO[expr.op], compared)
        operands = [self.expression(operand) for operand in expr.operands]
        if expr.op == "ifelse":
            return self.call_node(torch.sym_ite, operands)
        if expr.op in UNARY:
            return self.call_node(UNARY[expr.op], operands)
        function = BINARY[expr.op]
        result = operands[0]
        if function is operator.pow and isinstance(result, (int, float)) and result < 0:
            result = self.call_node(operator.neg, [-result])  # torch.fx writes ``-1 ** n``, which is -(1 ** n)
        for operand in operands[1:]:
            result = self.call_node(function, [result, operand])
        return result

    def _sum(self, expr: Sum) -> Any:
        result: Any = None
        for monomial, coefficient in expr.terms:
            term = self.expression(monomial)
            if result is None:
                result = term if coefficient == 1 else self.call_node(operator.mul, [term, coefficient])
            elif abs(coefficient) == 1:
                result = self.call_node(operator.add if coefficient == 1 else operator.sub, [result, term])
            else:
                result = self.call_node(operator.add, [result, self.call_node(operator.mul, [term, coefficient])])
        return self.call_node(operator.add, [result, expr.const]) if expr.const else result

    def _product(self, expr: Product) -> Any:
        result: Any = None
        for base, exponent in expr.factors:
            factor = self.expression(base)
            if exponent != 1:
                factor = self.call_node(operator.pow, [factor, exponent])
            result = factor if result is None else self.call_node(operator.mul, [result, factor])
        return result
