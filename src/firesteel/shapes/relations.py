"""Constructors of comparisons and logic.

A comparison of integers becomes one of `p == 0`, `p != 0` and `p >= 0` with coprime coefficients, so that all spellings
of a condition are one expression:

    >>> from firesteel.shapes.expr import symbol
    >>> s0, s1 = symbol("s0"), symbol("s1")
    >>> (2 * s0 + 1 > 2 * s1) is (s1 <= s0)
    True

`not` is pushed inwards to the comparisons and disappears there, except for the order of floats (NaN is neither below
nor at least anything).
"""

from __future__ import annotations

import math

from firesteel.shapes import polynomials
from firesteel.shapes.expr import FALSE, TRUE, Call, Const, Expr, ExprLike, Sum, as_expr, const, make_call, make_sum

_NEGATION = {"eq0": "ne0", "ne0": "eq0", "eq": "ne", "ne": "eq"}


def _both_integers(a: Expr, b: Expr) -> bool:
    return a.kind == "int" and b.kind == "int"


def _difference(a: Expr, b: Expr) -> Expr:
    return polynomials.add(a, polynomials.scale(b, -1))


def _as_number(expr: Expr) -> Expr:
    return if_else(expr, 1, 0) if expr.kind == "bool" else expr


def eq(left: ExprLike, right: ExprLike) -> Expr:
    """`left == right`"""
    a, b = as_expr(left), as_expr(right)
    if _both_integers(a, b):
        return eq_zero(_difference(a, b))
    if isinstance(a, Const) and isinstance(b, Const):
        return const(a.value == b.value)
    if a.kind == "bool" and b.kind == "bool":
        if a is b:
            return TRUE
        for this, other in ((a, b), (b, a)):
            if isinstance(this, Const):
                return other if this.value else not_(other)
    elif a.kind == "bool" or b.kind == "bool":
        return eq(_as_number(a), _as_number(b))
    return make_call("eq", (a, b) if a.serial <= b.serial else (b, a), "bool")


def ne(left: ExprLike, right: ExprLike) -> Expr:
    """`left != right`"""
    return not_(eq(left, right))


def lt(left: ExprLike, right: ExprLike) -> Expr:
    """`left < right`"""
    a, b = _as_number(as_expr(left)), _as_number(as_expr(right))
    if _both_integers(a, b):
        return ge_zero(polynomials.add_const(_difference(b, a), -1))
    if isinstance(a, Const) and isinstance(b, Const):
        return const(a.value < b.value)
    return make_call("lt", (a, b), "bool")


def le(left: ExprLike, right: ExprLike) -> Expr:
    """`left <= right`"""
    a, b = _as_number(as_expr(left)), _as_number(as_expr(right))
    if _both_integers(a, b):
        return ge_zero(_difference(b, a))
    if isinstance(a, Const) and isinstance(b, Const):
        return const(a.value <= b.value)
    return make_call("le", (a, b), "bool")


def gt(left: ExprLike, right: ExprLike) -> Expr:
    """`left > right`"""
    return lt(right, left)


def ge(left: ExprLike, right: ExprLike) -> Expr:
    """`left >= right`"""
    return le(right, left)


def with_remainders(expr: Expr) -> Expr:
    """x - d*(x//d) -> x % d, which says more to ranges and to people."""
    if not isinstance(expr, Sum):
        return expr
    for monomial, coefficient in expr.terms:
        for atom in (monomial,) if isinstance(monomial, Call) else polynomials.bases(monomial):
            if not isinstance(atom, Call) or atom.op != "floordiv":
                continue
            x, d = atom.operands
            step = arithmetic.mul(d, atom)
            _, step_terms = polynomials.parts(step)
            if len(step_terms) != 1 or step_terms[0][0] is not monomial or coefficient % step_terms[0][1]:
                continue
            times = -coefficient // step_terms[0][1]
            own = dict(expr.terms)
            if all([own.get(part) == times * c for part, c in polynomials.parts(x)[1]]):
                difference = polynomials.add(x, polynomials.scale(step, -1))
                rest = polynomials.add(expr, polynomials.scale(difference, -times))
                return with_remainders(polynomials.add(rest, polynomials.scale(arithmetic.mod(x, d), times)))
    return expr


def eq_zero(expr: Expr) -> Expr:
    """`expr == 0` for an integer expression"""
    expr = with_remainders(expr)
    constant, terms = polynomials.parts(expr)
    if not terms:
        return const(constant == 0)
    divisor = math.gcd(*[c for _, c in terms])
    if constant % divisor:
        return FALSE
    if terms[0][1] < 0:
        divisor = -divisor
    return make_call("eq0", (polynomials.divide_const(expr, divisor),), "bool")


