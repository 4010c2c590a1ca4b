"""Expressions as text: for people, and as Python code for guards.

A printer is a class with one method per construct; code generators override those that their language spells
differently. Every method returns text and a precedence, and `Printer.wrap` puts parentheses where they are needed.
Terms are ordered by their text, so equal expressions print equally in every process.

    >>> from firesteel.shapes.expr import symbol
    >>> s0, s1 = symbol("s0"), symbol("s1")
    >>> print_python(s0 * s1 + 2 <= s1 // 2, {s0: "x.size(0)", s1: "n"})
    'n*x.size(0) <= n//2 - 2'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from firesteel.shapes import polynomials
from firesteel.shapes.expr import Call, Const, Expr, Product, Scalar, Sum, Symbol
from firesteel.shapes.operations import MATH_FUNCTIONS

Text = tuple[str, int]

# Python's precedences, loosest first.
CHOICE, OR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND, SHIFT, ADD, MUL, UNARY, POWER, ATOM = range(14)

_BINARY: dict[str, tuple[str, int]] = {
    "floordiv": ("//", MUL),
    "ffloordiv": ("//", MUL),
    "mod": (" % ", MUL),
    "fmod": (" % ", MUL),
    "truediv": ("/", MUL),
    "mul": ("*", MUL),
    "fmul": ("*", MUL),
    "fadd": (" + ", ADD),
    "fsub": (" - ", ADD),
    "lshift": (" << ", SHIFT),
    "rshift": (" >> ", SHIFT),
    "bitand": (" & ", BIT_AND),
    "bitxor": (" ^ ", BIT_XOR),
    "bitor": (" | ", BIT_OR),
}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<="}
_COMPARE_ZERO = {"eq0": "==", "ne0": "!="}
_FUNCTIONS = {
    "min": "min",
    "fmin": "min",
    "max": "max",
    "fmax": "max",
    "abs": "abs",
    "fabs": "abs",
    "float": "float",
    "round": "round",
    "floor": "math.floor",
    "ceil": "math.ceil",
    "trunc": "math.trunc",
    **{name: f"math.{name}" for name in MATH_FUNCTIONS},
}


_DIVISIONS = frozenset(["floordiv", "mod", "truediv", "ffloordiv", "fmod"])


def risk(expr: Expr) -> int:
    """0 when nothing in the expression divides by something that may be zero, 1 when it does, 2 when that is zero."""
    own = 0
    if isinstance(expr, Call) and expr.op in _DIVISIONS:
        divisor = expr.operands[1]
        own = 1 if not isinstance(divisor, Const) else 0 if divisor.value else 2
    return max([own, *[risk(arg) for arg in expr.args]])


def _natural(text: str) -> list[tuple[int, int, str]]:
    """A sort key under which s2 comes before s10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]


