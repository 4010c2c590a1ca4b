"""Integer polynomials: the algebra behind `Sum` and `Product` nodes.

A polynomial is any expression of kind "int" seen as a constant plus terms; every node that is not a `Sum`, `Product` or
`Const` is an indeterminate of it.
"""

from __future__ import annotations

import math

from firesteel.shapes.expr import ONE, ZERO, Const, Expr, Product, Sum, make_product, make_sum

Terms = tuple[tuple[Expr, int], ...]
_MAX_DIVISION_STEPS = 32


def _by_serial(term: tuple[Expr, int]) -> int:
    return term[0].serial


def parts(expr: Expr) -> tuple[int, Terms]:
    """The constant and the terms."""
    if type(expr) is Sum:
        return expr.const, expr.terms
    if type(expr) is Const:
        return int(expr.value), ()
    return 0, ((expr, 1),)


def term_count(expr: Expr) -> int:
    """How many summands, the constant included."""
    return len(expr.terms) + bool(expr.const) if isinstance(expr, Sum) else 1


def factors_of(monomial: Expr) -> Terms:
    """The powers in a monomial."""
    if isinstance(monomial, Product):
        return monomial.factors
    return () if monomial is ONE else ((monomial, 1),)


def bases(monomial: Expr) -> list[Expr]:
    """The atoms of a monomial."""
    return [base for base, _ in factors_of(monomial)]


def from_terms(constant: int, terms: dict[Expr, int]) -> Expr:
    """The polynomial of these terms, in any order, zeros allowed."""
    kept = [term for term in terms.items() if term[1]]
    if len(kept) > 1:
        kept.sort(key=_by_serial)
    return make_sum(constant, tuple(kept))


def add(a: Expr, b: Expr) -> Expr:
    """`a + b`"""
    constant, terms = parts(a)
    other_constant, others = parts(b)
    if not others:
        return make_sum(constant + other_constant, terms) if other_constant else a
    if not terms:
        return make_sum(constant + other_constant, others) if constant else b
    merged = dict(terms)
    for monomial, coefficient in others:
        merged[monomial] = merged.get(monomial, 0) + coefficient
    return from_terms(constant + other_constant, merged)


def add_const(a: Expr, number: int) -> Expr:
    """`a + number`"""
    constant, terms = parts(a)
    return make_sum(constant + number, terms)


def scale(a: Expr, factor: int) -> Expr:
    """`a * factor`"""
    if factor == 1:
        return a
    if factor == 0:
        return ZERO
    constant, terms = parts(a)
    return make_sum(constant * factor, tuple([(monomial, c * factor) for monomial, c in terms]))


def _multiply_monomials(a: Expr, b: Expr) -> Expr:
    merged = dict(factors_of(a))
    for base, exponent in factors_of(b):
        merged[base] = merged.get(base, 0) + exponent
    return make_product(tuple(sorted(merged.items(), key=_by_serial)))


def multiply(a: Expr, b: Expr) -> Expr:
    """`a * b`, expanded"""
    constant, terms = parts(a)
    other_constant, others = parts(b)
    merged: dict[Expr, int] = {}
    for monomial, c in terms:
        for other, d in others:
            product = _multiply_monomials(monomial, other)
            merged[product] = merged.get(product, 0) + c * d
    if other_constant:
        for monomial, c in terms:
            merged[monomial] = merged.get(monomial, 0) + c * other_constant
    if constant:
        for other, d in others:
            merged[other] = merged.get(other, 0) + d * constant
    return from_terms(constant * other_constant, merged)


def _divide_monomials(a: Expr, b: Expr) -> Expr | None:
    remaining = dict(factors_of(a))
    for base, exponent in factors_of(b):
        left = remaining.get(base, 0) - exponent
        if left < 0:
            return None
        if left:
            remaining[base] = left
        else:
            del remaining[base]
    return make_product(tuple(remaining.items()))


