"""sin and cos of float32: inline code for ordinary arguments in a function of its own, the library for huge ones."""

from __future__ import annotations

import torch

from .polynomials import ROUND, ROUND_BITS, Writer
from .scopes import Emitter
from .text import Function, Operand, type_of

TWO_OVER_PI = 0.6366197723675814
HALF_PI = (1.5707963705062866, -4.371138828673793e-08, -1.7150994e-15)
"""Three floats whose sum is half of pi."""

SIN = (-0.166666538, 0.00833215099, -0.000195139786)
COS = (0.0416666456, -0.00138873036, 2.44316652e-05)
LARGEST = 32768.0
"""Up to here the distance from a multiple of pi/2 comes out exactly enough."""


def emit(e: Emitter, op: str, x: Operand) -> Operand:
    """sin or cos in all lanes."""
    from .math_functions import library

    if x.lanes == 1:
        return library(e, op, [x])
    name = f"firesteel.{op}.{x.lanes}"
    if name not in e.module.helpers:
        e.module.helpers[name] = _helper(e, op, name, x.lanes)
    return e.instruction(f"call {x.type} @{name}({x.typed})", torch.float32, x.lanes)


def _helper(outer: Emitter, op: str, name: str, lanes: int) -> str:
    """The function: a branch to the library if any argument is beyond `LARGEST`."""
    from .math_functions import library

    vector = type_of(torch.float32, lanes)
    function = Function(f"internal {vector} @{name}({vector} %x)", outer.target.attributes)
    e = Emitter(outer.module, function, outer.target)
    x = Operand("%x", torch.float32, lanes)
    huge = e.compare("ogt", e.intrinsic("fabs", x), e.constant(LARGEST, torch.float32, lanes))
    reduce = e.module.declare(f"llvm.vector.reduce.or.v{lanes}i1", "i1", huge.type)
    any_huge = e.raw(f"call i1 @{reduce}({huge.typed})")
    near, far = function.block("near"), function.block("far")
    e.block.terminator = f"br i1 {any_huge}, label %{far.name}, label %{near.name}"
    e.scopes[-1].block = near
    near.terminator = f"ret {_inline(e, op, x).typed}"
    e.scopes[-1].block = far
    far.terminator = f"ret {library(e, op, [x]).typed}"
    return str(function)


def _inline(e: Emitter, op: str, x: Operand) -> Operand:
    """±(r + r**3 * S(r**2)) or ±(1 - r**2/2 + r**4 * C(r**2)), where x = n*pi/2 + r: n says which"""
    w = Writer(e, x.lanes)
    rounded = w.fma(x, w.f(TWO_OVER_PI), w.f(ROUND))
    n = w.sub(rounded, w.f(ROUND))
    first = w.fma(n, w.f(-HALF_PI[0]), x)
    r = w.fma(n, w.f(-HALF_PI[1]), first)
    # What rounding took from r
    lost = w.fma(n, w.f(-HALF_PI[2]), w.fma(n, w.f(-HALF_PI[1]), w.sub(first, r)))
    square = w.mul(r, r)
    sine = w.add(r, w.fma(w.mul(square, r), w.polynomial(square, SIN), lost))
    half = w.mul(square, w.f(0.5))
    top = w.sub(w.f(1.0), half)
    below = w.sub(w.sub(w.f(1.0), top), half)
    rest = w.fma(w.mul(square, square), w.polynomial(square, COS), w.fma(w.neg(r), lost, below))
    cosine = w.add(top, rest)
    quadrant = e.binary("sub", w.bits(rounded), w.i(ROUND_BITS if op == "sin" else ROUND_BITS - 1))
    odd = e.compare("ne", e.binary("and", quadrant, w.i(1)), w.i(0))
    sign = e.binary("shl", e.binary("and", quadrant, w.i(2)), w.i(30))
    turned = w.number(e.binary("xor", w.bits(e.select(odd, cosine, sine)), sign))
    # The sine of -0 is -0, which the sum above has lost.
    return e.select(e.compare("oeq", x, w.f(0.0)), x, turned) if op == "sin" else turned
