"""exp, log, tanh, erf and sigmoid of float32, written out: a call would cost more than the function.

Each is within one unit in the last place of the true result, as torch's own are. The coefficients are least-maximum
fits of what the docstrings say.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import torch

from .operands import Operand
from .scopes import Emitter

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4  # their sum is ln 2; the first has few bits, so its multiples are exact
ROUND = 12582912.0  # 1.5 * 2**23: adding it to a small float leaves the nearest integer in the lowest bits
ROUND_BITS = 0x4B400000

EXP = (0.49999994, 0.166665152, 0.041668456, 0.00836941972, 0.00138131424)
LOG = (0.333333135, -0.250000089, 0.200021192, -0.166679963, 0.142195508, -0.1240559, 0.118881784, -0.116756529,
       0.0674660802)
TANH = (-0.333332986, 0.133324116, -0.0538841039, 0.0214994028, -0.00796521641, 0.00231546722, -0.000362523308)
ERF_SMALL = (0.128379166, -0.37612626, 0.112835854, -0.026853811, 0.00518832775, -0.000801019254, 7.85385782e-05)
ERF_LARGE = (0.000244709256, 1.12747502, 0.637516975, 0.103640348, -0.0220876541, 0.00300854049, -0.000192426378)


class Writer:
    """Arithmetic of float32 and int32 in as many lanes as an operand has."""

    def __init__(self, e: Emitter, lanes: int) -> None:
        self.e = e
        self.lanes = lanes

    def f(self, value: float) -> Operand:
        return self.e.constant(value, torch.float32, self.lanes)

    def i(self, value: int) -> Operand:
        return self.e.constant(value - (1 << 32) if value >> 31 else value, torch.int32, self.lanes)

    def add(self, a: Operand, b: Operand) -> Operand:
        return self.e.binary("fadd", a, b)

    def sub(self, a: Operand, b: Operand) -> Operand:
        return self.e.binary("fsub", a, b)

    def mul(self, a: Operand, b: Operand) -> Operand:
        return self.e.binary("fmul", a, b)

    def div(self, a: Operand, b: Operand) -> Operand:
        return self.e.binary("fdiv", a, b)

    def fma(self, a: Operand, b: Operand, c: Operand) -> Operand:
        return self.e.fma(a, b, c)

    def neg(self, a: Operand) -> Operand:
        return self.e.instruction(f"fneg {a.typed}", a.dtype, a.lanes)

    def bits(self, a: Operand) -> Operand:
        return self.e.convert("bitcast", a, torch.int32)

    def number(self, a: Operand) -> Operand:
        return self.e.convert("bitcast", a, torch.float32)

    def at_least(self, a: Operand, low: float) -> Operand:
        """NaN stays NaN."""
        return self.e.select(self.e.compare("olt", a, self.f(low)), self.f(low), a)

    def at_most(self, a: Operand, high: float) -> Operand:
        return self.e.select(self.e.compare("ogt", a, self.f(high)), self.f(high), a)

    def polynomial(self, x: Operand, coefficients: Sequence[float]) -> Operand:
        """Lowest power first in `coefficients`."""
        result = self.f(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, self.f(coefficient))
        return result

    def times_power_of_two(self, value: Operand, exponent: Operand, rounded: Operand) -> Operand:
        """value * 2**exponent; `rounded` is ``exponent + ROUND``."""
        if self.e.target.has_masks and self.lanes == 16:
            vector = value.type
            name = self.e.module.declare("llvm.x86.avx512.mask.scalef.ps.512", vector,
                                         f"{vector}, {vector}, {vector}, i16, i32")
            return self.e.instruction(f"call {vector} @{name}({value.typed}, {exponent.typed}, "
                                      f"{vector} zeroinitializer, i16 -1, i32 4)", torch.float32, self.lanes)
        # In two halves, so that neither overflows where the result does not.
        whole = self.e.binary("sub", self.bits(rounded), self.i(ROUND_BITS))
        half = self.e.binary("ashr", whole, self.i(1))
        for part in (half, self.e.binary("sub", whole, half)):
            power = self.e.binary("shl", self.e.binary("add", part, self.i(127)), self.i(23))
            value = self.mul(value, self.number(power))
        return value

    def exp(self, x: Operand) -> Operand:
        """2**n * (1 + r + r**2 * P(r)), where x = n*ln 2 + r"""
        x = self.at_most(self.at_least(x, -105.0), 89.0)
        rounded = self.fma(x, self.f(LOG2_E), self.f(ROUND))
        n = self.sub(rounded, self.f(ROUND))
        r = self.fma(n, self.f(-LN2_LOW), self.fma(n, self.f(-LN2_HIGH), x))
        p = self.fma(self.mul(r, r), self.polynomial(r, EXP), r)
        return self.times_power_of_two(self.add(p, self.f(1.0)), n, rounded)


def exp(e: Emitter, x: Operand) -> Operand:
    return Writer(e, x.lanes).exp(x)


def sigmoid(e: Emitter, x: Operand) -> Operand:
    """1 / (1 + exp(-x))"""
    w = Writer(e, x.lanes)
    return w.div(w.f(1.0), w.add(w.f(1.0), w.exp(w.neg(x))))


def log(e: Emitter, x: Operand) -> Operand:
    """n*ln 2 + r - r**2/2 + r**3 * P(r), where x = 2**n * (1 + r) and 1 + r is between the roots of 1/2 and 2"""
    w = Writer(e, x.lanes)
    root = struct.unpack("<I", struct.pack("<f", math.sqrt(0.5)))[0]
    # Numbers below the normal ones are made normal first.
    small = e.compare("olt", x, w.f(2.0**-126))
    scaled = e.select(small, w.mul(x, w.f(2.0**23)), x)
    shifted = e.binary("sub", w.bits(scaled), w.i(root))
    n = e.convert("sitofp", e.binary("ashr", shifted, w.i(23)), torch.float32)
    n = e.select(small, w.sub(n, w.f(23.0)), n)
    r = w.sub(w.number(e.binary("add", e.binary("and", shifted, w.i(0x007FFFFF)), w.i(root))), w.f(1.0))
    square = w.mul(r, r)
    p = w.fma(r, w.polynomial(r, LOG), w.f(-0.5))
    y = w.fma(n, w.f(LN2_LOW), w.mul(square, p))
    y = w.fma(n, w.f(LN2_HIGH), w.add(r, y))
    y = e.select(e.compare("oeq", x, w.f(math.inf)), x, y)
    y = e.select(e.compare("oeq", x, w.f(0.0)), w.f(-math.inf), y)
    return e.select(e.compare("ult", x, w.f(0.0)), w.f(math.nan), y)


def tanh(e: Emitter, x: Operand) -> Operand:
    """x + x**3 * P(x**2) near zero, 1 - 2 / (exp(2*|x|) + 1) elsewhere"""
    w = Writer(e, x.lanes)
    size = e.intrinsic("fabs", x)
    square = w.mul(x, x)
    near = w.fma(w.mul(square, x), w.polynomial(square, TANH), x)
    power = w.exp(w.add(size, size))
    far = w.sub(w.f(1.0), w.div(w.f(2.0), w.add(power, w.f(1.0))))
    # of both, for near is 0.0 at -0.0
    return e.intrinsic("copysign", e.select(e.compare("olt", size, w.f(1.0)), near, far), x)


def erf(e: Emitter, x: Operand) -> Operand:
    """x + x * P(x**2) near zero, 1 - exp(-Q(|x|)) elsewhere"""
    w = Writer(e, x.lanes)
    size = e.intrinsic("fabs", x)
    square = w.mul(x, x)
    near = w.fma(x, w.polynomial(square, ERF_SMALL), x)
    q = w.polynomial(w.at_most(size, 4.0), ERF_LARGE)
    far = e.intrinsic("copysign", w.sub(w.f(1.0), w.exp(w.neg(q))), x)
    return e.select(e.compare("olt", size, w.f(1.0)), near, far)
