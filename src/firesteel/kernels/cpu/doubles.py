"""exp, expm1, sinh, cosh, tanh, log, log1p, asinh and hypot of float64, written out: faster than the library's.

All that contain an exponential share one reduction, x = n*ln 2 + r, and one polynomial, a least-maximum fit of
(exp(r) - 1 - r) / r**2. Each is within about one unit in the last place of the true result.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import NamedTuple

import torch

from .operands import Operand
from .polynomials import LOG2_E, Writer
from .scopes import Emitter

LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # the first has few bits, so its multiples are exact
ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it to a small double leaves the nearest integer in the lowest bits
ROUND_BITS = 0x4338000000000000

EXP = (0.5, 0.16666666666666669, 0.041666666666666664, 0.008333333333330055, 0.0013888888888886548,
       0.00019841269863088255, 2.4801587317169235e-05, 2.7557268406190795e-06, 2.7557282931125736e-07,
       2.51004110820149e-08, 2.091125490208877e-09)

LOG = (0.666666666666667, 0.3999999999989924, 0.2857142862609589, 0.2222221111514416, 0.18182890556695602,
       0.1533167403016786, 0.1461703754879165)

Logarithm = Callable[[Emitter, list[Operand]], Operand]


class Reduced(NamedTuple):
    """x = n*ln 2 + r, up to what is lost by rounding r. `rounded` is ``n + ROUND``; `rest` is exp(r + lost) - 1 - r."""

    n: Operand
    rounded: Operand
    r: Operand
    rest: Operand


class Doubles(Writer):
    """Arithmetic of float64 and int64 in as many lanes as an operand has."""

    def f(self, value: float) -> Operand:
        return self.e.constant(value, torch.float64, self.lanes)

    def i(self, value: int) -> Operand:
        return self.e.constant(value, torch.int64, self.lanes)

    def bits(self, a: Operand) -> Operand:
        return self.e.convert("bitcast", a, torch.int64)

    def number(self, a: Operand) -> Operand:
        return self.e.convert("bitcast", a, torch.float64)

    def reduced(self, x: Operand) -> Reduced:
        rounded = self.fma(x, self.f(LOG2_E), self.f(ROUND))
        n = self.sub(rounded, self.f(ROUND))
        exact = self.fma(n, self.f(-LN2_HIGH), x)
        r = self.fma(n, self.f(-LN2_LOW), exact)
        lost = self.fma(n, self.f(-LN2_LOW), self.sub(exact, r))
        return Reduced(n, rounded, r, self.fma(self.mul(r, r), self.polynomial(r, EXP), lost))

    def times_power_of_two(self, value: Operand, exponent: Operand, rounded: Operand) -> Operand:
        """value * 2**exponent; `rounded` is ``exponent + ROUND``."""
        if self.e.target.has_masks and self.lanes % 8 == 0:
            parts = zip(self.e.pieces(value, 8), self.e.pieces(exponent, 8), strict=True)
            return self.e.join([self._scaled(*part) for part in parts])
        # In two halves, so that neither overflows where the result does not.
        whole = self.e.binary("sub", self.bits(rounded), self.i(ROUND_BITS))
        half = self.e.binary("ashr", whole, self.i(1))
        for part in (half, self.e.binary("sub", whole, half)):
            power = self.e.binary("shl", self.e.binary("add", part, self.i(1023)), self.i(52))
            value = self.mul(value, self.number(power))
        return value

    def _scaled(self, value: Operand, exponent: Operand) -> Operand:
        vector = value.type
        name = self.e.module.declare("llvm.x86.avx512.mask.scalef.pd.512", vector,
                                     f"{vector}, {vector}, {vector}, i8, i32")
        return self.e.instruction(f"call {vector} @{name}({value.typed}, {exponent.typed}, {vector} zeroinitializer, "
                                  "i8 -1, i32 4)", torch.float64, 8)

    def less(self, at: Reduced, exponent: int) -> tuple[Operand, Operand]:
        """n and ``n + ROUND`` with something subtracted."""
        return self.sub(at.n, self.f(exponent)), self.sub(at.rounded, self.f(exponent))

    def exp_of_rest(self, at: Reduced) -> tuple[Operand, Operand]:
        """exp(r) as a sum of two numbers, the second being what is lost in the first."""
        first = self.add(at.r, self.f(1.0))
        second = self.add(at.rest, self.sub(at.r, self.sub(first, self.f(1.0))))
        total = self.add(first, second)
        return total, self.sub(second, self.sub(total, first))

    def half_expm1(self, at: Reduced) -> tuple[Operand, Operand]:
        """(exp(x) - 1) / 2 as a sum of two numbers, the second being what is lost in the first."""
        half = self.times_power_of_two(self.f(1.0), *self.less(at, 1))
        start = self.sub(half, self.f(0.5))
        first = self.fma(half, at.r, start)
        lost = self.fma(half, at.r, self.sub(start, first))
        second = self.mul(half, at.rest)
        total = self.add(first, second)
        return total, self.add(self.sub(second, self.sub(total, first)), lost)

    def quotient(self, above: Operand, above_lost: Operand, below: Operand, below_lost: Operand,
                 ) -> tuple[Operand, Operand]:
        """A quotient of two sums of two numbers, as such a sum."""
        inverse = self.div(self.f(1.0), below)
        quotient = self.mul(above, inverse)
        minus = self.neg(quotient)
        rest = self.add(self.fma(minus, below, above), self.fma(minus, below_lost, above_lost))
        return quotient, self.mul(rest, inverse)


def exp(e: Emitter, x: Operand) -> Operand:
    """2**n * (1 + r + rest)"""
    w = Doubles(e, x.lanes)
    at = w.reduced(w.at_most(w.at_least(x, -746.0), 710.0))
    return w.times_power_of_two(w.exp_of_rest(at)[0], at.n, at.rounded)


def expm1(e: Emitter, x: Operand) -> Operand:
    w = Doubles(e, x.lanes)
    total, lost = w.half_expm1(w.reduced(w.at_most(w.at_least(x, -50.0), 710.0)))
    half = w.add(total, lost)
    return e.intrinsic("copysign", w.add(half, half), x)  # of both, for half is 0.0 at -0.0


def sinh(e: Emitter, x: Operand) -> Operand:
    """h + h / (2h + 1) with h = (exp(|x|) - 1) / 2, and exp(|x|) / 2 where that is the same"""
    w = Doubles(e, x.lanes)
    size = e.intrinsic("fabs", x)
    at = w.reduced(w.at_most(size, 711.0))
    total, lost = w.half_expm1(at)
    below = w.fma(total, w.f(2.0), w.f(1.0))
    below_lost = w.fma(total, w.f(2.0), w.sub(w.f(1.0), below))
    quotient, rest = w.quotient(total, lost, below, below_lost)
    near = w.add(total, w.add(quotient, w.add(rest, lost)))
    far = w.times_power_of_two(w.exp_of_rest(at)[0], *w.less(at, 1))
    return e.intrinsic("copysign", e.select(e.compare("ogt", size, w.f(40.0)), far, near), x)


def cosh(e: Emitter, x: Operand) -> Operand:
    """h + 1 / 4h with h = exp(|x|) / 2, which is finite for larger x than exp(x) is"""
    w = Doubles(e, x.lanes)
    at = w.reduced(w.at_most(e.intrinsic("fabs", x), 711.0))
    total, lost = (w.times_power_of_two(part, *w.less(at, 1)) for part in w.exp_of_rest(at))
    return w.add(total, w.add(w.div(w.f(0.25), total), lost))


def tanh(e: Emitter, x: Operand) -> Operand:
    """h / (h + 1) with h = (exp(2*|x|) - 1) / 2, both with what is lost of them"""
    w = Doubles(e, x.lanes)
    size = w.at_most(e.intrinsic("fabs", x), 22.0)
    total, lost = w.half_expm1(w.reduced(w.add(size, size)))
    below = w.add(total, w.f(1.0))
    below_lost = w.add(w.sub(total, w.sub(below, w.f(1.0))), lost)
    quotient, rest = w.quotient(total, lost, below, below_lost)
    return e.intrinsic("copysign", w.add(quotient, rest), x)


def log(e: Emitter, x: Operand) -> Operand:
    """n*ln 2 + f - (f**2/2 - s*(f**2/2 + P(s**2))), where x = 2**n * (1 + f), 1 + f is between the roots of 1/2 and 2,
    and s = f / (2 + f): log(1 + f) is 2*s + s*P(s**2)"""
    w = Doubles(e, x.lanes)
    root = struct.unpack("<Q", struct.pack("<d", math.sqrt(0.5)))[0]
    # Numbers below the normal ones are made normal first.
    small = e.compare("olt", x, w.f(2.0**-1022))
    scaled = e.select(small, w.mul(x, w.f(2.0**54)), x)
    shifted = e.binary("sub", w.bits(scaled), w.i(root))
    whole = e.binary("add", e.binary("ashr", shifted, w.i(52)), w.i(ROUND_BITS))
    n = w.sub(w.number(whole), e.select(small, w.f(ROUND + 54.0), w.f(ROUND)))
    mantissa = e.binary("add", e.binary("and", shifted, w.i((1 << 52) - 1)), w.i(root))
    f = w.sub(w.number(mantissa), w.f(1.0))
    s = w.div(f, w.add(f, w.f(2.0)))
    z = w.mul(s, s)
    half = w.mul(w.mul(f, w.f(0.5)), f)
    correction = w.fma(s, w.fma(z, w.polynomial(z, LOG), half), w.mul(n, w.f(LN2_LOW)))
    y = w.fma(n, w.f(LN2_HIGH), w.sub(f, w.sub(half, correction)))
    y = e.select(e.compare("oeq", x, w.f(math.inf)), x, y)
    y = e.select(e.compare("oeq", x, w.f(0.0)), w.f(-math.inf), y)
    return e.select(e.compare("ult", x, w.f(0.0)), w.f(math.nan), y)


def log1p(e: Emitter, x: Operand, log: Logarithm) -> Operand:
    """log(u) + (x - (u - 1)) / u, where u is 1 + x, rounded"""
    w = Doubles(e, x.lanes)
    u = w.add(x, w.f(1.0))
    whole = log(e, [u])
    result = w.add(whole, w.div(w.sub(x, w.sub(u, w.f(1.0))), u))
    plain = e.binary("or", e.compare("oeq", u, w.f(0.0)), e.compare("oeq", u, w.f(math.inf)))
    return e.select(e.compare("oeq", x, w.f(0.0)), x, e.select(plain, whole, result))


def asinh(e: Emitter, x: Operand, log: Logarithm) -> Operand:
    """log1p(a + a**2 / (1 + sqrt(a**2 + 1))) with a = |x|, and log(a) + ln 2 for large numbers"""
    w = Doubles(e, x.lanes)
    size = e.intrinsic("fabs", x)
    far = e.compare("ogt", size, w.f(2.0**300))
    a = e.select(far, w.f(1.0), size)
    square = w.mul(a, a)
    root = e.intrinsic("sqrt", w.add(square, w.f(1.0)))
    y = w.add(a, w.div(square, w.add(root, w.f(1.0))))
    # As in log1p, but with one logarithm for both.
    u = w.add(y, w.f(1.0))
    logarithm = log(e, [e.select(far, size, u)])
    near = w.add(logarithm, w.div(w.sub(y, w.sub(u, w.f(1.0))), u))
    result = e.select(far, w.add(logarithm, w.f(math.log(2.0))), near)
    return e.intrinsic("copysign", result, x)


def hypot(e: Emitter, a: Operand, b: Operand) -> Operand:
    """sqrt(a**2 + b**2), of numbers that are moved to where squares neither overflow nor vanish"""
    w = Doubles(e, a.lanes)
    x, y = e.intrinsic("fabs", a), e.intrinsic("fabs", b)
    larger = e.select(e.compare("ogt", x, y), x, y)
    large, small = e.compare("ogt", larger, w.f(2.0**500)), e.compare("olt", larger, w.f(2.0**-450))
    scale = e.select(large, w.f(2.0**-600), e.select(small, w.f(2.0**600), w.f(1.0)))
    back = e.select(large, w.f(2.0**600), e.select(small, w.f(2.0**-600), w.f(1.0)))
    p, q = w.mul(x, scale), w.mul(y, scale)
    size = w.mul(e.intrinsic("sqrt", w.fma(p, p, w.mul(q, q))), back)
    endless = e.binary("or", e.compare("oeq", x, w.f(math.inf)), e.compare("oeq", y, w.f(math.inf)))
    return e.select(endless, w.f(math.inf), size)
