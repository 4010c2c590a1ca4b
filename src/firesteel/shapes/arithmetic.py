"""Constructors of arithmetic expressions: constant folding and the normal form of integer polynomials.

Integers obey the laws of a ring, so sums and products of them are expanded and sorted. Floats obey no such laws:
operations on them are kept in the order written and only folded when all operands are constants.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from firesteel.shapes import polynomials, relations
from firesteel.shapes.expr import (
    ONE,
    ZERO,
    Call,
    Const,
    Expr,
    ExprLike,
    Kind,
    Product,
    Sum,
    as_expr,
    const,
    make_call,
    make_product,
    make_sum,
)

# Beyond these an expansion would cost more than a normal form is worth; the product stays as written.
_MAX_TERMS = 128
_MAX_POWER = 8


def _fold(op: str, operands: tuple[Expr, ...], kind: Kind) -> Expr:
    """The call, or its value when nothing in it is symbolic."""
    if all([type(operand) is Const for operand in operands]):
        return const(operations.compute(op, [operand.value for operand in operands]))  # type: ignore[attr-defined]
    return make_call(op, operands, kind)


def _number(value: ExprLike) -> Expr:
    """The operand of arithmetic: Python counts True as 1."""
    expr = as_expr(value)
    return expr if expr.kind != "bool" else relations.if_else(expr, ONE, ZERO)


def _numbers(left: ExprLike, right: ExprLike) -> tuple[Expr, Expr, bool]:
    a, b = _number(left), _number(right)
    return a, b, a.kind == "int" and b.kind == "int"


def add(left: ExprLike, right: ExprLike) -> Expr:
    """`left + right`"""
    a, b, integers = _numbers(left, right)
    if not integers:
        return _fold("fadd", (a, b), "float")
    return polynomials.add(a, b)


def sub(left: ExprLike, right: ExprLike) -> Expr:
    """`left - right`"""
    a, b, integers = _numbers(left, right)
    if not integers:
        return _fold("fsub", (a, b), "float")
    return polynomials.add(a, polynomials.scale(b, -1))


def neg(operand: ExprLike) -> Expr:
    """`-operand`"""
    a = _number(operand)
    return polynomials.scale(a, -1) if a.kind == "int" else _fold("fneg", (a,), "float")


def mul(left: ExprLike, right: ExprLike) -> Expr:
    """`left * right`"""
    a, b, integers = _numbers(left, right)
    if not integers:
        return _fold("fmul", (a, b), "float")
    if isinstance(b, Const):
        return polynomials.scale(a, int(b.value))
    if isinstance(a, Const):
        return polynomials.scale(b, int(a.value))
    if polynomials.term_count(a) * polynomials.term_count(b) > _MAX_TERMS:
        return make_call("mul", (a, b) if a.serial < b.serial else (b, a), "int")
    return polynomials.multiply(a, b)


def power(base: ExprLike, exponent: ExprLike) -> Expr:
    """`base ** exponent`; an integer exponent must be constant, because its sign decides between int and float."""
    a, b, integers = _numbers(base, exponent)
    if not integers:
        return _fold("fpow", (a, b), "float")
    if not isinstance(b, Const):
        raise TypeError(
            f"({a}) ** ({b}) is an int or a float depending on the sign of {b}; "
            "decide the sign first and use pow_by_natural, or make the exponent a float"
        )
    return pow_by_natural(a, b) if b.value >= 0 else _fold("fpow", (a, b), "float")


def pow_by_natural(base: ExprLike, exponent: ExprLike) -> Expr:
    """`base ** exponent` for an exponent that is known not to be negative."""
    a, b = _number(base), _number(exponent)
    if not isinstance(b, Const):
        return make_call("pow", (a, b), "int")
    n = int(b.value)
    if n == 0:
        return ONE
    if n == 1:
        return a
    if isinstance(a, Const):
        return const(a.value**n)
    if isinstance(a, Product):
        return make_product(tuple([(factor, exp * n) for factor, exp in a.factors]))
    if not isinstance(a, Sum):
        return make_product(((a, n),))
    if len(a.terms) == 1 and not a.const:  # (c*m)**n -> c**n * m**n
        return polynomials.scale(pow_by_natural(a.terms[0][0], b), a.terms[0][1] ** n)
    if n > _MAX_POWER or polynomials.term_count(a) ** n > _MAX_TERMS:
        return make_call("pow", (a, b), "int")
    result: Expr = a
    for _ in range(n - 1):
        result = mul(result, a)
    return result


def truediv(left: ExprLike, right: ExprLike) -> Expr:
    """`left / right`, a float"""
    a, b, _ = _numbers(left, right)
    if isinstance(b, Const) and b.value == 0:
        raise ZeroDivisionError(f"division of {a} by zero")
    return _fold("truediv", (a, b), "float")


def floordiv(left: ExprLike, right: ExprLike) -> Expr:
    """`left // right`"""
    a, b, integers = _numbers(left, right)
    if isinstance(b, Const) and b.value == 0:
        raise ZeroDivisionError(f"floor division of {a} by zero")
    if not integers:
        return _fold("ffloordiv", (a, b), "float")
    if isinstance(b, Const):
        return _floordiv_const(a, int(b.value))
    if a is ZERO:
        return ZERO
    quotient = polynomials.divide_exactly(a, b)
    if quotient is not None:
        return quotient
    a, b = polynomials.cancel(a, b)
    if isinstance(b, Const):
        return _floordiv_const(a, int(b.value))
    whole, rest = polynomials.split_divisible(a, b)
    if rest is ZERO:
        return whole
    return polynomials.add(whole, make_call("floordiv", (rest, b), "int"))


def _floordiv_const(a: Expr, d: int) -> Expr:
    if d < 0:  # a // -d -> -a // d
        a, d = polynomials.scale(a, -1), -d
    if d == 1:
        return a
    if isinstance(a, Const):
        return const(int(a.value) // d)
    constant, terms = polynomials.parts(a)
    # (d*q + r) // d -> q + r // d
    whole = make_sum(constant // d, tuple([(m, c // d) for m, c in terms if c % d == 0]))
    left = tuple([(m, c) for m, c in terms if c % d])
    if not left:
        return whole
    constant %= d
    divisor = math.gcd(d, *[c for _, c in left])
    if divisor > 1:  # (g*x + c) // (g*d) -> (x + c//g) // d
        left = tuple([(m, c // divisor) for m, c in left])
        constant, d = constant // divisor, d // divisor
    rest = make_sum(constant, left)
    if d == 1:
        return polynomials.add(whole, rest)
    if isinstance(rest, Call) and rest.op == "floordiv" and isinstance(rest.operands[1], Const):
        inner = int(rest.operands[1].value)  # (x // c) // d -> x // (c*d)
        return polynomials.add(whole, _floordiv_const(rest.operands[0], inner * d))
    return polynomials.add(whole, make_call("floordiv", (rest, const(d)), "int"))


def mod(left: ExprLike, right: ExprLike) -> Expr:
    """`left % right`"""
    a, b, integers = _numbers(left, right)
    if isinstance(b, Const) and b.value == 0:
        raise ZeroDivisionError(f"{a} modulo zero")
    if not integers:
        return _fold("fmod", (a, b), "float")
    if isinstance(b, Const):
        return _mod_const(a, int(b.value))
    if a is ZERO or polynomials.divide_exactly(a, b) is not None:
        return ZERO
    _, rest = polynomials.split_divisible(a, b)
    if rest is ZERO:
        return ZERO
    return make_call("mod", (rest, b), "int")


def _mod_const(a: Expr, d: int) -> Expr:
    if d < 0:  # a % -d -> -(-a % d)
        return polynomials.scale(_mod_const(polynomials.scale(a, -1), -d), -1)
    if d == 1:
        return ZERO
    if isinstance(a, Const):
        return const(int(a.value) % d)
    constant, terms = polynomials.parts(a)
    rest = make_sum(constant % d, tuple([(m, c % d) for m, c in terms if c % d]))
    if isinstance(rest, Const):
        return rest
    constant, terms = polynomials.parts(rest)
    for monomial, coefficient in terms:
        # (c*(x % m) + y) % d -> (c*x + y) % d when d divides c*m
        if isinstance(monomial, Call) and monomial.op == "mod" and isinstance(monomial.operands[1], Const):
            x, modulus = monomial.operands[0], int(monomial.operands[1].value)
            if coefficient * modulus % d == 0:
                difference = polynomials.add(x, polynomials.scale(monomial, -1))
                return _mod_const(polynomials.add(rest, polynomials.scale(difference, coefficient)), d)
    divisor = math.gcd(d, constant, *[c for _, c in terms])
    if divisor > 1:  # (g*x) % (g*d) -> g * (x % d)
        rest = make_sum(constant // divisor, tuple([(m, c // divisor) for m, c in terms]))
        return polynomials.scale(_mod_const(rest, d // divisor), divisor)
    return make_call("mod", (rest, const(d)), "int")


def minimum(*operands: ExprLike) -> Expr:
    """`min(*operands)`"""
    return _extremum("min", operands)


def maximum(*operands: ExprLike) -> Expr:
    """`max(*operands)`"""
    return _extremum("max", operands)


def _extremum(op: str, operands: Iterable[ExprLike]) -> Expr:
    exprs = [_number(operand) for operand in operands]
    if any([expr.kind != "int" for expr in exprs]):
        # min and max of floats depend on the order where NaN or signed zeros are involved, and the result has the
        # type of whichever operand wins, so mixtures of int and float are not expressible.
        if any([expr.kind != "float" for expr in exprs]):
            raise TypeError(f"{op} of ints and floats: convert the ints first, with to_float")
        return exprs[0] if len(exprs) == 1 else _fold("f" + op, tuple(exprs), "float")
    flat: list[Expr] = []
    for expr in exprs:
        flat.extend(expr.operands if isinstance(expr, Call) and expr.op == op else (expr,))
    kept: list[Expr] = []
    for expr in flat:
        beaten = False
        for i, other in enumerate(kept):
            difference = polynomials.add(expr, polynomials.scale(other, -1))
            if isinstance(difference, Const):
                if (difference.value < 0) == (op == "min"):
                    kept[i] = expr
                beaten = True
                break
        if not beaten:
            kept.append(expr)
    if len(kept) == 1:
        return kept[0]
    return make_call(op, tuple(sorted(kept, key=lambda expr: expr.serial)), "int")


def absolute(operand: ExprLike) -> Expr:
    """`abs(operand)`"""
    a = _number(operand)
    if a.kind == "float":
        return _fold("fabs", (a,), "float")
    return _fold("abs", (polynomials.with_positive_lead(a)[0],), "int")


def lshift(left: ExprLike, right: ExprLike) -> Expr:
    """`left << right`"""
    a, b = _integers("<<", left, right)
    return mul(a, 1 << int(b.value)) if isinstance(b, Const) else make_call("lshift", (a, b), "int")


def rshift(left: ExprLike, right: ExprLike) -> Expr:
    """`left >> right`"""
    a, b = _integers(">>", left, right)
    return floordiv(a, 1 << int(b.value)) if isinstance(b, Const) else make_call("rshift", (a, b), "int")


def bitand(left: ExprLike, right: ExprLike) -> Expr:
    """`left & right`"""
    return _bitwise("bitand", left, right)


def bitor(left: ExprLike, right: ExprLike) -> Expr:
    """`left | right`"""
    return _bitwise("bitor", left, right)


def bitxor(left: ExprLike, right: ExprLike) -> Expr:
    """`left ^ right`"""
    return _bitwise("bitxor", left, right)


def _bitwise(op: str, left: ExprLike, right: ExprLike) -> Expr:
    a, b = _integers(op, left, right)
    return _fold(op, (a, b) if a.serial <= b.serial else (b, a), "int")


def _integers(op: str, left: ExprLike, right: ExprLike) -> tuple[Expr, Expr]:
    a, b, integers = _numbers(left, right)
    if not integers:
        raise TypeError(f"{op} needs integers, got {a.kind} and {b.kind}")
    return a, b


def to_float(operand: ExprLike) -> Expr:
    """`float(operand)`"""
    a = _number(operand)
    return a if a.kind == "float" else _fold("float", (a,), "float")


def floor(operand: ExprLike) -> Expr:
    """`math.floor(operand)`"""
    return _to_int("floor", operand)


def ceil(operand: ExprLike) -> Expr:
    """`math.ceil(operand)`"""
    return _to_int("ceil", operand)


def trunc(operand: ExprLike) -> Expr:
    """`math.trunc(operand)`, which is also `int(operand)`"""
    return _to_int("trunc", operand)


def _to_int(op: str, operand: ExprLike) -> Expr:
    a = _number(operand)
    if a.kind == "int":
        return a
    # A conversion from int and back is only exact below 2**53, so `floor(float(n))` is not simplified to `n`.
    return _fold(op, (a,), "int")


def round_(operand: ExprLike, digits: ExprLike | None = None) -> Expr:
    """`round(operand)` to an int, or `round(operand, digits)` to a float"""
    a = _number(operand)
    if digits is None:
        return _to_int("round", a)
    if a.kind == "int":
        raise TypeError("round of an integer to a number of digits is not expressible")
    return _fold("round", (a, _number(digits)), "float")


def is_integer(operand: ExprLike) -> Expr:
    """`float(operand).is_integer()`"""
    return _fold("is_integer", (to_float(operand),), "bool")


def math_call(name: str, operand: ExprLike) -> Expr:
    """`math.name(operand)` for the functions in `operations.MATH_FUNCTIONS`"""
    return _fold(name, (_number(operand),), "float")


# The table of operations names the constructors above, which fold through it.
from firesteel.shapes import operations  # noqa: E402