def ne_zero(expr: Expr) -> Expr:
    """`expr != 0` for an integer expression"""
    return not_(eq_zero(expr))


def ge_zero(expr: Expr) -> Expr:
    """`expr >= 0` for an integer expression"""
    expr = with_remainders(expr)
    constant, terms = polynomials.parts(expr)
    if not terms:
        return const(constant >= 0)
    divisor = math.gcd(*[c for _, c in terms]) if len(terms) > 1 else abs(terms[0][1])
    if divisor > 1:  # g*x + c >= 0 -> x + c//g >= 0
        constant //= divisor
        terms = tuple([(monomial, c // divisor) for monomial, c in terms])
        expr = make_sum(constant, terms)
    quotient, sign = terms[0]
    if len(terms) == 1 and isinstance(quotient, Call) and quotient.op == "floordiv":
        x, d = quotient.operands
        if isinstance(d, Const) and d.value:
            step = int(d.value)
            if sign > 0:  # x//d >= q -> x >= d*q
                return ge_zero(polynomials.add_const(x, constant * step))
            # x//d <= q -> x <= d*q + d - 1
            return ge_zero(polynomials.add_const(polynomials.scale(x, -1), constant * step + step - 1))
    return make_call("ge0", (expr,), "bool")


def truth(expr: ExprLike) -> Expr:
    """`bool(expr)`"""
    a = as_expr(expr)
    return a if a.kind == "bool" else ne(a, const(0) if a.kind == "int" else const(0.0))


def not_(operand: ExprLike) -> Expr:
    """`not operand`"""
    a = truth(operand)
    if isinstance(a, Const):
        return const(not a.value)
    if isinstance(a, Call):
        op, operands = a.op, a.operands
        if op in _NEGATION:
            return make_call(_NEGATION[op], operands, "bool")
        if op == "ge0":  # not p >= 0 -> -p - 1 >= 0
            return make_call("ge0", (polynomials.add_const(polynomials.scale(operands[0], -1), -1),), "bool")
        if op == "not":
            return operands[0]
        if op == "and":
            return or_(*[not_(operand) for operand in operands])
        if op == "or":
            return and_(*[not_(operand) for operand in operands])
    return make_call("not", (a,), "bool")


def and_(*operands: ExprLike) -> Expr:
    """True when all operands are"""
    return _junction("and", operands, neutral=TRUE, absorbing=FALSE)


def or_(*operands: ExprLike) -> Expr:
    """True when any operand is"""
    return _junction("or", operands, neutral=FALSE, absorbing=TRUE)


def _junction(op: str, operands: tuple[ExprLike, ...], neutral: Const, absorbing: Const) -> Expr:
    kept: dict[Expr, None] = {}
    for operand in operands:
        expr = truth(operand)
        for part in expr.operands if isinstance(expr, Call) and expr.op == op else (expr,):
            if part is absorbing:
                return absorbing
            if part is not neutral:
                kept[part] = None
    for part in kept:
        if not_(part) in kept:
            return absorbing
    if not kept:
        return neutral
    if len(kept) == 1:
        return next(iter(kept))
    return make_call(op, tuple(sorted(kept, key=lambda part: part.serial)), "bool")


def if_else(condition: ExprLike, then: ExprLike, otherwise: ExprLike) -> Expr:
    """`then if condition else otherwise`; both branches have one kind"""
    test, a, b = truth(condition), as_expr(then), as_expr(otherwise)
    if isinstance(test, Const):
        return a if test.value else b
    if a is b:
        return a
    if a.kind != b.kind:
        raise TypeError(f"the branches of a choice must have one kind, got {a.kind} and {b.kind}")
    if a.kind == "bool":
        return or_(and_(test, a), and_(not_(test), b))
    return make_call("ifelse", (test, a, b), a.kind)


# The constructors of arithmetic need conditions and the other way round.
from firesteel.shapes import arithmetic  # noqa: E402


def sides(expr: Expr) -> tuple[Expr, Expr]:
    """What is compared when an expression is compared with 0, without negative terms: their difference may need more
    bits than they do.

    >>> from firesteel.shapes.expr import symbol
    >>> sides(symbol("a") - 3 * symbol("b") - 2)
    (a, 3*b + 2)
    """
    if not isinstance(expr, Sum):
        return expr, const(0)
    left: Expr = const(max(expr.const, 0))
    right: Expr = const(max(-expr.const, 0))
    for monomial, coefficient in expr.terms:
        if coefficient > 0:
            left = left + monomial * coefficient
        else:
            right = right - monomial * coefficient
    return left, right
