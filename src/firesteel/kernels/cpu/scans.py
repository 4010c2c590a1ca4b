"""Scans as code: a running result along an axis, stored at every point.

Lanes are those of a loop around, where there is one to vectorise, and the scan goes along its axis one point after the
other. Otherwise they are points of the axis: each vector is scanned in a few steps, of one lane, two lanes, four lanes

    1 2 3 4 -> 1 1+2 2+3 3+4 -> 1 1+2 1+2+3 1+2+3+4

and what came before is added to all of it, so that vectors wait for each other only for one operation.
"""

from __future__ import annotations

import torch

from ...functional.graph import Unsupported
from ..ir import Scan
from . import operations
from .conversions import cast
from .operands import Operand
from .reductions import neutral
from .statements import StatementEmitter, constant_size

COMBINE = {"cumsum": ("sum", "add"), "cumprod": ("prod", "mul"), "cummax": ("max", "max"), "cummin": ("min", "min")}


def emit_scan(e: StatementEmitter, statement: Scan) -> None:
    """Run along the axis and store."""
    if constant_size(statement.axis.size) == 0:
        return
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
    # Where a product leaves the range of numbers depends on the order.
    any_order = statement.kind in COMBINE and not (statement.kind == "cumprod" and kept.is_floating_point)
    if e.axis is None and any_order:
        _along_lanes(e, statement, kept, start)
        return
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


def _along_lanes(e: StatementEmitter, statement: Scan, kept: torch.dtype, start: bool | int | float) -> None:
    """A scan whose own points are the lanes."""
    lanes = max(e.target.vector_bytes // max(kept.itemsize, 4), 2)
    known = constant_size(statement.axis.size)
    while known is not None and lanes > 2 and known <= lanes // 2:
        lanes //= 2
    op = COMBINE[statement.kind][1]
    neutral_lanes = e.constant(start, kept, lanes)
    running = e.variable(kept, lanes, neutral_lanes)

    # Zeros that LLVM does not see as such: it would shift them in by an instruction that is far slower than a shuffle.
    hidden = e.variable(kept, lanes, neutral_lanes)
    unknown = e.instruction(f"load volatile {neutral_lanes.type}, ptr {hidden}", kept, lanes)

    def emit(copy: int) -> None:
        value = e.splat(cast(e, e.value(statement.value), kept), lanes)
        if e.mask is not None:
            value = e.select(e.mask, value, neutral_lanes)
        distance = 1
        while distance < lanes:
            earlier = e.shuffle(unknown, value, [lanes - distance + lane for lane in range(lanes)])
            value = operations.emit(e, op, kept, [earlier, value])
            distance *= 2
        before = e.read(running, kept, lanes)
        last = e.shuffle(value, None, [lanes - 1] * lanes)
        e.write(running, operations.emit(e, op, kept, [before, last]))
        after = operations.emit(e, op, kept, [before, value])
        args = [e.value(arg) for arg in statement.args]
        e.store(statement.place, cast(e, after, statement.dtype), args)
        e.scopes[-1].volatile.clear()

    e.lane_loop(statement.axis.symbol, e.integer(0), e.size(statement.axis.size), lanes, 1, emit)


def _add_exponentials(e: StatementEmitter, x: Operand, y: Operand) -> Operand:
    """log(exp(x) + exp(y)) without overflow; x is returned where both are infinite and equal."""
    larger = operations.emit(e, "max", x.dtype, [x, y])
    smaller = operations.emit(e, "min", x.dtype, [x, y])
    difference = operations.emit(e, "exp", x.dtype, [operations.emit(e, "sub", x.dtype, [smaller, larger])])
    total = operations.emit(e, "add", x.dtype, [larger, operations.emit(e, "log1p", x.dtype, [difference])])
    infinite = operations.emit(e, "isinf", torch.bool, [larger])
    same = e.binary("and", infinite, e.compare("oeq", x, y))
    return e.select(same, x, total)
