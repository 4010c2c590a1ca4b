"""Scans as code: a running result along an axis, stored at every point.

They go along the axis one point after the other. Lanes are those of a loop around, where there is one to vectorise.
"""

from __future__ import annotations

import torch

from ..ir import Scan
from . import operations
from .conversions import cast
from .reductions import neutral
from .statements import StatementEmitter
from .text import Operand, Unsupported

COMBINE = {"cumsum": ("sum", "add"), "cumprod": ("prod", "mul"), "cummax": ("max", "max"), "cummin": ("min", "min")}


def emit_scan(e: StatementEmitter, statement: Scan) -> None:
    """Run along the axis and store."""
    dtype = statement.value.dtype
    if dtype in (torch.bfloat16, torch.float16):
        dtype = torch.float32
    # Long sums of floats would lose digits: torch's scan keeps them in float64, and so does this.
    kept = torch.float64 if dtype is torch.float32 and statement.kind in ("cumsum", "cumprod") else dtype
    if statement.kind == "logcumsumexp":
        start: bool | int | float = float("-inf")
    elif statement.kind in COMBINE:
        start = neutral(COMBINE[statement.kind][0], dtype)
    else:
        raise Unsupported(f"the scan {statement.kind}")
    running = e.variable(kept, e.lanes, e.constant(start, kept, e.lanes))
    with e.counted(statement.axis.symbol, e.integer(0), e.size(statement.axis.size)):
        value = e.splat(cast(e, e.value(statement.value), kept), e.lanes)
        before = e.read(running, kept, e.lanes)
        if statement.kind == "logcumsumexp":
            after = _add_exponentials(e, before, value)
        else:
            after = operations.emit(e, COMBINE[statement.kind][1], kept, [before, value])
        e.write(running, after)
        args = [e.value(arg) for arg in statement.args]
        e.store(statement.place, cast(e, after, statement.dtype), args)
        e.scopes[-1].volatile.clear()


def _add_exponentials(e: StatementEmitter, x: Operand, y: Operand) -> Operand:
    """log(exp(x) + exp(y)) without overflow; x is returned where both are infinite and equal."""
    larger = operations.emit(e, "max", x.dtype, [x, y])
    smaller = operations.emit(e, "min", x.dtype, [x, y])
    difference = operations.emit(e, "exp", x.dtype, [operations.emit(e, "sub", x.dtype, [smaller, larger])])
    total = operations.emit(e, "add", x.dtype, [larger, operations.emit(e, "log1p", x.dtype, [difference])])
    infinite = operations.emit(e, "isinf", torch.bool, [larger])
    same = e.binary("and", infinite, e.compare("oeq", x, y))
    return e.select(same, x, total)
