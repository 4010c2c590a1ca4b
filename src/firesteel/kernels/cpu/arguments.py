"""argmax and argmin as code: the best value so far and where it was, in every lane.

The first of equal values wins, and a NaN before all others. Reductions over several axes count positions as if the axes
were one.
"""

from __future__ import annotations

import torch

from ...shapes import Expr, as_expr
from ..ir import Reduce
from . import vectorising
from .conversions import HALVES, cast
from .operands import Operand
from .reductions import neutral, order_axes
from .statements import StatementEmitter, constant_size

FAR = 2**63 - 1


def emit_argument(e: StatementEmitter, statement: Reduce) -> Operand:
    """The position of the extreme value."""
    dtype = statement.value.dtype
    dtype = torch.float32 if dtype in HALVES else torch.uint8 if dtype is torch.bool else dtype
    order, vectorised = order_axes(e, statement)
    axes = [statement.axes[i] for i in order]
    position: Expr = as_expr(0)
    for axis in statement.axes:
        position = position * axis.size + axis.symbol
    lanes = vectorising.lanes_for([statement], e.target.vector_bytes) if vectorised else e.lanes
    known = constant_size(axes[-1].size)
    while vectorised and known is not None and lanes > 2 and known <= lanes // 2:
        lanes //= 2
    worst = neutral("max" if statement.kind == "argmax" else "min", dtype)
    best = e.variable(dtype, lanes, e.constant(worst, dtype, lanes))
    where = e.variable(torch.int64, lanes, e.constant(FAR, torch.int64, lanes))

    def accumulate(copy: int) -> None:
        value = e.splat(cast(e, e.value(statement.value), dtype), lanes)
        at = e.splat(e.index(position), lanes)
        old, old_at = e.read(best, dtype, lanes), e.read(where, torch.int64, lanes)
        better = _better(e, statement.kind, value, at, old, old_at)
        if e.mask is not None and vectorised:
            better = e.binary("and", better, e.mask)
        e.write(best, e.select(better, value, old))
        e.write(where, e.select(better, at, old_at))

    def nest(depth: int) -> None:
        axis = axes[depth]
        zero, end = e.integer(0), e.size(axis.size)
        if depth + 1 < len(axes):
            with e.counted(axis.symbol, zero, end):
                nest(depth + 1)
        elif vectorised:
            e.lane_loop(axis.symbol, zero, end, lanes, 1, accumulate)
        else:
            with e.counted(axis.symbol, zero, end):
                accumulate(0)

    nest(0)
    value, at = e.read(best, dtype, lanes), e.read(where, torch.int64, lanes)
    if vectorised:
        while value.lanes > 1:
            half = value.lanes // 2
            low, high = list(range(half)), list(range(half, 2 * half))
            if half == 1:
                first = [e.extract(value, 0), e.extract(at, 0)]
                second = [e.extract(value, 1), e.extract(at, 1)]
            else:
                first = [e.shuffle(value, None, low), e.shuffle(at, None, low)]
                second = [e.shuffle(value, None, high), e.shuffle(at, None, high)]
            better = _better(e, statement.kind, second[0], second[1], first[0], first[1])
            value, at = e.select(better, second[0], first[0]), e.select(better, second[1], first[1])
    return cast(e, at, statement.dtype)


def _better(e: StatementEmitter, kind: str, value: Operand, at: Operand, old: Operand, old_at: Operand) -> Operand:
    """Whether a value comes before the best so far: greater, or as great and earlier."""
    floating = value.dtype.is_floating_point
    prefix = "o" if floating else "s" if value.dtype.is_signed else "u"
    beyond = e.compare(prefix + ("gt" if kind == "argmax" else "lt"), value, old)
    equal = e.compare("oeq" if floating else "eq", value, old)
    earlier = e.compare("slt", at, old_at)
    if floating:
        nan, old_nan = e.compare("uno", value, value), e.compare("uno", old, old)
        yes = e.constant(True, torch.bool, value.lanes)
        beyond = e.binary("or", beyond, e.binary("and", nan, e.binary("xor", old_nan, yes)))
        equal = e.binary("or", equal, e.binary("and", nan, old_nan))
    return e.binary("or", beyond, e.binary("and", equal, earlier))


