"""Text back to expressions: the inverse of `str(expr)`, for caches and saved programs.

The text is a Python expression over the symbols' names. It is read as a syntax tree and rebuilt through the normalising
constructors; nothing in it is ever executed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

from firesteel.shapes import arithmetic, relations
from firesteel.shapes.expr import Const, Expr, ExprLike, Symbol, const
from firesteel.shapes.operations import MATH_FUNCTIONS

_BINARY: dict[type[ast.operator], Callable[[ExprLike, ExprLike], Expr]] = {
    ast.Add: arithmetic.add,
    ast.Sub: arithmetic.sub,
    ast.Mult: arithmetic.mul,
    ast.Div: arithmetic.truediv,
    ast.FloorDiv: arithmetic.floordiv,
    ast.Mod: arithmetic.mod,
    ast.LShift: arithmetic.lshift,
    ast.RShift: arithmetic.rshift,
    ast.BitAnd: arithmetic.bitand,
    ast.BitOr: arithmetic.bitor,
    ast.BitXor: arithmetic.bitxor,
}
_COMPARE: dict[type[ast.cmpop], Callable[[ExprLike, ExprLike], Expr]] = {
    ast.Eq: relations.eq,
    ast.NotEq: relations.ne,
    ast.Lt: relations.lt,
    ast.LtE: relations.le,
    ast.Gt: relations.gt,
    ast.GtE: relations.ge,
}
_FUNCTIONS: dict[str, Callable[..., Expr]] = {
    "min": arithmetic.minimum,
    "max": arithmetic.maximum,
    "abs": arithmetic.absolute,
    "float": arithmetic.to_float,
    "int": arithmetic.trunc,
    "round": arithmetic.round_,
    "math.floor": arithmetic.floor,
    "math.ceil": arithmetic.ceil,
    "math.trunc": arithmetic.trunc,
}


class ParseError(ValueError):
    """The text is not an expression over the given symbols."""


def parse(text: str, symbols: Mapping[str, Expr] | Iterable[Symbol]) -> Expr:
    """The expression that `text` says; `symbols` gives the meaning of its names.

    >>> from firesteel.shapes.expr import symbol
    >>> s0, s1 = symbol("s0"), symbol("s1")
    >>> parse("s1*(s0 + 1)//2 >= max(s1, 4)", [s0, s1]) is (s1 * (s0 + 1) // 2 >= arithmetic.maximum(s1, 4))
    True
    """
    names = symbols if isinstance(symbols, Mapping) else {symbol.name: symbol for symbol in symbols}
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ParseError(f"{text!r} is not an expression: {error}") from None
    try:
        return _Reader(text, names).read(tree.body)
    except (TypeError, ArithmeticError, RecursionError) as error:
        raise ParseError(f"{text!r} is not an expression: {error}") from None


class _Reader:
    def __init__(self, text: str, names: Mapping[str, Expr]) -> None:
        self.text = text
        self.names = names

    def fail(self, why: str) -> NoReturn:
        raise ParseError(f"{self.text!r} is not an expression: {why}")

    def read(self, node: ast.expr) -> Expr:
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return const(value)
            case ast.Name(id=name):
                if name not in self.names:
                    self.fail(f"there is no symbol {name}")
                return self.names[name]
            case ast.BinOp(left, ast.Pow(), right):
                return self.power(self.read(left), self.read(right))
            case ast.BinOp(left, op, right) if type(op) in _BINARY:
                return _BINARY[type(op)](self.read(left), self.read(right))
            case ast.UnaryOp(ast.USub(), operand):
                return arithmetic.neg(self.read(operand))
            case ast.UnaryOp(ast.Not(), operand):
                return relations.not_(self.read(operand))
            case ast.BoolOp(op, values):
                join = relations.and_ if isinstance(op, ast.And) else relations.or_
                return join(*[self.read(value) for value in values])
            case ast.Compare(left, ops, comparators):
                return self.compare(left, ops, comparators)
            case ast.IfExp(test, body, orelse):
                return relations.if_else(self.read(test), self.read(body), self.read(orelse))
            case ast.Call(func, args, []):
                return self.call(func, args)
        self.fail(f"`{ast.unparse(node)}` is not understood")

    def power(self, base: Expr, exponent: Expr) -> Expr:
        if base.kind == "int" and exponent.kind == "int" and not isinstance(exponent, Const):
            return arithmetic.pow_by_natural(base, exponent)  # the only form that expressions have
        return arithmetic.power(base, exponent)

    def compare(self, left: ast.expr, ops: list[ast.cmpop], comparators: list[ast.expr]) -> Expr:
        conditions = []
        first = self.read(left)
        for op, comparator in zip(ops, comparators, strict=True):
            second = self.read(comparator)
            if type(op) not in _COMPARE:
                self.fail("only == != < <= > >= compare")
            conditions.append(_COMPARE[type(op)](first, second))
            first = second
        return conditions[0] if len(conditions) == 1 else relations.and_(*conditions)

    def call(self, func: ast.expr, args: list[ast.expr]) -> Expr:
        if isinstance(func, ast.Attribute) and func.attr == "is_integer" and not args:
            return arithmetic.is_integer(self.read(func.value))
        name = ast.unparse(func)
        match args:
            case [ast.Constant(value=str() as special)] if name == "float" and special in ("nan", "inf", "-inf"):
                return const(float(special))
        operands = [self.read(arg) for arg in args]
        if name in _FUNCTIONS and operands:
            return _FUNCTIONS[name](*operands)
        if name.removeprefix("math.") in MATH_FUNCTIONS and name.startswith("math.") and len(operands) == 1:
            return arithmetic.math_call(name.removeprefix("math."), operands[0])
        self.fail(f"there is no function {name} of {len(operands)} arguments")
