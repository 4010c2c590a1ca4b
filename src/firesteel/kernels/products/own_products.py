"""Large matrix products become calls of our own machine code where that is faster than the library that eager calls.

    mm: f32[1024, 3072] = aten.mm.default(x, w)

becomes

    product: f32[1024, 3072] = product(x, w)

On AMD's CPUs with AVX-512 that takes 4 to 30 percent less time than MKL; elsewhere it is measured, if there is a tuner.
The sums are made in the same stretches as the library's, so rounding errors are as small. Both matrices may be
transposed, as they are in the gradients of linear layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from ...devices import kind_of
from ...functional.graph import FunctionalGraph
from ...passes.rewriting import ATEN, Rewriter, is_call, number_hint
from ...passes.settings import STRICT, Settings
from .linear_library import mkl_is_slower

if TYPE_CHECKING:
    from ..tuning import Tuner


def own_products(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Products of matrices in single precision, with or without a bias for each column."""
    rewriter = Rewriter(functional)
    for node in functional.graph.nodes:
        parts = _product(node)
        if parts is not None and is_own(*parts, settings):
            from ..cpu.product import machine_code, product

            machine_code()
            with rewriter.before(node):
                own = rewriter.call(product, *(part for part in parts if part is not None), val=node.meta["val"])
            rewriter.replace(node, own)
    return rewriter.finish()


def _product(node: torch.fx.Node) -> tuple[torch.fx.Node, torch.fx.Node, torch.fx.Node | None] | None:
    """Left and right matrix and bias of a product; None for everything else."""
    args: Any = node.args
    if is_call(node, ATEN.mm.default) and not node.kwargs:
        return args[0], args[1], None
    if is_call(node, ATEN.addmm.default) and len(args) == 3 and not node.kwargs and args[0].meta["val"].ndim == 1:
        return args[1], args[2], args[0]
    return None


def is_own(left: torch.fx.Node, right: torch.fx.Node, bias: torch.fx.Node | None, settings: Settings) -> bool:
    """Whether a product is one that our own code computes faster."""
    from ..cpu import product

    given = [part.meta["val"] for part in (left, right, bias) if part is not None]
    if any(not kind_of(value).is_host or value.dtype is not torch.float32 for value in given):
        return False
    # With another precision eager rounds products to shorter floats, which is faster still.
    if torch.get_float32_matmul_precision() != "highest" or not product.is_available():
        return False
    x, w = given[:2]
    if not (any(map(_is_one, x.stride())) and any(map(_is_one, w.stride()))):
        return False
    if bias is not None and not (_is_one(given[2].stride(0)) and _is_same(given[2].shape[0], w.shape[1])):
        return False
    if settings.relaxed or _source(right) in settings.frozen:
        return False  # for `linear_library`: activations can be fused there, and weights be packed once
    if not product.is_large(number_hint(x.shape[0]), number_hint(w.shape[1]), number_hint(x.shape[1])):
        return False
    if not mkl_is_slower():
        return False  # and MKL adds up in another order there, with less rounding
    return settings.tuner is None or measures_faster(settings.tuner, x, w, bias is not None)


def _source(node: torch.fx.Node) -> Any:
    return node.args[0] if is_call(node, ATEN.t.default) else node


def _is_one(number: Any) -> bool:
    return isinstance(number, int) and number == 1


def _is_same(left: Any, right: Any) -> bool:
    """Whether two sizes are known to be equal: a bias of one element is spread, which our code does not do."""
    if isinstance(left, int) or isinstance(right, int):
        return isinstance(left, int) and isinstance(right, int) and left == right
    return bool(left.node.expr == right.node.expr)


def measures_faster(tuner: Tuner, left: Any, right: Any, has_bias: bool) -> bool:
    """Whether our code is faster for these sizes, on made-up tensors."""
    from ..cpu.product import product

    rows, depth, columns = (number_hint(size) for size in (*left.shape, right.shape[1]))
    turned = [not _is_one(value.stride(1)) for value in (left, right)]
    x = torch.ones(depth, rows).t() if turned[0] else torch.ones(rows, depth)
    w = torch.ones(columns, depth).t() if turned[1] else torch.ones(depth, columns)
    bias = torch.ones(columns) if has_bias else None

    def usual() -> Callable[[], object]:
        return lambda: torch.mm(x, w) if bias is None else torch.addmm(bias, x, w)

    def own() -> Callable[[], object]:
        return lambda: product(x, w, bias)

    layouts = ", ".join([f"{tuple(value.shape)}/{value.stride()}" for value in (x, w)])
    about = f"product of {layouts}{' with a bias' * has_bias}"
    with torch.no_grad():
        return tuner.choose(about, about, {"ATen": usual, "own": own}) == "own"
