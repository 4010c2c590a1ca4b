"""Cheaper arithmetic, mostly for float32 values that end as short floats.

    out[i] = cast(div(x, add(exp(neg(x)), 1.0)), bf16)

Eager computes this in float32 and rounds the quotient to bfloat16, which has 16 bits less. A division or exponential
that is wrong by a few units in the last place of float32 gives the same bfloat16 for all but those few quotients that
lie next to the middle between two of them, and there it is wrong by half a unit in the last place as eager is.

Two forms pay for float32 results too: 1 + erf(u), the costly part of gelu, is the complementary error function, and to
compute that at once takes half of the instructions and loses nothing to cancellation; 1 / sqrt(u) is one instruction,
with less than two roundings of error, and what eager's normalisations use.

A value is *loose* when all that becomes of it ends so, and nothing on the way makes its relative error larger:
products, quotients and roots do not, sums do when their parts cancel. What is stored as float32, reduced, or compared
is computed as eager computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ..ir import Statement, Value
from ..operations import OPERATIONS
from .statements import values_of

_SHORT = (torch.bfloat16, torch.float16)
HELPERS: dict[str, tuple[str, str]] = {
    # 1 - 2 / (exp(2a) + 1), and near 0, where that cancels, the first terms of the series. Both are right to 20 bits.
    "short_tanh": ("a", "e = tl.inline_asm_elementwise('ex2.approx.ftz.f32 $0, $1;', '=f,f', "
                   "[a * 2.8853900817779268], tl.float32, True, 1)\n"
                   "    s = a * a\n"
                   "    near = tl.fma(a * s, tl.fma(s, 0.13333334, -0.33333334), a)\n"
                   "    return tl.where(tl.abs(a) < 0.125, near, 1.0 - libdevice.fast_dividef(2.0, e + 1.0))"),
    # erfc(-a): 2**p of the distance from 0, mirrored above it. The polynomial is the best one for the absolute error,
    # 1.6e-8, and falls for ever, so that the result is 0 for all large negative numbers.
    "one_plus_erf": ("a", "t = tl.abs(a)\n    p = tl.fma(t, -4.535057087196037e-05, 0.00044544809497892857)\n"
                     + "".join(f"    p = tl.fma(t, p, {number})\n" for number in (
                         -0.0014892678009346128, -0.0007748847710900009, 0.028253881260752678, -0.14848169684410095,
                         -0.9184163808822632, -1.6279085874557495))
                     + "    e = tl.inline_asm_elementwise('ex2.approx.ftz.f32 $0, $1;', '=f,f', [p * t], tl.float32, "
                     "True, 1)\n    return tl.where(a < 0, e, 2.0 - e)"),
}
"""Functions that kernels define when they use them: parameters and body."""


def loose_values(body: Sequence[Statement]) -> frozenset[Value]:
    """The values of a kernel that may be computed with a few units of error in float32."""
    users: dict[Value, list[Value]] = {}
    strict: set[Value] = set()
    order: dict[Value, None] = {}
    for root in values_of(body):
        strict.add(root)
        for node in root.walk():
            if node not in order:
                order[node] = None
                for arg in node.args:
                    users.setdefault(arg, []).append(node)
    loose: set[Value] = set()
    if not any(node.op == "cast" and node.dtype in _SHORT for node in order):
        return frozenset()
    # Operands come before their users in every root, but not across roots; so until nothing changes.
    waiting = [node for node in reversed(order) if node.dtype is torch.float32 and node not in strict]
    while True:
        more = [node for node in waiting if node not in loose
                and all(_allows(user, node, loose) for user in users.get(node, ()))]
        if not more:
            return frozenset(loose)
        loose.update(more)


def _allows(user: Value, node: Value, loose: set[Value]) -> bool:
    if user.op == "cast":
        return user.dtype in _SHORT
    if user not in loose:
        return False
    if user.op == "where":
        return node is not user.args[0]
    return OPERATIONS[user.op].keeps_relative_error or (user.op == "add" and all(map(_is_positive, user.args)))


def _is_positive(value: Value) -> bool:
    if value.op == "const":
        return value.data >= 0
    if value.op in ("add", "mul", "div"):
        same = value.op == "mul" and value.args[0] is value.args[1]
        return same or all(map(_is_positive, value.args))
    return value.op in OPERATIONS and OPERATIONS[value.op].is_positive


def shortcut(node: Value, loose: bool) -> Value | None:
    """The inner function of a value that is computed at once, with its inner function: 1 + erf, 1 + tanh, 1 / sqrt."""
    if node.dtype is not torch.float32 or node.op not in ("add", "div"):
        return None
    first, second = node.args
    if node.op == "div":
        return second if _is_one(first) and second.op == "sqrt" else None
    for inner, other in ((first, second), (second, first)):
        if _is_one(other) and (inner.op == "erf" or (loose and inner.op == "tanh")):
            return inner
    return None


def _is_one(value: Value) -> bool:
    return value.op == "const" and value.data == 1.0


def at_once(inner: Value, argument: str, helper: Callable[[str], str]) -> str:
    """The printed value of one plus or over the function ``inner``, given the printed argument of that function."""
    if inner.op == "tanh":
        return f"(2.0 / (tl.exp({argument} * -2.0) + 1.0))"
    if inner.op == "sqrt":
        return f"libdevice.rsqrt({argument})"
    return f"{helper('one_plus_erf')}({argument})"
