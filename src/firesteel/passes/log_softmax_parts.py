"""The logarithm of a softmax is kept for backward as two numbers for each row, where its input is shorter than itself.

    wide: f32[8184, 50257] = aten._to_copy.default(logits, dtype=torch.float32)            logits: bf16[8184, 50257]
    log_softmax: f32[8184, 50257] = aten._log_softmax.default(wide, 1, False)

becomes

    amax: f32[8184, 1] = aten.amax.default(wide, [1], True)
    sub: f32[8184, 50257] = aten.sub.Tensor(wide, amax)
    exp: f32[8184, 50257] = aten.exp.default(sub)
    sum_1: f32[8184, 1] = aten.sum.dim_IntList(exp, [1], True)
    log: f32[8184, 1] = aten.log.default(sum_1)
    sub_1: f32[8184, 50257] = aten.sub.Tensor(sub, log)

What is written out here is what kernels do for the operator. Apart, backward can have the long rows again from the
short logits and the two reductions, and neither side writes them to memory.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from ..functional.graph import FunctionalGraph
from .rewriting import ATEN, Rewriter, is_call, size_hint
from .settings import STRICT, Settings

LEAST_ELEMENTS = 1 << 20
"""Of a result that is worth it."""
_MOVES = (ATEN.view.default, ATEN._unsafe_view.default, ATEN.clone.default, ATEN.slice.Tensor, ATEN.permute.default,
          ATEN.transpose.int, ATEN.t.default, ATEN.squeeze.dim, ATEN.unsqueeze.default)


def log_softmax_parts(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Take those apart whose input is a wide copy of something short."""
    rewriter = Rewriter(functional)
    for node in list(functional.graph.nodes):
        if is_call(node, ATEN._log_softmax.default) and _pays(node):
            x: Any = node.args[0]
            dim: Any = node.args[1]
            with rewriter.before(node):
                shifted = rewriter.call(ATEN.sub.Tensor, x, rewriter.call(ATEN.amax.default, x, [dim], True))
                total = rewriter.call(ATEN.sum.dim_IntList, rewriter.call(ATEN.exp.default, shifted), [dim], True)
                result = rewriter.call(ATEN.sub.Tensor, shifted, rewriter.call(ATEN.log.default, total))
            rewriter.replace(node, result)
    return rewriter.finish()


def _pays(node: torch.fx.Node) -> bool:
    value = node.meta["val"]
    if value.dtype is not torch.float32 or size_hint(value) < LEAST_ELEMENTS:
        return False
    source: Any = node.args[0]
    if source.meta["val"].dtype is not torch.float32 or source.meta["val"].stride() != value.stride():
        return False
    while is_call(source, *_MOVES):
        source = source.args[0]
    return is_call(source, ATEN._to_copy.default) and source.args[0].meta["val"].dtype.itemsize < value.dtype.itemsize \
        and source.args[0].meta["val"].is_floating_point()
