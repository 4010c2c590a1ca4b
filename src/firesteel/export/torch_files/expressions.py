"""Expressions of sizes in torch's files: Python calls of SymPy's classes, read as syntax trees and never executed.

>>> from firesteel.shapes.expr import symbol
>>> print(read_expression("Add(Mul(Integer(2), Symbol('s7', integer=True)), Integer(3))"))
2*s7 + 3
>>> print(read_expression("Eq(Mod(s7, 4), 0)"), "|", write_expression(symbol("s7") % 4))
s7 % 4 == 0 | Mod(Symbol('s7', positive=True, integer=True), Integer(4))
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from typing import Any

from ...shapes import Expr, Symbol, arithmetic, relations
from ...shapes.expr import Call, Const, Product, Sum, const, symbol
from ...shapes.operations import MATH_FUNCTIONS
from ...shapes.relations import sides
from ..saving.errors import SavedProgramError

Leaf = Callable[[ast.expr], "Expr | None"]

_BINARY: dict[type[ast.operator], Callable[..., Expr]] = {
    ast.Add: arithmetic.add, ast.Sub: arithmetic.sub, ast.Mult: arithmetic.mul, ast.Div: arithmetic.truediv,
    ast.FloorDiv: arithmetic.floordiv, ast.Mod: arithmetic.mod, ast.LShift: arithmetic.lshift,
    ast.RShift: arithmetic.rshift, ast.BitAnd: arithmetic.bitand, ast.BitOr: arithmetic.bitor,
}
_COMPARE: dict[type[ast.cmpop], Callable[..., Expr]] = {
    ast.Eq: relations.eq, ast.NotEq: relations.ne, ast.Lt: relations.lt, ast.LtE: relations.le, ast.Gt: relations.gt,
    ast.GtE: relations.ge,
}


def _power(base: Expr, exponent: Expr) -> Expr:
    integers = base.kind == exponent.kind == "int"
    return (arithmetic.pow_by_natural if integers else arithmetic.power)(base, exponent)


def _left_to_right(function: Callable[[Any, Any], Expr]) -> Callable[..., Expr]:
    return lambda *operands: functools.reduce(function, operands)


_FUNCTIONS: dict[str, Callable[..., Expr]] = {
    "Add": _left_to_right(arithmetic.add), "Mul": _left_to_right(arithmetic.mul), "Pow": _power,
    "PowByNatural": _power, "FloatPow": _power, "FloorDiv": arithmetic.floordiv, "CleanDiv": arithmetic.floordiv,
    "CeilDiv": lambda a, b: arithmetic.neg(arithmetic.floordiv(arithmetic.neg(a), b)),
    "Mod": arithmetic.mod, "PythonMod": arithmetic.mod, "IntTrueDiv": arithmetic.truediv,
    "FloatTrueDiv": arithmetic.truediv, "Max": arithmetic.maximum, "Min": arithmetic.minimum,
    "Abs": arithmetic.absolute, "ToFloat": arithmetic.to_float, "TruncToInt": arithmetic.trunc,
    "FloorToInt": arithmetic.floor, "CeilToInt": arithmetic.ceil, "RoundToInt": arithmetic.round_,
    "LShift": arithmetic.lshift, "RShift": arithmetic.rshift, "Where": relations.if_else,
    "BitwiseFn_bitwise_and": arithmetic.bitand, "BitwiseFn_bitwise_or": arithmetic.bitor,
    "BitwiseFn_bitwise_xor": arithmetic.bitxor, "Identity": lambda value: value,
    "Equality": relations.eq, "Eq": relations.eq, "Unequality": relations.ne, "Ne": relations.ne,
    "LessThan": relations.le, "StrictLessThan": relations.lt, "GreaterThan": relations.ge,
    "StrictGreaterThan": relations.gt, "And": relations.and_, "Or": relations.or_, "Not": relations.not_,
    "max": arithmetic.maximum, "min": arithmetic.minimum, "abs": arithmetic.absolute, "floor": arithmetic.floor,
    "ceil": arithmetic.ceil, "trunc": arithmetic.trunc, "round": arithmetic.round_, "sym_float": arithmetic.to_float,
    "float": arithmetic.to_float, "int": arithmetic.trunc,
    "sym_max": arithmetic.maximum, "sym_min": arithmetic.minimum, "sym_not": relations.not_,
}  # fmt: skip
_CONSTANTS = {"true": True, "false": False, "True": True, "False": False}


def read_expression(text: str, leaf: Leaf | None = None, kinds: Mapping[str, str] | None = None) -> Expr:
    """The expression that a text says. Raises ValueError.

    Names are symbols, of the kind that ``kinds`` says. What ``leaf`` has an expression for is taken to be that.
    """
    try:
        return _Reader(text, leaf, kinds or {}).read(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, MemoryError, RecursionError, ArithmeticError, TypeError) as error:
        raise ValueError(f"{text[:200]!r} is not an expression of sizes: {error}") from None


class _Reader:
    def __init__(self, text: str, leaf: Leaf | None, kinds: Mapping[str, str]) -> None:
        self.text = text
        self.leaf = leaf
        self.kinds = kinds

    def read(self, node: ast.expr) -> Expr:
        known = self.leaf(node) if self.leaf is not None else None
        if known is not None:
            return known
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return const(value)
            case ast.Name(id=name):
                return const(_CONSTANTS[name]) if name in _CONSTANTS else self.symbol(name)
            case ast.BinOp(left, ast.Pow(), right):
                return _power(self.read(left), self.read(right))
            case ast.BinOp(left, op, right) if type(op) in _BINARY:
                return _BINARY[type(op)](self.read(left), self.read(right))
            case ast.UnaryOp(ast.USub(), operand):
                return arithmetic.neg(self.read(operand))
            case ast.UnaryOp(ast.Not(), operand):
                return relations.not_(self.read(operand))
            case ast.BoolOp(op, values):
                join = relations.and_ if isinstance(op, ast.And) else relations.or_
                return join(*[self.read(value) for value in values])
            case ast.Compare(left, [op], [right]) if type(op) in _COMPARE:
                return _COMPARE[type(op)](self.read(left), self.read(right))
            case ast.IfExp(test, body, orelse):
                return relations.if_else(self.read(test), self.read(body), self.read(orelse))
            case ast.Call(func, args, keywords):
                return self.call(ast.unparse(func).rpartition(".")[2], args, keywords)
        raise self.unknown(ast.unparse(node))

    def call(self, name: str, args: list[ast.expr], keywords: list[ast.keyword]) -> Expr:
        match args:
            case [ast.Constant(value=str() as text)] if name == "Symbol":
                facts = {keyword.arg for keyword in keywords}
                return symbol(text, "int" if "integer" in facts or not facts else "float") \
                    if text not in self.kinds else self.symbol(text)
            case [ast.Constant(value=str() as text), *_] if name == "Float":
                return const(float(text))
            case [value] if name == "Integer":
                return self.read(value)
        if keywords:
            raise self.unknown(name)
        operands = [self.read(arg) for arg in args]
        if name in _FUNCTIONS and operands:
            return _FUNCTIONS[name](*operands)
        function = name.removeprefix("OpaqueUnaryFn_").removeprefix("_sym_").removeprefix("sym_")
        if function in MATH_FUNCTIONS and len(operands) == 1:
            return arithmetic.math_call(function, operands[0])
        raise self.unknown(name)

    def symbol(self, name: str) -> Symbol:
        kind: Any = self.kinds.get(name, "int")
        return symbol(name, kind)

    def unknown(self, what: str) -> ValueError:
        return ValueError(f"{self.text[:200]!r} is not an expression of sizes that is understood: {what[:80]}")


# ---------------------------------------------------------------------------------------------------------------------
# writing

_CALLS = {
    "floordiv": "FloorDiv", "mod": "PythonMod", "min": "Min", "max": "Max", "pow": "PowByNatural", "mul": "Mul",
    "abs": "Abs", "lshift": "LShift", "rshift": "RShift", "bitand": "BitwiseFn_bitwise_and",
    "bitor": "BitwiseFn_bitwise_or", "bitxor": "BitwiseFn_bitwise_xor", "fadd": "Add", "fmul": "Mul", "fabs": "Abs",
    "fpow": "FloatPow", "fmin": "Min", "fmax": "Max", "float": "ToFloat", "floor": "FloorToInt", "ceil": "CeilToInt",
    "trunc": "TruncToInt", "round": "RoundToInt", "ifelse": "Where", "eq": "Equality", "ne": "Unequality",
    "lt": "StrictLessThan", "le": "LessThan", "not": "Not", "and": "And", "or": "Or",
}  # fmt: skip
_WITH_ZERO = {"eq0": "Equality", "ne0": "Unequality", "ge0": "GreaterThan"}


def write_expression(expr: Expr) -> str:
    """The text of an expression in torch's files."""
    if isinstance(expr, Const):
        if expr.kind == "bool":
            return "true" if expr.value else "false"
        return f"Integer({expr.value})" if expr.kind == "int" else f"Float('{expr.value!r}', precision=53)"
    if isinstance(expr, Symbol):
        return write_symbol(expr)
    if isinstance(expr, Sum):
        terms = [write_expression(monomial) if coefficient == 1
                 else f"Mul(Integer({coefficient}), {write_expression(monomial)})"
                 for monomial, coefficient in expr.terms]
        terms += [f"Integer({expr.const})"] if expr.const else []
        return terms[0] if len(terms) == 1 else f"Add({', '.join(terms)})"
    if isinstance(expr, Product):
        factors = [write_expression(base) if exponent == 1 else f"Pow({write_expression(base)}, Integer({exponent}))"
                   for base, exponent in expr.factors]
        return factors[0] if len(factors) == 1 else f"Mul({', '.join(factors)})"
    assert isinstance(expr, Call)
    if expr.op in _WITH_ZERO:
        left, right = sides(expr.operands[0])
        return f"{_WITH_ZERO[expr.op]}({write_expression(left)}, {write_expression(right)})"
    return _write_call(expr)


