"""A table of embeddings that is used elsewhere too: its two gradients are added in the memory of one of them.

    mm: f32[50257, 768] = aten.mm.default(a, b)
    rows: f32[50257, 768] = aten.embedding_dense_backward.default(grad, indices, 50257, -1, False)
    add: f32[50257, 768] = aten.add.Tensor(mm, rows)

becomes

    add: f32[50257, 768] = firesteel.add_embedding_gradient.default(mm, grad, indices, -1)

which adds some rows to a table instead of adding two tables, one of them mostly zeros.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from ..functional.graph import FunctionalGraph
from ..torch_compat.embedding_operators import add_embedding_gradient
from .rewriting import ATEN, Rewriter, is_call, same_layout
from .settings import STRICT, Settings


def embedding_gradients(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Sums of a tensor and the gradient of an embedding. In short floats that gradient is rounded by itself."""
    rewriter = Rewriter(functional)
    for node in functional.graph.nodes:
        if not is_call(node, ATEN.add.Tensor) or node.meta["val"].dtype not in (torch.float32, torch.float64):
            continue
        for rows, other in (node.args, reversed(node.args)):
            if not _is_gradient(rows) or not _fits(other, node):
                continue
            grad, indices, _, padding = rows.args[:4]
            with rewriter.before(node):
                total = rewriter.call(add_embedding_gradient(), other, grad, indices, padding, val=node.meta["val"])
            rewriter.replace(node, total)
            break
    return rewriter.finish()


def _is_gradient(node: Any) -> bool:
    """Whether a node is the gradient of an embedding, wanted for this sum only, with a plain padding index."""
    return is_call(node, ATEN.embedding_dense_backward.default) and len(node.users) == 1 and not node.kwargs \
        and node.args[4] is False and isinstance(node.args[3], int)


def _fits(other: Any, node: torch.fx.Node) -> bool:
    return isinstance(other, torch.fx.Node) and not node.kwargs and same_layout(other.meta["val"], node.meta["val"])
