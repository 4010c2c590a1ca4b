"""Division of vectors of int64 by a constant, for which CPUs have no instruction: a multiplication.

    a // d  ->  (a * ceil(2**k / d)) >> k
"""

from __future__ import annotations

import torch

from .operands import Operand
from .scopes import Emitter


def splat_number(operand: Operand) -> int | None:
    """The number that all lanes of a constant vector of int64 are; None if it is no such vector."""
    start = "splat (i64 "
    known = operand.dtype is torch.int64 and operand.text.startswith(start)
    return int(operand.text[len(start):-1]) if known else None


def has_reciprocal(divisor: int) -> bool:
    """Whether to multiply instead of dividing: powers of two are shifted by."""
    return 2 < divisor < 2**62 and divisor & (divisor - 1) != 0


def floored(e: Emitter, a: Operand, divisor: int, nonnegative: bool = False) -> Operand:
    """``a // divisor``, rounded down, for all numbers of 64 bits; without signs where there are none.

    The upper half of a product of 64 bits is put together from products of 32 bits. Negative numbers are inverted bit
    by bit, before and after, which rounds them down.
    """
    length = (divisor - 1).bit_length()
    factor = (1 << (63 + length)) // divisor + 1

    def constant(value: int) -> Operand:
        return e.constant(value, torch.int64, a.lanes)

    def upper(x: Operand) -> Operand:
        return e.binary("lshr", x, constant(32))

    def lower(x: Operand) -> Operand:
        return e.binary("and", x, constant(2**32 - 1))

    sign = e.binary("ashr", a, constant(63))
    size = a if nonnegative else e.binary("xor", a, sign)
    below, above = constant(factor & (2**32 - 1)), constant(factor >> 32)
    first, second, third, last = (e.binary("mul", x, y) for x in (lower(size), upper(size)) for y in (below, above))
    # first + (second + third) * 2**32 + last * 2**64: of the sum of the middle ones what is carried counts
    middle = e.binary("add", upper(first), second)
    carried = e.binary("add", lower(middle), third)
    total = e.binary("add", e.binary("add", last, upper(middle)), upper(carried))
    quotient = e.binary("lshr", total, constant(length - 1))
    return quotient if nonnegative else e.binary("xor", quotient, sign)
