"""Quotients of float32 that are rounded as a division is, with fewer instructions.

A division of the GPU that is rounded to the nearest takes a dozen instructions and more for each element, with a
branch. In two forms that kernels are full of, six to eight will do:

    x / s, where s is the same for all lanes of a row: its inverse is computed once
    y / (exp(v) + 1), silu and sigmoid: the divisor cannot be small

Both begin with a quotient q that is wrong by a few units in the last place. What is left of the dividend, x - q*s, is
exact in a fused multiplication and addition, and tells how much q is wrong. Where that makes NaN, since infinities have
met, q is the result, and where it makes zero, q has the sign of it.

In the first form a divisor so small that its inverse would be infinite, or so large that it would lose bits, is
scaled, with the dividend. In the second all is scaled by a quarter, so that the inverse of the largest divisor does not
count as zero; the inverse is approximate, and about one result in a million is the neighbour of the number that a
division gives. So may be the quotients of numbers below 1e-28, of which nothing that is left can be told exactly.
"""

from __future__ import annotations

import torch

from ..ir import Value

HELPERS: dict[str, tuple[str, str]] = {
    "quotient": ("a, b", "scale = tl.where(tl.abs(b) < 7.888609052210118e-31, 1.152921504606847e+18, 1.0)\n"
                 "    scale = tl.where(tl.abs(b) > 2.1267647932558654e+37, 0.0625, scale)\n"
                 "    a, b = a * scale, b * scale\n"
                 "    inverse = tl.div_rn(tl.full([], 1.0, tl.float32), b)\n"
                 "    q = a * inverse\n"
                 "    z = tl.fma(tl.fma(-q, b, a), inverse, q)\n"
                 "    return tl.where(tl.abs(z) > 0, z, q)"),
    "over_one_plus": ("a, e", "a, b = a * 0.25, tl.fma(e, 0.25, 0.25)\n"
                      "    inverse = tl.inline_asm_elementwise('rcp.approx.ftz.f32 $0, $1;', '=f,f', [b], tl.float32, "
                      "True, 1)\n"
                      "    q = a * inverse\n"
                      "    z = tl.fma(tl.fma(-b, q, a), inverse, q)\n"
                      "    return tl.where(tl.abs(z) > 0, z, q)"),
}
"""Functions that kernels define when they use them: parameters and body."""


def exponential_beside_one(node: Value) -> Value | None:
    """Of a quotient whose divisor is an exponential and 1, the exponential."""
    if node.op != "div" or node.dtype is not torch.float32 or node.args[1].op != "add":
        return None
    for inner, other in (node.args[1].args, node.args[1].args[::-1]):
        if inner.op == "exp" and other.op == "const" and other.data == 1.0:
            return inner
    return None
