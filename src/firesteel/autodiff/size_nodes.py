"""Numbers as nodes: sizes are read from the inputs that have them, expressions become arithmetic on their parts."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..fake import FakeTensor
from ..fake.dims import layout_of, offset_of
from ..shapes import Call, Const, Expr, Product, Sum, Symbol
from ..shapes.symnode import expr_of
from .graph import Unsupported

_ATEN = torch.ops.aten
_BINARY: dict[str, Any] = {
    "floordiv": operator.floordiv, "ffloordiv": operator.floordiv, "mod": operator.mod, "fmod": operator.mod,
    "truediv": operator.truediv, "mul": operator.mul, "fmul": operator.mul, "fadd": operator.add, "fsub": operator.sub,
    "lshift": operator.lshift, "rshift": operator.rshift, "bitand": operator.and_, "bitxor": operator.xor,
    "bitor": operator.or_, "pow": operator.pow, "fpow": operator.pow, "min": torch.sym_min, "max": torch.sym_max,
    "fmin": torch.sym_min, "fmax": torch.sym_max, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "and": operator.and_, "or": operator.or_,
}
_UNARY: dict[str, Any] = {
    "fneg": operator.neg, "abs": abs, "fabs": abs, "float": torch.sym_float, "not": torch.sym_not,
    "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round, **torch_compat.symbolic_functions(),
}
_COMPARED_WITH_ZERO: dict[str, Any] = {"eq0": operator.eq, "ne0": operator.ne, "ge0": operator.ge}

NewNode = Callable[[Any, tuple[Any, ...], Any], torch.fx.Node]


class SizeNodes:
    """The nodes of one graph's numbers, one for each expression, made when they are needed."""

    def __init__(self, new_node: NewNode) -> None:
        self._new_node = new_node
        self._by_expr: dict[Expr, Any] = {}
        self._places: dict[Symbol, tuple[Any, torch.fx.Node, tuple[Any, ...]]] = {}

    def bind(self, value: Any, node: torch.fx.Node) -> None:
        """A symbolic number that is the value of a node."""
        expr = expr_of(value)
        if isinstance(expr, Symbol):
            self._by_expr.setdefault(expr, node)

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
        return symbol in self._by_expr or symbol in self._places

    def node_of(self, value: Any) -> Any:
        """The node that computes a symbolic number, or a plain number where it has become one."""
        return self._expression(expr_of(value))

    def _expression(self, expr: Expr) -> Any:
        if isinstance(expr, Const):
            return expr.value
        node = self._by_expr.get(expr)
        if node is None:
            node = self._by_expr[expr] = self._make(expr)
        return node

    def _make(self, expr: Expr) -> Any:
        if isinstance(expr, Symbol):
            place = self._places.get(expr)
            if place is None:
                raise Unsupported(f"the number {expr} is nowhere in the graph")
            function, node, args = place
            return self._new_node(function, (node, *args), expr)
        if isinstance(expr, Sum):
            return self._sum(expr)
        if isinstance(expr, Product):
            return self._product(expr)
        assert isinstance(expr, Call)
        operands = [self._expression(operand) for operand in expr.operands]
        if expr.op in _COMPARED_WITH_ZERO:
            return self._new_node(_COMPARED_WITH_ZERO[expr.op], (*operands, 0), expr)
        if expr.op == "ifelse":
            return self._new_node(torch.sym_ite, tuple(operands), expr)
        if expr.op in _UNARY:
            return self._new_node(_UNARY[expr.op], tuple(operands), expr)
        function = _BINARY[expr.op]
        result = operands[0]
        for operand in operands[1:]:
            result = self._operate(function, result, operand)
        return result

    def _sum(self, expr: Sum) -> Any:
        result: Any = None
        for monomial, coefficient in expr.terms:
            term = self._expression(monomial)
            if coefficient != 1:
                term = self._operate(operator.mul, term, coefficient)
            result = term if result is None else self._operate(operator.add, result, term)
        return self._operate(operator.add, result, expr.const) if expr.const else result

    def _product(self, expr: Product) -> Any:
        result: Any = None
        for base, exponent in expr.factors:
            factor = self._expression(base)
            if exponent != 1:
                factor = self._operate(operator.pow, factor, exponent)
            result = factor if result is None else self._operate(operator.mul, result, factor)
        return result

    def _operate(self, function: Any, left: Any, right: Any) -> Any:
        values = [value.meta["val"] if isinstance(value, torch.fx.Node) else value for value in (left, right)]
        return self._new_node(function, (left, right), function(*values))
