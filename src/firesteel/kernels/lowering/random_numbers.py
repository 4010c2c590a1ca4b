"""Random numbers of a GPU's generator: computed where they are used, from its seed and offset.

`torch_compat.cuda_random` says which number an element gets. The seed and the offset are numbers that the host hands to
kernels, so nothing is stored, and backward draws what forward has drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from ... import shapes
from ...shapes import Expr
from ...torch_compat import cuda_random
from .. import ir
from ..ir import Value
from .context import Lowering
from .registry import lowering
from .tensors import Indices, Spec, Stored, Tensor

STEP = 2.0**-32


def _numbers(convert: Callable[[Value], Value]) -> Any:
    def lower(ctx: Lowering, seed: Tensor, offset: Tensor, shift: int, size: Sequence[int], stride: Sequence[int],
              threads: int, width: int, *, device: torch.device) -> Tensor:
        if not ctx.kind.draws_by_counter:
            return ctx.unsupported("kernels of the CPU have no such numbers")
        if math.prod(size) >= 1 << 31:
            return ctx.unsupported("more elements than 32 bits count")
        if width == 2 and math.prod(size) > 2 * threads:
            return ctx.unsupported("two elements side by side in several turns")

        def body(indices: Indices) -> Value:
            element: Expr = shapes.const(0)
            for index, step in zip(indices, stride, strict=True):
                element = element + index * step
            thread, group, part = _place(ctx, ctx.simplify(element), threads, width)
            start = ir.op("shr", offset.at(()), ir.const(2, torch.int64))
            if shift:
                start = ir.op("add", start, ir.const(shift // 4, torch.int64))
            low = ir.op("add", start, ir.cast(group, torch.int64))
            word = ir.op("philox", seed.at(()), low, ir.cast(thread, torch.int64), ir.cast(part, torch.int64))
            return convert(word)

        return ctx.computed(body)

    return lower


def _fraction(word: Value) -> Value:
    """The middle of the interval that 32 bits name."""
    single = ir.cast(word, torch.float32)
    return ir.op("fma", single, ir.const(STEP, torch.float32), ir.const(STEP / 2, torch.float32))


lowering("firesteel.uniform_from.default")(_numbers(_fraction))
lowering("firesteel.words_from.default")(_numbers(lambda word: word))


def _place(ctx: Lowering, element: Expr, threads: int, width: int) -> tuple[Value, Value, Value]:
    """The thread that draws an element's number, in which of its groups, and the part of that.

    Written such that the compiler sees that neighbours come from one draw.
    """
    at = ir.cast(ctx.index(element), torch.int32)
    several = ctx.known(element < threads * width) is not True
    if width == 1:
        if not several:
            return at, _number(0), _number(0)
        thread, turn = _divided(at, threads)
        return thread, ir.op("shr", turn, _number(2)), ir.op("and", turn, _number(3))
    part = ir.op("and", at, _number(min(width, 4) - 1))
    group = ir.op("shr", ir.op("and", at, _number(width - 1)), _number(2)) if width > 4 else _number(0)
    thread = ir.op("shr", at, _number(width.bit_length() - 1))
    if several:
        assert width >= 4, "with two elements side by side threads draw for one turn only"
        thread, turn = _divided(thread, threads)
        turn = ir.op("mul", turn, _number(width // 4)) if width > 4 else turn
        group = ir.op("add", turn, group) if width > 4 else turn
    return thread, group, part


def _divided(value: Value, by: int) -> tuple[Value, Value]:
    """Remainder and quotient of a number that is not negative."""
    quotient = ir.op("div_trunc", value, _number(by))
    return ir.op("sub", value, ir.op("mul", quotient, _number(by))), quotient


def _number(number: int) -> Value:
    return ir.const(number, torch.int32)


def is_reserve(node: torch.fx.Node) -> bool:
    """Whether a node takes numbers from a generator, for kernels to compute."""
    return str(node.target) == "firesteel.reserve_random.default"


def reserved(ctx: Lowering, node: torch.fx.Node) -> list[Tensor]:
    """The seed and the offset of the generator, which the host moves on."""
    buffers: list[Tensor] = [ctx.new_buffer(Spec.of(part)) for part in node.meta["val"]]
    names = tuple([part.buffer for part in buffers if isinstance(part, Stored)])
    ctx.emit(ir.ExternCall(cuda_random.reserve, node.args, dict(node.kwargs), names, origins=(node,)))
    return buffers
