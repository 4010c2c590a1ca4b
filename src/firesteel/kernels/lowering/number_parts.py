"""Floats taken apart: mantissa and exponent."""

from __future__ import annotations

from typing import Any

import torch

from .. import ir
from ..ir import Value
from .context import Lowering
from .registry import lowering
from .scalars import compare, either, mul, op, sub, where
from .tensors import Indices, Tensor


def _parts(value: Value) -> tuple[Value, Value]:
    """``mantissa * 2**exponent`` with the mantissa in [0.5, 1); the exponent as an integer of the float's width."""
    dtype = value.dtype
    bits, shift, bias = (torch.int32, 23, 126) if dtype is torch.float32 else (torch.int64, 52, 1022)
    width = 8 * dtype.itemsize
    # Numbers too small for an exponent of their own are made larger first.
    tiny = compare("lt", op("abs", value), float(torch.finfo(dtype).tiny))
    scaled = where(tiny, mul(value, 2.0 ** (shift + 1)), value)
    pattern = Value("bitcast", bits, (scaled,))
    exponent = op("and", op("shr", pattern, shift), (1 << (width - 1 - shift)) - 1)
    exponent = sub(sub(exponent, bias), where(tiny, ir.const(shift + 1, bits), 0))
    rest = op("and", pattern, -(1 << (width - 1)) | ((1 << shift) - 1))
    mantissa = Value("bitcast", dtype, (op("or", rest, bias << shift),))
    plain = either(either(compare("eq", value, 0), op("isnan", value)), op("isinf", value))
    return where(plain, value, mantissa), where(plain, ir.const(0, bits), exponent)


@lowering("aten.frexp.Tensor")
def frexp(ctx: Lowering, x: Tensor) -> Any:
    if x.dtype not in (torch.float32, torch.float64):
        return ctx.unsupported("short floats")
    mantissas, exponents = ctx.outs
    assert mantissas is not None and exponents is not None
    x = ctx.share(x)

    def exponent(indices: Indices) -> Value:
        return ir.cast(_parts(x.at(indices))[1], torch.int32)

    return (ctx.computed(lambda indices: _parts(x.at(indices))[0], mantissas), ctx.computed(exponent, exponents))
