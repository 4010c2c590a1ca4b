"""Hurwitz's zeta function and, by it, the derivatives of the digamma function, in float64."""

from __future__ import annotations

import math

import torch

from ..ir import Value
from .elementwise import elementwise
from .scalars import add, cast, compare, div, either, lift, mul, op, sub, where

_TERMS = 12
"""Terms that are added one by one before the series of Euler and Maclaurin takes over."""
# (2k)! / B(2k)
_FACTORIALS = (
    12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1892437580.3183793, 74724249600.0, -2950130727918.1642,
    116467828143500.67, -4597978722407473.0,
)  # fmt: skip


def positive_zeta(x: Value, q: Value) -> Value:
    """The sum of ``(q + k) ** -x`` over all k from 0, for x above 1 and q above 0."""
    power = op("neg", x)
    total = op("pow", q, power)
    at = q
    for _ in range(_TERMS - 1):
        at = add(at, 1.0)
        total = add(total, op("pow", at, power))
    at = add(at, 1.0)
    last = op("pow", at, power)
    # nothing more to add, when products of a large x would overflow
    done, enough = compare("lt", last, mul(total, 1e-17)), total
    # the rest: an integral, half a term, and derivatives at its start
    total = add(add(total, div(mul(last, at), sub(x, 1.0))), mul(last, 0.5))
    rising, scale = x, div(last, at)
    square = mul(at, at)
    for k, factorial in enumerate(_FACTORIALS):
        total = add(total, div(mul(rising, scale), factorial))
        rising = mul(mul(rising, add(x, float(2 * k + 1))), add(x, float(2 * k + 2)))
        scale = div(scale, square)
    return where(done, enough, total)


def zeta(x: Value, q: Value) -> Value:
    """Hurwitz's zeta function as eager has it: for negative q the same sum, which needs a whole x.

    With f the fraction of q, the terms before f are those of -x at 1 - f, up to 1 - q:
    zeta(x, q) = zeta(x, f) + (-1)**x * (zeta(x, 1 - f) - zeta(x, 1 - q))
    """
    whole_q = compare("eq", q, op("floor", q))
    below = compare("lt", q, 0)
    fraction = where(below, sub(q, op("floor", q)), q)
    fraction = where(compare("gt", fraction, 0), fraction, 1.0)
    mirrored = sub(positive_zeta(x, sub(1.0, where(below, fraction, 0.0))),
                   positive_zeta(x, where(below, sub(1.0, q), 1.0)))
    half = mul(x, 0.5)
    even = compare("eq", op("floor", half), half)
    signed = where(even, mirrored, op("neg", mirrored))
    value = positive_zeta(x, fraction)
    # an infinite term, where other terms of an infinite x are no numbers
    endless = op("and", even, op("isinf", value))
    value = where(op("and", below, compare("eq", endless, False)), add(value, signed), value)
    value = where(op("and", below, compare("ne", x, op("floor", x))), math.nan, value)
    at_pole = op("and", compare("le", q, 0), whole_q)
    value = where(at_pole, math.inf, where(op("isnan", x), math.nan, value))  # in this order, as eager asks
    unknown = either(op("isnan", q), compare("lt", x, 1.0))
    return where(compare("eq", x, 1.0), math.inf, where(unknown, math.nan, value))


@elementwise("aten.special_zeta.default", "aten.special_zeta.other_scalar", "aten.special_zeta.self_scalar")
def special_zeta(a: Value, b: Value) -> Value:
    return cast(zeta(cast(a, torch.float64), cast(b, torch.float64)), a.dtype)


def trigamma(x: Value) -> Value:
    """The derivative of the digamma function, in the steps of eager, whose rounding shows near its poles."""
    reflected = compare("lt", x, 0.5)
    sine = op("sin", mul(x, math.pi))
    start = where(reflected, op("neg", div(math.pi**2, mul(sine, sine))), 0.0)
    at, total = where(reflected, sub(1.0, x), x), start
    for _ in range(6):
        total = add(total, div(1.0, mul(at, at)))
        at = add(at, 1.0)
    inverse = div(1.0, mul(at, at))
    series = sub(1 / 6, mul(inverse, sub(1 / 30, mul(inverse, 1 / 42))))
    series = add(add(div(1.0, mul(at, 2.0)), 1.0), mul(inverse, series))
    total = add(total, div(series, at))
    return where(reflected, op("neg", total), total)


def polygamma(order: int, x: Value) -> Value:
    """The derivative of that order, at least 1, of the digamma function."""
    if order == 1:
        return trigamma(x)
    q = cast(x, torch.float64)
    factor = math.factorial(order) * (1.0 if order % 2 else -1.0)
    return cast(mul(zeta(lift(float(order + 1), torch.float64), q), factor), x.dtype)
