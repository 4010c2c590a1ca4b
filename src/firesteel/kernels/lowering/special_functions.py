"""Special functions that no library has as a vector function: made of elementary ones, in float64.

For float32 and shorter that leaves only the last rounding; for float64 the error is some units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ..ir import Value
from .context import Lowering
from .elementwise import elementwise, pointwise
from .registry import lowering
from .scalars import add, cast, compare, div, mul, neg, op, sub, where
from .tensors import Tensor
from .zeta_functions import polygamma as derivative

_STEPS = 10
# B(2k) / 2k, the coefficients of the asymptotic series of the digamma function.
_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
# Polynomials in w = -log(1 - x^2) for erfinv(x) / x, near the middle and in the tails (M. Giles, "Approximating the
# erfinv function", 2010): seven digits, which Newton's method doubles at each step.
_MIDDLE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
           -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
         1.00167406, 2.83297682)  # fmt: skip


def _polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    """The highest power's coefficient first."""
    result = mul(x, coefficients[0])
    for coefficient in coefficients[1:-1]:
        result = mul(add(result, coefficient), x)
    return add(result, coefficients[-1])


def digamma(x: Value) -> Value:
    """The derivative of log(gamma(x)), of a float64."""
    # psi(x) = psi(1 - x) - pi / tan(pi * x)
    reflected = compare("lt", x, 0)
    fraction = sub(x, op("trunc", x))
    start = where(reflected, sub(1.0, x), x)
    # psi(x) = psi(x + 1) - 1 / x
    at, total = start, sub(start, start)
    for _ in range(_STEPS):
        small = compare("lt", at, float(_STEPS))
        total = where(small, sub(total, div(1.0, at)), total)
        at = where(small, add(at, 1.0), at)
    inverse = div(1.0, mul(at, at))
    series = mul(inverse, _polynomial(inverse, tuple(reversed(_BERNOULLI))))
    value = add(total, sub(sub(op("log", at), div(0.5, at)), series))
    value = where(compare("eq", start, math.inf), start, value)
    value = where(reflected, sub(value, div(math.pi, op("tan", mul(fraction, math.pi)))), value)
    pole = where(compare("eq", x, 0), op("copysign", _constant_like(x, math.inf), neg(x)), _constant_like(x, math.nan))
    return where(_both(reflected, fraction, x), pole, value)


def _both(reflected: Value, fraction: Value, x: Value) -> Value:
    """Whether x is 0 or a negative integer."""
    whole = op("and", reflected, compare("eq", fraction, 0))
    return op("or", whole, compare("eq", x, 0))


def _constant_like(x: Value, number: float) -> Value:
    return cast(where(op("isnan", x), x, number), x.dtype)


def erfinv(x: Value) -> Value:
    """The inverse of the error function, of a float64."""
    w = neg(op("log", mul(sub(1.0, x), add(x, 1.0))))
    middle = _polynomial(sub(w, 2.5), _MIDDLE)
    tail = _polynomial(sub(op("sqrt", w), 3.0), _TAIL)
    y = mul(where(compare("lt", w, 5.0), middle, tail), x)
    for _ in range(2):
        slope = mul(op("exp", neg(mul(y, y))), 2 / math.sqrt(math.pi))
        y = sub(y, div(sub(op("erf", y), x), slope))
    at_end = compare("eq", op("abs", x), 1.0)
    return where(at_end, op("copysign", _constant_like(x, math.inf), x), y)


def _in_double(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    return lambda a: cast(function(cast(a, torch.float64)), a.dtype)


@lowering("aten.digamma.default")
def digamma_(ctx: Lowering, x: Tensor) -> Tensor:
    return pointwise(ctx, _in_double(digamma), x)


elementwise("aten.erfinv.default")(_in_double(erfinv))


@lowering("aten.polygamma.default")
def polygamma(ctx: Lowering, n: int, x: Tensor) -> Tensor:
    if n == 0:
        return digamma_(ctx, x)
    return ctx.unsupported("a factorial too large") if n > 20 else pointwise(ctx, lambda a: derivative(n, a), x)
