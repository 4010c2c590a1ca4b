"""On a GPU the library's product with a bias takes in the relu behind it.

    addmm: bf16[512, 1024] = aten.addmm.default(bias, x, w)
    relu: bf16[512, 1024] = aten.relu.default(addmm)
    mm: bf16[512, 256] = aten.mm.default(relu, v)

becomes

    relu: bf16[512, 1024] = aten._addmm_activation.default(bias, x, w)
    mm: bf16[512, 256] = aten.mm.default(relu, v)

Rounding and relu give the same in either order. Where a kernel reads the result, that kernel computes the relu.
"""

from __future__ import annotations

from typing import Any

import torch.fx

from ...functional.graph import FunctionalGraph
from ...passes.rewriting import ATEN, Rewriter, is_call
from ...passes.settings import STRICT, Settings


def relu_products(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Products whose only user is a relu that nothing else would compute on the way."""
    rewriter = Rewriter(functional)
    for node in list(functional.graph.nodes):
        if is_call(node, ATEN.relu.default) and _fits(node):
            product: Any = node.args[0]
            with rewriter.before(node):
                fused = rewriter.call(ATEN._addmm_activation.default, *product.args, val=node.meta["val"])
            rewriter.replace(node, fused)
    return rewriter.finish()


def _fits(relu: torch.fx.Node) -> bool:
    from ..lowering.policy import consumers, needs_memory

    product: Any = relu.args[0]
    if not is_call(product, ATEN.addmm.default) or product.kwargs or len(product.users) > 1:
        return False
    bias, value = product.args[0].meta["val"], product.meta["val"]
    if bias.ndim != 1 or bias.shape[0] != value.shape[1] or value.dtype is not bias.dtype:
        return False
    return value.dtype.is_floating_point and value.dtype.itemsize <= 4 and all(map(needs_memory, consumers(relu)))
