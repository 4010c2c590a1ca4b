"""Products of one row with a transposed matrix become products of a matrix with a vector, which are loops of our own.

    t: f32[512, 1376]/[1, 512] = aten.t.default(weight)
    addmm: f32[1, 1376] = aten.addmm.default(bias, x, t)

becomes

    select_int: f32[512] = aten.select.int(x, 0, 0)
    addmv_default: f32[1376] = aten.addmv.default(bias, weight, select_int)
    unsqueeze_default: f32[1, 1376] = aten.unsqueeze.default(addmv_default, 0)

That is what the linear layers of a language model are while it writes one token after the other. Every weight is used
once, so memory sets the time: the loops read it as fast as it can be read, MKL on AMD's CPUs at half that speed. They
also round less, because they add up in more accumulators, and take in what is computed behind them.
"""

from __future__ import annotations

import torch
import torch.fx

from ...devices import kind_of
from ...functional.graph import FunctionalGraph
from ...passes.rewriting import ATEN, Rewriter, same_layout
from ...passes.settings import STRICT, Settings
from .linear_library import linear_parts, mkl_is_slower


def row_products(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Products in single precision whose left side has one row."""
    rewriter = Rewriter(functional)
    for node in functional.graph.nodes:
        parts = linear_parts(node)
        if parts is None or not is_row_product(*parts):
            continue
        x, weight, bias = parts
        with rewriter.before(node):
            row = rewriter.call(ATEN.select.int, x, 0, 0)
            result = rewriter.call(ATEN.mv.default, weight, row) if bias is None \
                else rewriter.call(ATEN.addmv.default, bias, weight, row)
            result = rewriter.call(ATEN.unsqueeze.default, result, 0)
        if same_layout(node.meta["val"], result.meta["val"]):
            rewriter.replace(node, result)
    return rewriter.finish()


def is_row_product(x: torch.fx.Node, weight: torch.fx.Node, bias: torch.fx.Node | None) -> bool:
    """Whether a product with a transposed matrix is one that loops compute faster."""
    given = [part.meta["val"] for part in (x, weight, bias) if part is not None]
    if any(not kind_of(value).is_host or value.dtype is not torch.float32 for value in given):
        return False
    rows, step = given[0].shape[0], given[1].stride(1)
    if not (isinstance(rows, int) and rows == 1 and isinstance(step, int) and step == 1):
        return False
    # With another precision eager rounds products to shorter floats, which is faster still.
    return torch.get_float32_matmul_precision() == "highest" and mkl_is_slower()
