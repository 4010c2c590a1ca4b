"""sin and cos of float32: inline code for ordinary arguments, the library for huge ones."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..llvm_writer import Function
from .operands import Operand, type_of
from .polynomials import ROUND, Writer
from .scopes import Emitter

Library = Callable[[Emitter, list[Operand]], Operand]
"""Calls the function in a library of vectors."""

TWO_OVER_PI = 0.6366197723675814
HALF_PI = (1.5707963705062866, -4.371138828673793e-08, -1.7150994e-15)
"""Three floats whose sum is half of pi."""

SIN = (-0.166666538, 0.00833215099, -0.000195139786, 0.0)
COS = (-0.5, 0.0416666456, -0.00138873036, 2.44316652e-05)
LARGEST = 32768.0
"""Up to here the distance from a multiple of pi/2 comes out exactly enough."""


def emit(e: Emitter, op: str, x: Operand, library: Library) -> Operand:
    """sin or cos in all lanes."""
    if x.lanes == 1:
        return library(e, [x])
    if e.place < len(e.scopes) - 1:
        # In front of a loop, where there can be no branch any more: that is not often run, so it is a call.
        name = f"firesteel.{op}.{x.lanes}"
        if name not in e.module.helpers:
            e.module.helpers[name] = _helper(e, op, name, x.lanes, library)
        return e.instruction(f"call {x.type} @{name}({x.typed})", torch.float32, x.lanes)
    return _with_branch(e, op, x, library)


def _helper(outer: Emitter, op: str, name: str, lanes: int, library: Library) -> str:
    """A function that computes it."""
    vector = type_of(torch.float32, lanes)
    function = Function(f"internal {vector} @{name}({vector} %x)", outer.target.attributes)
    e = Emitter(outer.module, function, outer.target)
    result = _with_branch(e, op, Operand("%x", torch.float32, lanes), library)
    e.block.terminator = f"ret {result.typed}"
    return str(function)


def _with_branch(e: Emitter, op: str, x: Operand, library: Library) -> Operand:
    """Inline code, then a branch to the library if any argument is beyond `LARGEST`."""
    huge = e.compare("ogt", e.intrinsic("fabs", x), e.constant(LARGEST, torch.float32, x.lanes))
    reduce = e.module.declare(f"llvm.vector.reduce.or.v{x.lanes}i1", "i1", huge.type)
    any_huge = e.raw(f"call i1 @{reduce}({huge.typed})")
    ordinary = _inline(e, op, x)
    before, far, after = e.block, e.function.block("far"), e.function.block("near")
    # The weights keep the call, and what it needs to save, out of the way.
    before.terminator = (f"br i1 {any_huge}, label %{far.name}, label %{after.name}, "
                         '!prof !{!"branch_weights", i32 1, i32 100000}')
    scope = e.scopes[-1]
    scope.block = far
    called = library(e, [x])
    scope.block.terminator = f"br label %{after.name}"
    comes_from, scope.block = scope.block, after
    return e.instruction(f"phi {x.type} [ {ordinary.text}, %{before.name} ], [ {called.text}, %{comes_from.name} ]",
                         torch.float32, x.lanes)


def _inline(e: Emitter, op: str, x: Operand) -> Operand:
    """±(m + m * r**2 * P(r**2)), where x = n*pi/2 + r

    For the sine m is r, for the cosine 1, and each has its polynomial: n says which of them, and the sign.
    """
    w = Writer(e, x.lanes)
    rounded = w.fma(x, w.f(TWO_OVER_PI), w.f(ROUND))
    n = w.sub(rounded, w.f(ROUND))
    first = w.fma(n, w.f(-HALF_PI[0]), x)
    second = w.mul(n, w.f(HALF_PI[1]))
    r = w.sub(first, second)
    # What rounding took from r
    lost = w.fma(n, w.f(HALF_PI[2]), w.fma(n, w.f(HALF_PI[1]), w.neg(second)))
    lost = w.sub(w.sub(w.sub(first, r), second), lost)
    quadrant = w.bits(rounded) if op == "sin" else e.binary("add", w.bits(rounded), w.i(1))
    cosine = e.compare("ne", e.binary("and", quadrant, w.i(1)), w.i(0))
    m = e.select(cosine, w.f(1.0), r)
    square = w.mul(r, r)
    polynomial = e.select(cosine, w.f(COS[3]), w.f(SIN[3]))
    for of_cosine, of_sine in zip(COS[2::-1], SIN[2::-1], strict=True):
        polynomial = w.fma(polynomial, square, e.select(cosine, w.f(of_cosine), w.f(of_sine)))
    # The derivative times what was lost; of the cosine, half of what rounding took from the square too
    of_square = w.mul(w.fma(r, r, w.neg(square)), w.f(-0.5))
    lost = e.select(cosine, w.fma(w.neg(r), lost, of_square), lost)
    result = w.add(m, w.fma(w.mul(square, m), polynomial, lost))
    sign = e.binary("shl", e.binary("and", quadrant, w.i(2)), w.i(30))
    turned = w.number(e.binary("xor", w.bits(result), sign))
    # The sine of -0 is -0, which the sum above has lost.
    return e.select(e.compare("oeq", x, w.f(0.0)), x, turned) if op == "sin" else turned
