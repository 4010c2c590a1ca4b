"""Complex numbers: memory in which real and imaginary parts lie side by side. Kernels compute with the parts alone.

    real: f64[8] = ...; imaginary: f64[8] = ...
    out: complex128[8] = aten.complex.default(real, imaginary)

fills memory in two computations, ``out[2*i0] = real`` and ``out[2*i0 + 1] = imaginary``, and ``view_as_real`` is the
same memory under other strides. What computes with complex numbers was taken apart by `passes.complex_parts`.
"""

from __future__ import annotations

import torch

from ... import shapes
from .context import Lowering
from .reducing import own_strides
from .registry import lowering
from .tensors import ONE, Spec, Stored, Tensor
from .views import expanded

DTYPES = frozenset({torch.complex64, torch.complex128})
NAMES = frozenset({"aten.complex.default", "aten.view_as_real.default"})
"""The operators of this file. No other lowering can be given complex numbers, but those of views can."""
ON_GPUS = "complex numbers on GPUs are ATen's"


@lowering("aten.view_as_real.default")
def view_as_real(ctx: Lowering, x: Tensor) -> Tensor:
    stored = x.stored()
    if not ctx.kind.is_host:
        return ctx.unsupported(ON_GPUS)
    if stored is None or x.dtype not in DTYPES:
        return ctx.unsupported("no memory to look at")
    strides = (*[2 * stride for stride in stored.strides], ONE)
    return Stored(ctx, stored.buffer, (*x.shape, shapes.const(2)), strides, 2 * stored.offset, x.dtype.to_real(),
                  x.device)


@lowering("aten.complex.default")
def complex_(ctx: Lowering, real: Tensor, imaginary: Tensor) -> Tensor:
    spec = ctx.out
    if not ctx.kind.is_host:
        return ctx.unsupported(ON_GPUS)
    if spec.dtype not in DTYPES:
        return ctx.unsupported("parts of a dtype that values cannot have")
    target = ctx.new_buffer(Spec(spec.shape, own_strides(spec), spec.dtype, spec.device))
    strides = [2 * stride for stride in target.strides]
    for offset, part in enumerate((real, imaginary)):
        place = Stored(ctx, target.buffer, spec.shape, strides, shapes.const(offset), part.dtype, part.device)
        ctx.fill(place, expanded(ctx, part, spec.shape))
    return target