def _write_call(expr: Call) -> str:
    operands = [write_expression(operand) for operand in expr.operands]
    kinds = {operand.kind for operand in expr.operands}
    name = _CALLS.get(expr.op)
    if expr.op == "mod" and isinstance(expr.operands[1], Const):
        name = "Mod"
    elif expr.op == "truediv":
        name = "FloatTrueDiv" if "float" in kinds else "IntTrueDiv"
    elif expr.op == "fneg":
        return f"Mul(Integer(-1), {operands[0]})"
    elif expr.op == "fsub":
        return f"Add({operands[0]}, Mul(Integer(-1), {operands[1]}))"
    elif expr.op in MATH_FUNCTIONS:
        name = f"OpaqueUnaryFn_{expr.op}"
    if name is None:
        raise SavedProgramError(f"torch's files have no form for the size {expr}")
    return f"{name}({', '.join(operands)})"


def write_symbol(expr: Symbol) -> str:
    """A symbol as torch writes it: sizes of inputs are positive there, numbers from data any integer."""
    if expr.kind == "float":
        return f"Symbol('{expr.name}', real=True)"
    facts = "integer=True" if is_from_data(expr.name) else "positive=True, integer=True"
    return f"Symbol('{expr.name}', {facts})"


def is_from_data(name: str) -> bool:
    """Whether a name is one that numbers from data have in torch's files."""
    return name[:1] == "u" and name[1:].isdecimal() or name.startswith("zuf")
