"""Random expressions in two forms: as a tree that plain Python computes, and as a symbolic expression.

The tree is the reference: it knows nothing of normal forms.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from firesteel import shapes
from firesteel.shapes import arithmetic

SYMBOLS = tuple(shapes.symbol(f"s{i}") for i in range(3))
Values = dict[shapes.Symbol, Any]


@dataclass(frozen=True)
class Tree:
    """An operator (its Python function and its symbolic constructor) over subtrees, or a leaf."""

    name: str
    compute: Callable[..., Any]
    build: Callable[..., shapes.Expr]
    parts: tuple[Tree, ...] = ()

    def value(self, values: Values) -> Any:
        if not self.parts:
            return self.compute(values)
        return self.compute(*[part.value(values) for part in self.parts])

    def expr(self) -> shapes.Expr:
        return self.build(*[part.expr() for part in self.parts])

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.parts))})" if self.parts else self.name


def leaf_symbol(symbol: shapes.Symbol) -> Tree:
    return Tree(symbol.name, lambda values: values[symbol], lambda: symbol)


def leaf_const(value: Any) -> Tree:
    return Tree(repr(value), lambda values: value, lambda: shapes.const(value))


INT_BINARY = {
    "add": (operator.add, operator.add),
    "sub": (operator.sub, operator.sub),
    "mul": (operator.mul, operator.mul),
    "floordiv": (operator.floordiv, operator.floordiv),
    "mod": (operator.mod, operator.mod),
    "min": (min, shapes.minimum),
    "max": (max, shapes.maximum),
    "bitand": (operator.and_, arithmetic.bitand),
    "bitxor": (operator.xor, arithmetic.bitxor),
}
INT_UNARY = {
    "neg": (operator.neg, operator.neg),
    "abs": (abs, abs),
    "square": (lambda a: a**2, lambda a: a**2),
    "cube": (lambda a: a**3, lambda a: a**3),
    "shift": (lambda a: a << 2, lambda a: arithmetic.lshift(a, 2)),
    "ceil_half": (lambda a: math.ceil(a / 2), lambda a: shapes.ceil(a / 2)),
}
FLOAT_BINARY = {
    "fadd": (operator.add, operator.add),
    "fsub": (operator.sub, operator.sub),
    "fmul": (operator.mul, operator.mul),
    "fdiv": (operator.truediv, operator.truediv),
    "ffloordiv": (operator.floordiv, operator.floordiv),
    "fmod": (operator.mod, operator.mod),
}
COMPARISONS = {
    "eq": (operator.eq, shapes.eq),
    "ne": (operator.ne, shapes.ne),
    "lt": (operator.lt, operator.lt),
    "le": (operator.le, operator.le),
    "gt": (operator.gt, operator.gt),
    "ge": (operator.ge, operator.ge),
}


def _binary(table: dict[str, Any], left: st.SearchStrategy[Tree], right: st.SearchStrategy[Tree]) -> Any:
    names = st.sampled_from(sorted(table))
    return st.builds(lambda name, a, b: Tree(name, *table[name], (a, b)), names, left, right)


def _unary(table: dict[str, Any], operand: st.SearchStrategy[Tree]) -> Any:
    return st.builds(lambda name, a: Tree(name, *table[name], (a,)), st.sampled_from(sorted(table)), operand)


int_leaves = st.sampled_from([leaf_symbol(s) for s in SYMBOLS]) | st.integers(-4, 9).map(leaf_const)
int_trees = st.recursive(
    int_leaves, lambda inner: _binary(INT_BINARY, inner, inner) | _unary(INT_UNARY, inner), max_leaves=8
)
# Mostly linear, where decisions are possible at all.
linear_trees = st.recursive(
    int_leaves,
    lambda inner: (
        _binary({name: INT_BINARY[name] for name in ("add", "sub")}, inner, inner)
        | _binary(
            {name: INT_BINARY[name] for name in ("mul", "floordiv", "mod", "min", "max")},
            inner,
            st.integers(1, 5).map(leaf_const) | inner,
        )
    ),
    max_leaves=5,
)
float_trees = st.recursive(
    st.sampled_from([-1.5, 0.25, 3.0]).map(leaf_const) | int_leaves,
    lambda inner: _binary(FLOAT_BINARY, inner, inner),
    max_leaves=5,
)


def _logic(comparison: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    table = {
        "and": (lambda a, b: a and b, shapes.and_),
        "or": (lambda a, b: a or b, shapes.or_),
    }
    negation = {"not": (operator.not_, shapes.not_)}
    return st.recursive(comparison, lambda inner: _binary(table, inner, inner) | _unary(negation, inner), max_leaves=3)


int_conditions = _logic(_binary(COMPARISONS, int_trees, int_trees))
linear_conditions = _logic(_binary(COMPARISONS, linear_trees, linear_trees))
float_conditions = _logic(_binary(COMPARISONS, float_trees, float_trees | int_trees))


def environments(values: range) -> Iterator[Values]:
    """All assignments of the symbols."""
    for combination in itertools.product(values, repeat=len(SYMBOLS)):
        yield dict(zip(SYMBOLS, combination, strict=True))


UNDEFINED = object()


def value_or_undefined(tree: Tree, values: Values) -> Any:
    """The tree's value, or UNDEFINED where Python raises."""
    try:
        return tree.value(values)
    except (ZeroDivisionError, OverflowError, ValueError):
        return UNDEFINED


def build_or_none(tree: Tree) -> shapes.Expr | None:
    """The tree as an expression, or None where a constant part of it raises as Python would."""
    try:
        return tree.expr()
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
