"""Scatters whose points run all at once, on a GPU: memory combines what meets in one place, in any order.

Memory can add floats of 32 and 64 bits and integers of these sizes, and keep the larger or smaller of two integers. So

- short floats and integers are added up in wider ones, and rounded or wrapped once, at the end;
- the larger of two floats is found by integers in the same order, in which NaN comes last:

      3.0 -> 0x40400000    -3.0 -> 0xC0400000 ^ 0x7FFFFFFF = 0xBFBFFFFF    nan -> 0x7FFFFFFF

Products are left to ATen, and so is everything where torch was told to give the same bits in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ...shapes import Expr
from .. import ir
from ..ir import Value
from .context import Lowering
from .reducing import Body
from .scalars import cast, compare, opmath, where
from .storing import copied, store
from .tensors import Indices, Spec, Stored, Tensor

_SMALL = (torch.bool, torch.uint8, torch.int8, torch.int16)
_KEYS = {torch.float32: torch.int32, torch.float64: torch.int64}


def obstacle(ctx: Lowering, mode: str) -> str:
    """Why stores of a mode at places that may meet are left to ATen; empty where they are not."""
    if not ctx.kind.runs_at_once:
        return ""
    if mode == "mul":
        return "memory does not multiply"
    return "deterministic algorithms are asked for" if torch.are_deterministic_algorithms_enabled() else ""


def summing(dtype: torch.dtype) -> torch.dtype:
    """What elements of a dtype are added up in."""
    return torch.int32 if dtype in _SMALL else opmath(dtype)


def combine_at_once(
    ctx: Lowering,
    x: Tensor,
    shape: Sequence[Expr],
    at: Callable[[Indices], Indices],
    value: Body,
    reduce: str,
    mode: str,
    include_self: bool,
) -> Tensor:
    """``x`` with ``value`` combined with what is at ``at(indices)``, for all indices of ``shape``."""
    out = ctx.out
    wide = summing(out.dtype)
    if mode != "add" and wide.is_floating_point:
        return _extremes(ctx, x, shape, at, value, mode, include_self)
    target = copied(ctx, x, wide, out)
    if not include_self:
        start = ir.const(0 if mode == "add" else _limit(mode, wide), wide)
        store(ctx, target, shape, at, lambda i: start)
    store(ctx, target, shape, at, lambda i: cast(value(i), wide), mode)
    if reduce == "mean":
        return _mean(ctx, target, shape, at, include_self)
    return target if wide is out.dtype else ctx.computed(lambda i: cast(target.at(i), out.dtype))


def _limit(mode: str, dtype: torch.dtype) -> int:
    """What every integer is at least, or at most."""
    limits = torch.iinfo(dtype)
    return limits.min if mode == "max" else limits.max


def _mean(
    ctx: Lowering, sums: Stored, shape: Sequence[Expr], at: Callable[[Indices], Indices], include_self: bool
) -> Tensor:
    dtype = ctx.out.dtype
    kind = torch.int64 if not dtype.is_floating_point else sums.dtype
    spec = ctx.spec(sums.shape, kind, sums.device)
    first, one = ir.const(int(include_self), kind), ir.const(1, kind)
    counts = copied(ctx, ctx.computed(lambda i: first, spec), kind, spec)
    store(ctx, counts, shape, at, lambda i: one, "add")

    def body(indices: Indices) -> Value:
        # Eager's sum has the dtype of the result, in which integers may have wrapped.
        total = sums.at(indices)
        total = cast(total if dtype.is_floating_point else cast(total, dtype), kind)
        count = ir.op("max", counts.at(indices), one)
        return cast(ir.op("div" if dtype.is_floating_point else "div_floor", total, count), dtype)

    return ctx.computed(body)


def _extremes(
    ctx: Lowering, x: Tensor, shape: Sequence[Expr], at: Callable[[Indices], Indices], value: Body, mode: str,
    include_self: bool,
) -> Tensor:
    out = ctx.out
    wide = opmath(out.dtype)
    kind = _KEYS[wide]
    keys = ctx.computed(lambda i: _key(cast(x.at(i), wide), mode), Spec(out.shape, out.strides, kind, out.device))
    target = copied(ctx, keys, kind, out)
    if not include_self:
        start = ir.const(_limit(mode, kind), kind)
        store(ctx, target, shape, at, lambda i: start)
    store(ctx, target, shape, at, lambda i: _key(cast(value(i), wide), mode), mode)
    return ctx.computed(lambda i: cast(_number(target.at(i), wide), out.dtype))


def _key(value: Value, mode: str) -> Value:
    """An integer in the place of a float, with NaN beyond all others."""
    kind = _KEYS[value.dtype]
    limits = torch.iinfo(kind)
    key = _flipped(Value("bitcast", kind, (value,)))
    return where(ir.op("isnan", value), limits.max if mode == "max" else limits.min, key)


def _number(key: Value, dtype: torch.dtype) -> Value:
    return Value("bitcast", dtype, (_flipped(key),))


def _flipped(bits: Value) -> Value:
    """Negative floats are the smaller the larger their other bits are. This is its own inverse."""
    return where(compare("lt", bits, 0), ir.op("xor", bits, ir.const(torch.iinfo(bits.dtype).max, bits.dtype)), bits)