def split_divisible(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """`(q, r)` with `a = q*b + r`, where q takes the terms that the single term `b` divides; (0, a) otherwise."""
    b_constant, b_terms = parts(b)
    if b_constant or len(b_terms) != 1:
        return ZERO, a
    divisor, coefficient = b_terms[0]
    constant, terms = parts(a)
    whole: dict[Expr, int] = {}
    offset = 0
    rest: list[tuple[Expr, int]] = []
    for monomial, c in terms:
        quotient = _divide_monomials(monomial, divisor) if c % coefficient == 0 else None
        if quotient is None:
            rest.append((monomial, c))
        elif quotient is ONE:
            offset += c // coefficient
        else:
            whole[quotient] = c // coefficient
    if len(rest) == len(terms):
        return ZERO, a
    return from_terms(offset, whole), make_sum(constant, tuple(rest))


def divide_exactly(a: Expr, b: Expr) -> Expr | None:
    """The polynomial q with `a = q*b`, or None when there is none.

    >>> from firesteel.shapes.expr import symbol
    >>> s0, s1 = symbol("s0"), symbol("s1")
    >>> print(divide_exactly(s0 * s1 + s1 + s0 + 1, s1 + 1))
    s0 + 1
    """
    if a is b:
        return ONE
    _, b_terms = parts(b)
    if term_count(b) == 1 and len(b_terms) == 1:
        whole, rest = split_divisible(a, b)
        return whole if rest is ZERO else None
    a_bases = {base for monomial, _ in parts(a)[1] for base, _ in factors_of(monomial)}
    b_bases = {base for monomial, _ in b_terms for base, _ in factors_of(monomial)}
    if not b_bases <= a_bases:
        return None
    order = sorted(a_bases, key=lambda base: base.serial)
    lead, lead_coefficient = _leading_term(b, order)
    quotient: Expr = ZERO
    for _ in range(_MAX_DIVISION_STEPS):
        if a is ZERO:
            return quotient
        monomial, coefficient = _leading_term(a, order)
        factor = _divide_monomials(monomial, lead) if coefficient % lead_coefficient == 0 else None
        if factor is None:
            return None
        step = scale(factor, coefficient // lead_coefficient)
        quotient = add(quotient, step)
        a = add(a, scale(multiply(step, b), -1))
    return None


def _leading_term(a: Expr, order: list[Expr]) -> tuple[Expr, int]:
    """The largest term by degree, then lexicographically: an order that multiplication respects."""
    constant, terms = parts(a)
    if not terms:
        return ONE, constant

    def rank(term: tuple[Expr, int]) -> tuple[int, list[int]]:
        powers = dict(factors_of(term[0]))
        return sum(powers.values()), [powers.get(base, 0) for base in order]

    return max(terms, key=rank)


def common_factor(monomials: list[Expr]) -> Expr:
    """The largest monomial that divides all of them."""
    common = dict(factors_of(monomials[0]))
    for monomial in monomials[1:]:
        powers = dict(factors_of(monomial))
        common = {base: min(exp, powers[base]) for base, exp in common.items() if base in powers}
    return make_product(tuple(common.items()))


def cancel(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """`a` and `b` divided by their greatest common constant and monomial; the quotient a/b stays the same."""
    a_constant, a_terms = parts(a)
    b_constant, b_terms = parts(b)
    divisor = math.gcd(a_constant, b_constant, *[c for _, c in a_terms], *[c for _, c in b_terms])
    common: Expr = ONE
    if not a_constant and not b_constant:
        common = common_factor([monomial for monomial, _ in a_terms + b_terms])
    if b_terms and (b_terms[0][1] < 0):
        divisor = -divisor
    if divisor != 1 or common is not ONE:
        shared = scale(common, divisor)
        if isinstance(shared, Const):
            a, b = divide_const(a, int(shared.value)), divide_const(b, int(shared.value))
        else:
            a, b = split_divisible(a, shared)[0], split_divisible(b, shared)[0]
    return a, b


def divide_const(a: Expr, divisor: int) -> Expr:
    """`a / divisor` where the divisor divides every coefficient."""
    constant, terms = parts(a)
    return make_sum(constant // divisor, tuple([(monomial, c // divisor) for monomial, c in terms]))


def with_positive_lead(a: Expr) -> tuple[Expr, int]:
    """`(a, 1)` or `(-a, -1)`: the one of the two whose first coefficient is positive."""
    _, terms = parts(a)
    if terms and terms[0][1] < 0:
        return scale(a, -1), -1
    return a, 1


def primitive(a: Expr) -> tuple[Expr, int, int]:
    """`(p, k, c)` with `a = k*p + c`, where p has no constant, coprime coefficients and a positive first one."""
    constant, terms = parts(a)
    if not terms:
        return ZERO, 0, constant
    k = math.gcd(*[c for _, c in terms])
    if terms[0][1] < 0:
        k = -k
    return make_sum(0, tuple([(monomial, c // k) for monomial, c in terms])), k, constant
