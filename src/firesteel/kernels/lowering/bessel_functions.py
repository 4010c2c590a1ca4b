"""Bessel functions and the scaled complementary error function, in float64, by Chebyshev series."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..ir import Value
from . import bessel_tables as tables
from .context import Lowering
from .elementwise import pointwise
from .registry import lowering
from .scalars import add, cast, compare, div, mul, neg, op, sub, where
from .tensors import Tensor

Function = Callable[[Value], Value]


def chebyshev(t: Value, coefficients: tuple[float, ...]) -> Value:
    """The series of Chebyshev polynomials at ``t`` in [-1, 1], by Clenshaw's recurrence."""
    twice = add(t, t)
    later: Value | None = None
    last: Value | None = None
    for coefficient in reversed(coefficients[1:]):
        term: Any = coefficient if last is None else add(mul(twice, last), coefficient)
        if later is not None:
            term = sub(term, later)
        elif last is None:
            term = where(compare("eq", t, t), coefficient, t)  # a constant in every lane; NaN stays
        later, last = last, term
    assert last is not None
    total = add(mul(t, last), coefficients[0])
    return total if later is None else sub(total, later)


def _on(x: Value, upper: float) -> Value:
    """[0, upper] mapped to [-1, 1]."""
    return sub(mul(x, 2 / upper), 1.0)


def _reciprocal(x: Value, factor: float) -> Value:
    """``factor / x`` for large ones, which is at most 1, mapped to [-1, 1]."""
    return sub(div(2 * factor, x), 1.0)


def _modified_first(x: Value, near: tuple[float, ...], far: tuple[float, ...], odd: bool) -> Value:
    """``exp(-|x|) I(x)``."""
    size = op("abs", x)
    small = compare("le", size, 8.0)
    low = chebyshev(_on(op("min", size, 8.0), 8.0), near)
    if odd:
        low = mul(low, size)
    large = op("max", size, 8.0)
    high = div(chebyshev(_reciprocal(large, 8.0), far), op("sqrt", large))
    value = where(small, low, high)
    return where(compare("lt", x, 0), neg(value), value) if odd else value


def i0e(x: Value) -> Value:
    return _modified_first(x, tables.I0_NEAR, tables.I0_FAR, False)


def i1e(x: Value) -> Value:
    return _modified_first(x, tables.I1_NEAR, tables.I1_FAR, True)


def _grown(scaled: Function) -> Function:
    """Without the factor ``exp(-|x|)``; in two steps, since the exponential alone may be infinite."""

    def function(x: Value) -> Value:
        half = op("exp", mul(op("abs", x), 0.5))
        return mul(mul(scaled(x), half), half)

    return function


i0, i1 = _grown(i0e), _grown(i1e)


def _modified_second(order: int, scaled: bool) -> Function:
    near, far, first = ((tables.K0_NEAR, tables.K0_FAR, i0), (tables.K1_NEAR, tables.K1_FAR, i1))[order]

    def function(x: Value) -> Value:
        low_x = op("min", x, 2.0)
        series = chebyshev(_on(mul(low_x, low_x), 4.0), near)
        logarithm = mul(op("log", mul(low_x, 0.5)), first(low_x))
        low = sub(series, logarithm) if order == 0 else add(div(series, low_x), logarithm)
        high_x = op("max", x, 2.0)
        high = div(chebyshev(_reciprocal(high_x, 2.0), far), op("sqrt", high_x))
        if scaled:
            low = mul(low, op("exp", low_x))
        else:
            high = mul(high, op("exp", neg(high_x)))
        value = where(compare("le", x, 2.0), low, high)
        return where(compare("eq", x, 0), math.inf, where(compare("lt", x, 0), math.nan, value))

    return function


def _far(x: Value, order: int, second: bool) -> Value:
    """J or Y of large arguments, by amplitude and phase."""
    p, q, shift = ((tables.P0, tables.Q0, math.pi / 4), (tables.P1, tables.Q1, 3 * math.pi / 4))[order]
    x = op("max", x, 8.0)
    ratio = div(8.0, x)
    t = sub(mul(mul(ratio, ratio), 2.0), 1.0)
    amplitude, quadrature = chebyshev(t, p), mul(ratio, chebyshev(t, q))
    sine, cosine = op("sin", sub(x, shift)), op("cos", sub(x, shift))
    wave = (add(mul(amplitude, sine), mul(quadrature, cosine)) if second
            else sub(mul(amplitude, cosine), mul(quadrature, sine)))
    return mul(wave, op("sqrt", div(2 / math.pi, x)))


