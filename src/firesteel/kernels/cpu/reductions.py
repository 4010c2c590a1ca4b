"""Reductions as code: several vector accumulators, combined at the end.

A sum of floats is kept in two levels. Short runs are added up in float32, and each run's result in float64: the error
does not grow with the length, and is no more than that of adding in pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ...functional.graph import Unsupported
from ..ir import Axis, Reduce
from ..operations import HEAVY
from . import operations, pairs, vectorising
from .conversions import cast
from .operands import Operand
from .statements import StatementEmitter, constant_size

ACCUMULATORS = 4
RUN = 32
"""How many times an accumulator is added to before its sum goes to the second level."""


def emit_reduce(e: StatementEmitter, statement: Reduce) -> None:
    """Bind the reduction to its name."""
    if statement.kind in ("argmax", "argmin"):
        from .arguments import emit_argument

        result = emit_argument(e, statement)
    else:
        result = Reduction(e, statement).emit()
    e.bind_local(statement.name, result)


def order_axes(e: StatementEmitter, statement: Reduce) -> tuple[list[int], bool]:
    """The axes from outside to inside, and whether the last one becomes lanes."""
    count = len(statement.axes)
    order = list(range(count))
    if e.axis is not None:
        return order, False
    side_by_side = [vectorising.contiguous([statement], axis.symbol) for axis in statement.axes]
    best = max(order, key=lambda i: (side_by_side[i][0] - side_by_side[i][1], i))
    order.remove(best)
    return [*order, best], True


class Reduction:
    """One reduction that combines values with an associative operation."""

    def __init__(self, e: StatementEmitter, statement: Reduce) -> None:
        self.e = e
        self.statement = statement
        self.kind = statement.kind
        self.dtype = torch.bool if self.kind in ("any", "all") else statement.value.dtype
        if self.dtype in (torch.bfloat16, torch.float16):
            self.dtype = torch.float32
        if self.kind not in ("sum", "prod", "max", "min", "any", "all", "xor"):
            raise Unsupported(f"the reduction {self.kind}")
        self.paired = False
        self.tracks_nan = self.kind in ("max", "min") and self.dtype.is_floating_point

    def neutral(self, lanes: int) -> Operand:
        return self.e.constant(neutral(self.kind, self.dtype), self.dtype, lanes)

    def combine(self, left: Operand, right: Operand) -> Operand:
        e = self.e
        if self.tracks_nan:
            # The machine's own instruction: NaN is tracked apart
            return e.select(e.compare("ogt" if self.kind == "max" else "olt", right, left), right, left)
        name = {"sum": "add", "prod": "mul", "any": "or", "all": "and"}.get(self.kind, self.kind)
        if self.dtype is torch.bool and name in ("add", "mul"):
            name = {"add": "or", "mul": "and"}[name]
        return operations.emit(e, name, left.dtype, [left, right])

    def emit(self) -> Operand:
        e, statement = self.e, self.statement
        order, vectorised = order_axes(e, statement)
        axes = [statement.axes[i] for i in order]
        if vectorised:
            lanes = vectorising.lanes_for([statement], e.target.vector_bytes)
            self.paired = pairs.applies([statement], axes[-1].symbol, e.dtypes)
            if self.paired:
                lanes *= 2
            known = constant_size(axes[-1].size)
            while known is not None and lanes > 2 and known <= lanes // 2:
                lanes //= 2
            heavy = any(node.op in HEAVY for node in statement.value.walk())
            copies = e.target.tuning.accumulators or (1 if heavy else ACCUMULATORS)
            while known is not None and copies > 1 and known < lanes * copies:
                copies //= 2
        else:
            lanes = e.lanes
            copies = 1
        self.lanes = lanes
        self.accumulators = [e.variable(self.dtype, lanes, self.neutral(lanes)) for _ in range(copies)]
        self.nans = ([e.variable(torch.bool, lanes, e.constant(False, torch.bool, lanes)) for _ in range(copies)]
                     if self.tracks_nan else [])
        self.second: list[str] = []
        self.two_levels = self._needs_two_levels(axes, lanes * copies if vectorised else 1)
        if self.two_levels:
            self.second = [e.variable(torch.float64, lanes, e.constant(0.0, torch.float64, lanes))]
        self._nest(axes, lanes, copies, vectorised)
        result = self._finish(vectorised)
        return cast(e, result, statement.dtype)

    def _needs_two_levels(self, axes: list[Axis], width: int) -> bool:
        if self.kind != "sum" or not self.dtype.is_floating_point:
            return False
        total = 1
        for axis in axes:
            size = constant_size(axis.size)
            if size is None:
                return True
            total *= size
        return total > 4 * RUN * width if width > 1 else total > RUN

    def _nest(self, axes: list[Axis], lanes: int, copies: int, vectorised: bool) -> None:
        e = self.e
        axis = axes[0]
        end = e.size(axis.size)
        zero = e.integer(0)
        if len(axes) > 1:
            with e.counted(axis.symbol, zero, end):
                self._nest(axes[1:], lanes, copies, vectorised)
            return
        if not self.two_levels:
            if vectorised:
                e.lane_loop(axis.symbol, zero, end, lanes, copies, self._accumulate, self.paired)
            else:
                with e.counted(axis.symbol, zero, end):
                    self._accumulate(0)
            return
        run = RUN * (lanes * copies if vectorised else 1)
        # An inner loop for every run, which may be shorter at the end
        with e.loop(zero, end, run, False) as start:
            stop = e.intrinsic("smin", e.binary("add nsw", start, e.integer(run)), end)
            if vectorised:
                e.lane_loop(axis.symbol, start, stop, lanes, copies, self._accumulate, self.paired)
            else:
                with e.counted(axis.symbol, start, stop, runs=True):
                    self._accumulate(0)
            self._flush()

    def _accumulate(self, copy: int) -> None:
        e = self.e
        value = cast(e, e.value(self.statement.value), self.dtype)
        value = e.splat(value, self.lanes)
        if e.mask is not None and self.lanes == e.mask.lanes and e.axis in [a.symbol for a in self.statement.axes]:
            value = e.select(e.mask, value, self.neutral(self.lanes))
        name = self.accumulators[copy]
        if self.tracks_nan:
            seen = e.read(self.nans[copy], torch.bool, self.lanes)
            e.write(self.nans[copy], e.binary("or", seen, e.compare("uno", value, value)))
        e.write(name, self.combine(e.read(name, self.dtype, self.lanes), value))

    def _flush(self) -> None:
        """Move the sums of a run to the second level."""
        e, lanes = self.e, self.lanes
        total = None
        for name in self.accumulators:
            part = e.read(name, self.dtype, lanes)
            e.write(name, self.neutral(lanes))
            total = part if total is None else e.binary("fadd", total, part)
        assert total is not None
        wide = cast(e, total, torch.float64)
        e.write(self.second[0], e.binary("fadd", e.read(self.second[0], torch.float64, lanes), wide))

    def _finish(self, vectorised: bool) -> Operand:
        e, lanes = self.e, self.lanes
        if self.two_levels:
            total = e.read(self.second[0], torch.float64, lanes)
            return across(e, total, lambda a, b: e.binary("fadd", a, b)) if vectorised else total
        parts = [e.read(name, self.dtype, lanes) for name in self.accumulators]
        result = parts[0]
        for part in parts[1:]:
            result = self.combine(result, part)
        if vectorised:
            result = across(e, result, self.combine)
        if self.tracks_nan:
            seen = e.read(self.nans[0], torch.bool, lanes)
            for name in self.nans[1:]:
                seen = e.binary("or", seen, e.read(name, torch.bool, lanes))
            if vectorised and lanes > 1:
                seen = e.call_mask("or", seen)
            result = e.select(seen, e.constant(math.nan, self.dtype, result.lanes), result)
        return result


def across(e: StatementEmitter, vector: Operand, combine: Callable[[Operand, Operand], Operand]) -> Operand:
    """All lanes combined, halves with halves."""
    while vector.lanes > 1:
        half = vector.lanes // 2
        if half == 1:
            low, high = e.extract(vector, 0), e.extract(vector, 1)
        else:
            low = e.shuffle(vector, None, list(range(half)))
            high = e.shuffle(vector, None, list(range(half, 2 * half)))
        vector = combine(low, high)
    return vector


def neutral(kind: str, dtype: torch.dtype) -> bool | int | float:
    """What changes nothing when combined."""
    match kind:
        case "sum" | "xor":
            return 0
        case "prod":
            return 1
        case "any":
            return False
        case "all":
            return True
    if dtype is torch.bool:
        return kind == "min"
    if dtype.is_floating_point:
        return -math.inf if kind == "max" else math.inf
    limits = torch.iinfo(dtype)
    return limits.min if kind == "max" else limits.max
