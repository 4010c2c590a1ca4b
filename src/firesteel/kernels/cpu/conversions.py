"""Conversions between dtypes, with torch's results."""

from __future__ import annotations

import torch

from .scopes import Emitter
from .text import Operand, type_of

HALVES = (torch.float16, torch.bfloat16)


def cast(e: Emitter, value: Operand, dtype: torch.dtype) -> Operand:
    """As ``Tensor.to``: floats to integers towards zero, anything to bool by ``!= 0``."""
    source = value.dtype
    if source is dtype:
        return value
    if dtype is torch.bool:
        if source in HALVES:
            value = to_single(e, value)
        zero = e.constant(0, value.dtype, value.lanes)
        return e.compare("une" if value.dtype.is_floating_point else "ne", value, zero)
    if dtype.is_floating_point:
        return _to_float(e, value, dtype)
    if source.is_floating_point:
        return _to_integer(e, value, dtype)
    if dtype.itemsize == source.itemsize and source is not torch.bool:
        return Operand(value.text, dtype, value.lanes, value.scope)
    if source is torch.bool:
        return e.convert("zext", value, dtype)
    if dtype.itemsize < source.itemsize:
        return e.convert("trunc", value, dtype)
    return e.convert("sext" if source.is_signed else "zext", value, dtype)


def to_single(e: Emitter, value: Operand) -> Operand:
    """A half as a float32, exactly."""
    if value.dtype is torch.float16:
        return e.convert("fpext", value, torch.float32)
    wide = e.binary("shl", e.convert("zext", value, torch.int32), e.constant(16, torch.int32, value.lanes))
    return e.convert("bitcast", wide, torch.float32)


def _to_float(e: Emitter, value: Operand, dtype: torch.dtype) -> Operand:
    source = value.dtype
    if not source.is_floating_point:
        signed = source.is_signed and source is not torch.bool
        if dtype in HALVES:
            # Through float32, as torch does: its rounding first, then the half's.
            return _to_float(e, e.convert("sitofp" if signed else "uitofp", value, torch.float32), dtype)
        return e.convert("sitofp" if signed else "uitofp", value, dtype)
    if source in HALVES:
        return _to_float(e, to_single(e, value), dtype)
    if dtype is source:
        return value
    if dtype is torch.float64:
        return e.convert("fpext", value, dtype)
    if source is torch.float64:
        value = e.convert("fptrunc", value, torch.float32)
        if dtype is torch.float32:
            return value
    if dtype is torch.float16:
        return e.convert("fptrunc", value, dtype)
    return _to_bfloat(e, value)


def _to_bfloat(e: Emitter, value: Operand) -> Operand:
    """To nearest, ties to even. The instruction for it would flush numbers below the normal ones to zero."""
    lanes = value.lanes

    def number(bits: int) -> Operand:
        return e.constant(bits, torch.int32, lanes)

    bits = e.convert("bitcast", value, torch.int32)
    odd = e.binary("and", e.binary("lshr", bits, number(16)), number(1))
    rounded = e.binary("lshr", e.binary("add", e.binary("add", bits, number(0x7FFF)), odd), number(16))
    nan = e.compare("uno", value, value)
    chosen = e.select(nan, number(0x7FC0), rounded)
    return e.convert("trunc", chosen, torch.bfloat16)


def _to_integer(e: Emitter, value: Operand, dtype: torch.dtype) -> Operand:
    if value.dtype in HALVES:
        value = to_single(e, value)
    # Numbers out of range go the way of the machine's conversion, then lose their upper bits, as in C++.
    wide = torch.int32 if dtype.itemsize < 4 or dtype is torch.int32 else torch.int64
    if wide is torch.int64 and value.lanes > 1 and value.dtype is torch.float32 and not e.target.has_masks:
        value = e.convert("fpext", value, torch.float64)
    whole = e.convert("fptosi", value, wide)
    return cast(e, whole, dtype) if dtype is not wide else whole


def bitcast(e: Emitter, value: Operand, dtype: torch.dtype) -> Operand:
    """The same bits as another dtype of the same size."""
    if type_of(value.dtype, value.lanes) == type_of(dtype, value.lanes):
        return Operand(value.text, dtype, value.lanes, value.scope)
    if value.dtype is torch.bool:
        return bitcast(e, e.convert("zext", value, torch.uint8), dtype)
    if dtype is torch.bool:
        return cast(e, value, dtype)
    return e.convert("bitcast", value, dtype)