def _near(x: Value, table: tuple[float, ...]) -> Value:
    x = op("min", x, 8.0)
    return chebyshev(_on(mul(x, x), 64.0), table)


def j0(x: Value) -> Value:
    size = op("abs", x)
    return where(compare("le", size, 8.0), _near(size, tables.J0_NEAR), _far(size, 0, False))


def j1(x: Value) -> Value:
    size = op("abs", x)
    value = where(compare("le", size, 8.0), mul(_near(size, tables.J1_NEAR), size), _far(size, 1, False))
    return where(compare("lt", x, 0), neg(value), value)


def _second(order: int) -> Function:
    def function(x: Value) -> Value:
        low_x = op("min", x, 8.0)
        logarithm = op("log", low_x)
        if order == 0:
            low = add(_near(x, tables.Y0_NEAR), mul(mul(logarithm, 2 / math.pi), _near(x, tables.J0_NEAR)))
        else:
            inner = sub(mul(logarithm, mul(_near(x, tables.J1_NEAR), low_x)), div(1.0, low_x))
            low = add(mul(_near(x, tables.Y1_NEAR), low_x), mul(inner, 2 / math.pi))
        value = where(compare("le", x, 8.0), low, _far(x, order, True))
        return where(compare("eq", x, 0), -math.inf, where(compare("lt", x, 0), math.nan, value))

    return function


def spherical_j0(x: Value) -> Value:
    """sin(x) / x"""
    value = where(compare("eq", x, 0), 1.0, div(op("sin", x), x))
    return where(op("isinf", x), 0.0, value)


def erfcx(x: Value) -> Value:
    """``exp(x*x) erfc(x)``"""
    size = op("abs", x)
    # the variable goes to 1 for large arguments, also for infinite ones
    t = sub(1.0, div(7.5, add(size, 3.75)))
    positive = div(chebyshev(t, tables.ERFCX), add(add(size, size), 1.0))
    # 2 exp(x^2) - erfcx(-x), with the square split so that the exponential is exact for its low part too
    high = cast(cast(x, torch.float32), torch.float64)
    low = sub(x, high)
    square = mul(op("exp", mul(high, high)), op("exp", mul(add(high, x), low)))
    negative = sub(add(square, square), positive)
    return where(compare("lt", x, 0), where(compare("lt", x, -27.0), math.inf, negative), positive)


def log_ndtr(x: Value) -> Value:
    """The logarithm of the normal distribution function."""
    t = mul(x, math.sqrt(0.5))
    tail = sub(op("log", mul(erfcx(neg(t)), 0.5)), mul(t, t))
    middle = op("log1p", mul(op("erfc", t), -0.5))
    return where(compare("lt", x, -1.0), tail, middle)


_FUNCTIONS: dict[str, Function] = {
    "i0": i0, "special_i0e": i0e, "special_i1": i1, "special_i1e": i1e,
    "special_modified_bessel_i0": i0, "special_modified_bessel_i1": i1,
    "special_modified_bessel_k0": _modified_second(0, False), "special_modified_bessel_k1": _modified_second(1, False),
    "special_scaled_modified_bessel_k0": _modified_second(0, True),
    "special_scaled_modified_bessel_k1": _modified_second(1, True),
    "special_spherical_bessel_j0": spherical_j0, "special_erfcx": erfcx, "special_log_ndtr": log_ndtr,
}  # fmt: skip


_ROUGH_IN_EAGER: dict[str, Function] = {
    "special_bessel_j0": j0, "special_bessel_j1": j1, "special_bessel_y0": _second(0), "special_bessel_y1": _second(1),
}  # fmt: skip
"""In float64 eager's results are right to seven digits only, and these would not be close to them."""


def _lower(function: Function, rough: bool) -> Any:
    def in_double(a: Value) -> Value:
        return cast(function(cast(a, torch.float64)), a.dtype)

    def lower(ctx: Lowering, x: Tensor) -> Tensor:
        if rough and ctx.out.dtype is torch.float64:
            return ctx.unsupported("eager is less exact")
        return pointwise(ctx, in_double, x)

    return lower


for _name, _function in (_FUNCTIONS | _ROUGH_IN_EAGER).items():
    lowering(f"aten.{_name}.default")(_lower(_function, _name in _ROUGH_IN_EAGER))