class Printer:
    """Prints Python, as `str(expr)` shows it. Override the methods, or the `functions` table, for another language."""

    functions: ClassVar[Mapping[str, str]] = _FUNCTIONS

    def print(self, expr: Expr) -> str:
        """The text of an expression."""
        return self.visit(expr)[0]

    def visit(self, expr: Expr) -> Text:
        """The text with its precedence."""
        match expr:
            case Const():
                return self.constant(expr.value)
            case Symbol():
                return self.symbol(expr)
            case Sum():
                return self.sum(expr.const, self.ordered(expr.terms))
            case Product():
                return self.product(expr)
            case Call():
                return self.call(expr)
        raise AssertionError(f"unknown node {type(expr).__name__}")

    def wrap(self, expr: Expr, precedence: int) -> str:
        """The text in parentheses unless it binds at least as tightly as `precedence`."""
        text, own = self.visit(expr)
        return text if own >= precedence else f"({text})"

    def ordered(self, terms: tuple[tuple[Expr, int], ...]) -> list[tuple[Expr, int]]:
        """Terms by falling degree, operations after symbols, then by text."""
        if len(terms) == 1:
            return list(terms)
        return sorted(
            terms, key=lambda term: (-_degree(term[0]), isinstance(term[0], Call), _natural(self.print(term[0])))
        )

    def symbol(self, symbol: Symbol) -> Text:
        """A symbol."""
        return symbol.name, ATOM

    def constant(self, value: Scalar) -> Text:
        """A constant."""
        if isinstance(value, float) and not abs(value) < float("inf"):
            return f"float('{value}')", ATOM
        text = repr(value)
        return text, UNARY if text.startswith("-") else ATOM

    def term(self, monomial: Expr, coefficient: int) -> Text:
        """`coefficient * monomial`"""
        if coefficient == 1:
            return self.visit(monomial)
        if coefficient == -1:
            # `-a*b` groups as `(-a)*b`, which is the same number; `-a//b` would not be.
            return f"-{self.visit(monomial)[0] if isinstance(monomial, Product) else self.wrap(monomial, UNARY)}", MUL
        # The right operand of `*` must not be a bare `//` or `%`, hence one step tighter than MUL, except for products.
        right = self.visit(monomial)[0] if isinstance(monomial, Product) else self.wrap(monomial, UNARY)
        return f"{coefficient}*{right}", MUL

    def sum(self, constant: int, terms: list[tuple[Expr, int]]) -> Text:
        """A polynomial."""
        first = next((i for i, term in enumerate(terms) if term[1] > 0), 0)
        terms = [terms[first], *terms[:first], *terms[first + 1 :]]
        if terms[0][1] < 0 and constant > 0:
            text, precedence = self.constant(constant)
            constant = 0
        else:
            text, precedence = self.term(*terms[0])
            terms = terms[1:]
        if precedence < ADD:
            text = f"({text})"
        for monomial, coefficient in terms:
            part, own = self.term(monomial, abs(coefficient))
            text += (" + " if coefficient > 0 else " - ") + (part if own > ADD else f"({part})")
            precedence = ADD
        if constant:
            text += (" + " if constant > 0 else " - ") + self.constant(abs(constant))[0]
            precedence = ADD
        return text, precedence

    def product(self, product: Product) -> Text:
        """A monomial."""
        factors = sorted(product.factors, key=lambda factor: _natural(self.print(factor[0])))
        texts = [self.power(base, exponent) for base, exponent in factors]
        return "*".join(texts), MUL if len(texts) > 1 else POWER

    def power(self, base: Expr, exponent: int) -> str:
        """`base ** exponent`, for use inside a product."""
        return self.wrap(base, UNARY) if exponent == 1 else f"{self.wrap(base, ATOM)}**{exponent}"

    def call(self, call: Call) -> Text:
        """An operation: dispatches to the methods below."""
        op, operands = call.op, call.operands
        if op in _BINARY:
            return self.binary(op, *operands)
        if op in ("pow", "fpow"):
            return f"{self.wrap(operands[0], ATOM)}**{self.wrap(operands[1], UNARY)}", POWER
        if op in _COMPARE_ZERO or op == "ge0":
            return self.compare_zero(op, operands[0])
        if op in _COMPARE:
            return self.compare(_COMPARE[op], operands[0], operands[1])
        if op in ("and", "or"):
            return self.junction(op, operands)
        if op == "not":
            return f"not {self.wrap(operands[0], NOT)}", NOT
        if op == "fneg":
            return f"-{self.wrap(operands[0], UNARY)}", UNARY
        if op == "ifelse":
            return self.choice(*operands)
        if op == "is_integer":
            return f"{self.wrap(operands[0], ATOM)}.is_integer()", ATOM
        return self.function(self.functions[op], operands)

    def binary(self, op: str, left: Expr, right: Expr) -> Text:
        """A binary operator that groups to the left."""
        sign, precedence = _BINARY[op]
        return f"{self.wrap(left, precedence)}{sign}{self.wrap(right, precedence + 1)}", precedence

    def function(self, name: str, operands: tuple[Expr, ...]) -> Text:
        """A call."""
        return f"{name}({', '.join(self.arguments(operands))})", ATOM

    def arguments(self, operands: tuple[Expr, ...]) -> list[str]:
        """The texts of arguments; the order of those of integer min and max is not their storage order."""
        texts = [self.print(operand) for operand in operands]
        return sorted(texts, key=_natural) if all(operand.kind == "int" for operand in operands) else texts

    def compare(self, sign: str, left: Expr, right: Expr) -> Text:
        """A comparison; operands that are comparisons must not chain. Constants stand on the right of `==` and `!=`."""
        if sign in ("==", "!=") and isinstance(left, Const):
            left, right = right, left
        return f"{self.wrap(left, COMPARE + 1)} {sign} {self.wrap(right, COMPARE + 1)}", COMPARE

    def compare_zero(self, op: str, polynomial: Expr) -> Text:
        """`p == 0`, `p != 0` or `p >= 0`, printed with terms on the left and constants or lone terms on the right."""
        constant, raw = polynomials.parts(polynomial)
        terms = self.ordered(raw)
        sign = _COMPARE_ZERO.get(op, ">=")
        if terms[0][1] < 0:
            terms, constant = [(monomial, -coefficient) for monomial, coefficient in terms], -constant
            sign = "<=" if sign == ">=" else sign
        left = [term for term in terms if term[1] > 0]
        right = [(monomial, -coefficient) for monomial, coefficient in terms if coefficient < 0]
        right_text = self._side(-constant, right)
        return f"{self._side(0, left)} {sign} {right_text}", COMPARE

    def _side(self, constant: int, terms: list[tuple[Expr, int]]) -> str:
        text, precedence = self.sum(constant, terms) if terms else self.constant(constant)
        return text if precedence > COMPARE else f"({text})"

    def junction(self, op: str, operands: tuple[Expr, ...]) -> Text:
        """`a and b and c`, or the same with `or`."""
        precedence = AND if op == "and" else OR
        return f" {op} ".join(self.alternatives(operands, precedence)), precedence

    def alternatives(self, operands: tuple[Expr, ...], precedence: int) -> list[str]:
        """The operands of `and` and `or` by their text; those that may raise, because they divide, come last."""
        texts = [(risk(operand), self.wrap(operand, precedence + 1)) for operand in operands]
        return [text for _, text in sorted(texts, key=lambda item: (item[0], _natural(item[1])))]

    def choice(self, condition: Expr, then: Expr, otherwise: Expr) -> Text:
        """`then if condition else otherwise`"""
        text = f"{self.wrap(then, OR)} if {self.wrap(condition, OR)} else {self.wrap(otherwise, OR)}"
        return text, CHOICE


def _degree(monomial: Expr) -> int:
    return sum(exponent for _, exponent in monomial.factors) if isinstance(monomial, Product) else 1


Expr.text_of = staticmethod(lambda expr: Printer().print(expr))


class PythonPrinter(Printer):
    """Prints Python code with each symbol replaced by the text of where its value comes from.

    The code needs the name `math` only for the functions of that module.
    """

    def __init__(self, sources: Mapping[Symbol, str]) -> None:
        self.sources = sources

    def symbol(self, symbol: Symbol) -> Text:
        text = self.sources[symbol]
        # A source is normally a name, attribute, subscript or call; anything else is put into parentheses.
        return (text, ATOM) if re.fullmatch(r"[\w.]+(\([^()]*\)|\[[^\[\]]*\]|\.\w+)*", text) else (f"({text})", ATOM)


def print_python(expr: Expr, sources: Mapping[Symbol, str]) -> str:
    """Python code that computes `expr` from the texts of its symbols' sources."""
    return PythonPrinter(sources).print(expr)
