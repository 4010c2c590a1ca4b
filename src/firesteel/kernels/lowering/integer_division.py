"""Quotients and remainders of integers by the elements of a tensor, which eager refuses to be 0.

A kernel cannot raise. So there is a reduction that finds out whether all divisors are fine, with a call that raises
eager's error when they are not, and the kernel divides by something else where it must not divide:

    fine = all(r0 < n) ne(load(y, r0), 0)
    check_true(fine, "ZeroDivisionError")
    out[i0] = div_floor(load(x, i0), where(eq(load(y, i0), 0), 1, load(y, i0)))
"""

from __future__ import annotations

import torch

from .. import ir
from ..ir import Value
from .context import Lowering
from .elementwise import Operand, pointwise
from .index_checks import emit_check
from .reducing import Folding, fold, inner_spec
from .scalars import cast, compare, either, mul, neg, where
from .tensors import Indices, Tensor

MESSAGE = "ZeroDivisionError"


def divided_by_tensor(ctx: Lowering, name: str, x: Operand, y: Tensor) -> Tensor:
    """``name`` of an operand and a tensor of integers, where none of the divisors may be 0."""
    dtype = ctx.out.dtype
    if dtype is torch.bool:
        return ctx.unsupported("division of bools")
    # Divisors that nothing is divided by do not count.
    if y.shape != ctx.out.shape and not all(ctx.known(size > 0) is True for size in ctx.out.shape):
        return ctx.unsupported("division of integers raises for 0, if there is something to divide")
    y = ctx.share(y)
    how = Folding(y.shape, tuple(range(y.ndim)), False)

    def is_fine(indices: Indices) -> Value:
        return compare("ne", cast(y.at(indices), dtype), 0)

    fine = is_fine(ctx.axes(y.shape)[1])
    if not (fine.op == "const" and fine.data):
        emit_check(ctx, fold(ctx, "all", how, is_fine, inner_spec(ctx, how, torch.bool, y.device)), MESSAGE)

    def divide(a: Value, b: Value) -> Value:
        # The quotient of the smallest integer by -1 overflows, which processors trap.
        zero, minus = compare("eq", b, 0), compare("eq", b, -1 if dtype.is_signed else 0)
        quotient = ir.op(name, a, where(either(zero, minus), 1, b))
        if not dtype.is_signed:
            return quotient
        return where(minus, neg(a) if name.startswith("div") else mul(a, 0), quotient)

    return pointwise(ctx, divide, x, y)
