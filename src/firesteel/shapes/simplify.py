"""Simplification under known ranges: what index arithmetic in kernels needs.

before: (8*i + j) // 8 and (8*i + j) % 8, with 0 <= j < 8
after:  i and j
"""

from __future__ import annotations

from firesteel.shapes import arithmetic, polynomials
from firesteel.shapes.expr import Call, Expr, const, rebuild
from firesteel.shapes.facts import Facts


def simplify_under_ranges(expr: Expr, facts: Facts) -> Expr:
    """The expression with equalities applied and with divisions, remainders, min and max resolved where ranges allow.

    >>> from firesteel.shapes.expr import symbol
    >>> i, j, facts = symbol("i"), symbol("j"), Facts()
    >>> facts.add(j >= 0)
    >>> facts.add(j < 8)
    >>> print(simplify_under_ranges((8 * i + j) // 8, facts), simplify_under_ranges((8 * i + j) % 8, facts))
    i j
    """

    def rewrite(node: Expr) -> Expr | None:
        if not isinstance(node, Call):
            return None
        match node.op:
            case "floordiv" | "mod":
                return _divide(node, facts)
            case "min" | "max":
                return _pick(node, facts)
            case "abs":
                interval = facts.interval(node.operands[0])
                if interval.lower >= 0:
                    return node.operands[0]
                return polynomials.scale(node.operands[0], -1) if interval.upper <= 0 else None
        if node.kind == "bool":
            decided = facts.decide(node)
            return None if decided is None else const(decided)
        return None

    return rebuild(facts.replace(expr), rewrite, {})


def _divide(node: Call, facts: Facts) -> Expr | None:
    dividend, divisor = node.operands
    if facts.interval(divisor).lower < 1:
        return None
    quotient = facts.interval(arithmetic.floordiv(dividend, divisor))
    if quotient.is_single:
        # x // d == q, so x % d == x - q*d
        whole = const(int(quotient.lower))
        if node.op == "floordiv":
            return whole
        return polynomials.add(dividend, arithmetic.mul(polynomials.scale(whole, -1), divisor))
    return None


def _pick(node: Call, facts: Facts) -> Expr | None:
    kept = list(node.operands)
    for candidate in node.operands:
        for other in node.operands:
            if other is not candidate and other in kept and candidate in kept:
                smaller = facts.decide(candidate <= other)
                if smaller is (node.op == "min") and smaller is not None:
                    kept.remove(other)
    if len(kept) == len(node.operands):
        return None
    return arithmetic.minimum(*kept) if node.op == "min" else arithmetic.maximum(*kept)
