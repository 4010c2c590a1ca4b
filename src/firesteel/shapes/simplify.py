"""Simplification under known ranges: what index arithmetic in kernels needs.

before: (8*i + j) // 8 and (8*i + j) % 8, with 0 <= j < 8
after:  i and j
"""

from __future__ import annotations

from firesteel.shapes import arithmetic, polynomials
from firesteel.shapes.expr import ZERO, Call, Expr, Sum, const, rebuild
from firesteel.shapes.facts import Facts
from firesteel.shapes.proofs import expand_remainders
from firesteel.shapes.relations import with_remainders


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
        if isinstance(node, Sum):
            return _combine(node, facts)
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
            case "ifelse":
                return _choose(node, facts)
        if node.kind == "bool":
            decided = facts.decide(node)
            return None if decided is None else const(decided)
        return None

    return rebuild(facts.replace(expr), rewrite, {})


def _divide(node: Call, facts: Facts) -> Expr | None:
    dividend, divisor = node.operands
    # Where the divisor is 0 there is no value.
    if facts.interval(divisor).lower < 0 or divisor is ZERO:
        return None
    quotient = facts.interval(node if node.op == "floordiv" else arithmetic.floordiv(dividend, divisor))
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


def _choose(node: Call, facts: Facts) -> Expr | None:
    decided = facts.decide(node.operands[0])
    return None if decided is None else node.operands[1 if decided else 2]


def _combine(node: Sum, facts: Facts) -> Expr | None:
    """Join a quotient and a remainder of the same division: the shorter of the forms that say the same."""
    forms = [node, with_remainders(node), expand_remainders(node, facts), _join_digits(node, facts)]
    best = min(forms, key=polynomials.term_count)
    return None if polynomials.term_count(best) == polynomials.term_count(node) else best


def _join_digits(node: Sum, facts: Facts) -> Expr:
    """d*((x//d) % m) + x % d -> x % (d*m)"""
    coefficients = dict(node.terms)
    for monomial, c in node.terms:
        if not isinstance(monomial, Call) or monomial.op != "mod":
            continue
        x, d = monomial.operands
        if facts.interval(d).lower < 0 or d is ZERO:
            continue
        # The upper digit is (x//d) % m for some m; its weight is c*d.
        quotient = arithmetic.floordiv(x, d)
        for upper in coefficients:
            for digit in polynomials.bases(upper):
                if not isinstance(digit, Call) or digit.op != "mod" or digit.operands[0] is not quotient:
                    continue
                m = digit.operands[1]
                weighted = polynomials.scale(arithmetic.mul(d, digit), c)
                if facts.interval(m).lower < 0 or weighted is not polynomials.scale(upper, coefficients[upper]):
                    continue
                both = polynomials.add(weighted, polynomials.scale(monomial, c))
                joined = polynomials.scale(arithmetic.mod(x, arithmetic.mul(d, m)), c)
                return polynomials.add(polynomials.add(node, polynomials.scale(both, -1)), joined)
    return node
