"""Conversions between dtypes, with torch's results."""

from __future__ import annotations

import struct

import torch

from .operands import Operand, type_of
from .scopes import Emitter

HALVES = (torch.float16, torch.bfloat16)

NAN = 0x7FC00000
"""The bits of the only NaN that rounding to bfloat16 gives."""


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
    if value.single is not None:
        return value.single
    if value.dtype is torch.float16:
        return e.convert("fpext", value, torch.float32)
    if value.is_constant and value.text != "poison":
        bits = int(value.text.removeprefix("splat (i16 ").removesuffix(")")) & 0xFFFF
        return e.constant(struct.unpack("<f", struct.pack("<I", bits << 16))[0], torch.float32, value.lanes)
    wide = e.binary("shl", e.convert("zext", value, torch.int32), e.constant(16, torch.int32, value.lanes))
    single = e.convert("bitcast", wide, torch.float32)
    single.rounded = single.short_nan = True
    return single


def _to_float(e: Emitter, value: Operand, dtype: torch.dtype) -> Operand:
    source = value.dtype
    if not source.is_floating_point:
        signed = source.is_signed and source is not torch.bool
        if dtype in HALVES:
            # Through float32, as torch does: its rounding first, then the half's.
            return _to_float(e, _to_float(e, value, torch.float32), dtype)
        number = e.convert("sitofp" if signed else "uitofp", value, dtype)
        number.short_nan = True
        return number
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
    """To nearest, ties to even. The instruction for it would flush numbers below the normal ones to zero.

    The number is rounded as a float32, which what follows in registers goes on with: only stores need it narrow.
    """
    single = value
    if not value.rounded:
        whole = e.target.vector_bytes // 4
        if e.target.has_dot_products and value.lanes % whole == 0:
            single = e.join([_round_by_dot_product(e, piece) for piece in e.pieces(value, whole)])
        else:
            single = _round(e, value)
        single.rounded = single.short_nan = True
    bits = e.convert("bitcast", single, torch.int32)
    narrow = e.convert("trunc", e.binary("lshr", bits, e.constant(16, torch.int32, bits.lanes)), torch.bfloat16)
    narrow.single = single
    return narrow


def _round(e: Emitter, value: Operand) -> Operand:
    """A float32 as the nearest one that is a bfloat16; any NaN as the one that torch makes.

    A NaN whose lower half is zero stays as it is.
    """

    def number(bits: int) -> Operand:
        return e.constant(bits, torch.int32, value.lanes)

    bits = e.convert("bitcast", value, torch.int32)
    odd = e.binary("and", e.binary("lshr", bits, number(16)), number(1))
    rounded = e.binary("and", e.binary("add", e.binary("add", bits, number(0x7FFF)), odd), number(-0x10000))
    chosen = rounded if value.short_nan else e.select(e.compare("uno", value, value), number(NAN), rounded)
    return e.convert("bitcast", chosen, torch.float32)


def _round_by_dot_product(e: Emitter, value: Operand) -> Operand:
    """Rounds to bfloat16 in three or four instructions rather than five or seven.

    ``vfixupimm`` puts the NaN in place of others. ``vpdpwssd`` adds the products of both 16-bit halves to the bits:
    with 0x7FFF in the lower half and the bit that says odd in the upper one, times 1 each, that is all there is to add.
    """
    lanes = value.lanes
    floats, integers = value.type, type_of(torch.int32, lanes)

    def number(bits: int) -> Operand:
        return e.constant(bits, torch.int32, lanes)

    if not value.short_nan:
        fixup = e.module.declare("llvm.x86.avx512.mask.fixupimm.ps.512", floats,
                                 f"{floats}, {floats}, {integers}, i32 immarg, i16, i32 immarg")
        nan = e.convert("bitcast", number(NAN), torch.float32)
        # Per kind of number four bits, NaNs' lowest: 0 takes the first operand, 1 the second.
        value = e.instruction(f"call {floats} @{fixup}({nan.typed}, {value.typed}, {number(0x11111100).typed}, i32 0, "
                              f"i16 -1, i32 4)", torch.float32, lanes)
    bits = e.convert("bitcast", value, torch.int32)
    halves = e.binary("or", e.binary("and", bits, number(0x10000)), number(0x7FFF))
    dot = e.module.declare("llvm.x86.avx512.vpdpwssd.512", integers, f"{integers}, {integers}, {integers}")
    total = e.instruction(f"call {integers} @{dot}({bits.typed}, {halves.typed}, {number(0x10001).typed})",
                          torch.int32, lanes)
    return e.convert("bitcast", e.binary("and", total, number(-0x10000)), torch.float32)


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
