"""Two reductions in one pass over a long row, where the second looks at the result of the first.

    a0 = max(i1 < n) v                          the largest so far, and the sum so far for that:
    a1 = sum(i1 < n) exp(sub(v, a0))            when the largest changes, the sum is scaled. Either the sum or the next
                                                element has to be scaled, so one exponential is enough

    a0 = sum(i1 < n) v                          mean and sum of squares around it, so far (Welford):
    a1 = sum(i1 < n) d * d                      exact for any centre, here d = v - a0 / n
        with d = sub(v, div(a0, c))

Each lane does that for its own elements; at the end the lanes are put together. All lanes have seen the same number of
elements, except that the last block may have none for some: so one division for a block is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch

from ...shapes import Expr
from .. import ir
from ..ir import Loop, Reduce, Statement, Store, Value


@dataclass(frozen=True)
class Pair:
    """A reduction and the later one that can be done with it."""

    first: Reduce
    second: Reduce
    centre: Value | None
    """Of a sum of squares, what is subtracted; None for a sum of exponentials."""


def find_pair(body: Sequence[Statement], at: int, scratch: Collection[str] = ()) -> Pair | None:
    """The pair that begins with a statement. Between them, a loop may keep what the second adds up in scratch memory;
    nothing else may be there that matters to it."""
    first = body[at]
    if not isinstance(first, Reduce) or not first.dtype.is_floating_point or first.value.dtype is not first.dtype:
        return None
    rows: dict[tuple[str, Expr], Value] = {}
    for second in body[at + 1:]:
        if isinstance(second, Reduce):
            if second.axes != first.axes or second.kind != "sum" or second.dtype is not first.dtype:
                return None
            value = second.value
            if value.op == "load" and not value.args:
                value = rows.get((value.data.buffer, value.data.index), value)
            if first.kind == "max" and _is_exponential(value, first):
                return Pair(first, second, None)
            if first.kind == "sum" and (centre := _centre_of_squares(value, first)) is not None:
                return Pair(first, second, centre)
            return None
        if isinstance(second, Loop) and second.axis in first.axes and len(first.axes) == 1:
            if not all(isinstance(store, Store) and store.place.buffer in scratch for store in second.body):
                return None
            rows.update({(store.place.buffer, store.place.index): store.value for store in second.body
                         if isinstance(store, Store)})
        elif isinstance(second, Loop | ir.Scan):
            return None
    return None


def _is_exponential(value: Value, first: Reduce) -> bool:
    if value.op != "exp" or value.args[0].op != "sub":
        return False
    left, right = value.args[0].args
    return left is first.value and right is ir.local(first.name, first.dtype)


def _centre_of_squares(value: Value, first: Reduce) -> Value | None:
    if value.op != "mul" or value.args[0] is not value.args[1] or value.args[0].op != "sub":
        return None
    left, centre = value.args[0].args
    mean = centre.op == "div" and all(node.op in ("const", "number", "index", "cast") for node in centre.args[1].walk())
    return centre if left is first.value and mean and centre.args[0] is ir.local(first.name, first.dtype) else None


def start_lines(pair: Pair, shape: str, dtype: str) -> list[str]:
    """What the lanes begin with."""
    a, b = pair.first.name, pair.second.name
    if pair.centre is None:
        # A lane that has seen nothing yet has the least finite number and an empty sum; infinity less itself is NaN.
        least = -1.7976931348623157e308 if pair.first.dtype is torch.float64 else -3.4028234663852886e38
        return [f"{a}_lanes = tl.full({shape}, {least}, {dtype})", f"{b}_lanes = tl.full({shape}, 0, {dtype})"]
    return [f"{a}_blocks = tl.full([], 0, {dtype})",
            *[f"{a}_{part} = tl.full({shape}, 0, {dtype})" for part in ("mean", "lanes")]]


def step_lines(pair: Pair, value: str, mask: str | None, helper: Callable[[str], str]) -> list[str]:
    """What the lanes do with the next elements."""
    a, b = pair.first.name, pair.second.name
    if pair.centre is None:
        wide = pair.first.dtype is torch.float64
        largest, scaling = helper("maximum"), helper("double_scaling" if wide else "scaling")
        here = f"tl.where({mask}, {value}, float('-inf'))" if mask else value
        return [
            f"{a}_here = {here}",
            f"{a}_scale = {scaling}({a}_here - {a}_lanes)",
            f"{b}_lanes = tl.where({a}_here > {a}_lanes, tl.fma({b}_lanes, {a}_scale, 1.0), {b}_lanes + {a}_scale)",
            f"{a}_lanes = {largest}({a}_lanes, {a}_here)",
        ]
    off = f"{value} - {a}_mean"
    return [
        f"{a}_blocks = {a}_blocks + 1.0",
        f"{a}_part = 1.0 / {a}_blocks",
        f"{a}_off = tl.where({mask}, {off}, 0.0)" if mask else f"{a}_off = {off}",
        f"{a}_mean = tl.fma({a}_off, {a}_part, {a}_mean)",
        f"{a}_lanes = tl.fma({a}_off * {a}_off, 1.0 - {a}_part, {a}_lanes)",
    ]


def end_lines(pair: Pair, centre: Callable[[Value], str], helper: Callable[[str], str],
              count: str | None) -> list[str]:
    """The results of the row; ``centre`` is called once the first result is there. ``count`` says how many elements
    each lane has seen, where that is not one for each block."""
    a, b = pair.first.name, pair.second.name
    if pair.centre is None:
        return [
            f"{a}_lanes = tl.where({b}_lanes == 0.0, float('-inf'), {a}_lanes)",
            f"{a} = tl.reduce({a}_lanes, 1, {helper('maximum')})[:, None]",
            f"{b} = tl.sum({b}_lanes * libdevice.exp({a}_lanes - {a}), 1)[:, None]",
        ]
    return [
        f"{a}_count = {count or f'{a}_blocks'}",
        f"{a} = tl.sum({a}_mean * {a}_count, 1)[:, None]",
        f"{a}_off = {a}_mean - {centre(pair.centre)}",
        f"{b} = tl.sum({a}_lanes + {a}_count * {a}_off * {a}_off, 1)[:, None]",
    ]
