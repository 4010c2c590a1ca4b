"""A convolution of a concatenation is the sum of convolutions of its parts.

    cat: f32[4, 64, 96, 96] = cat([up, skip], 1)
    conv: f32[4, 32, 96, 96] = convolution(cat, w, b, ...)

becomes

    left: f32[4, 32, 96, 96] = convolution(up, w[:, :32], b, ...)
    right: f32[4, 32, 96, 96] = convolution(skip, w[:, 32:], None, ...)
    conv: f32[4, 32, 96, 96] = add(left, right)

That is done where the whole convolution adds up too many products to be exact enough with channels last
(`channels_last`), and the parts do not: they then have the faster layout, and nothing is concatenated. There is as much
to multiply as before, and the sum is fused into what follows.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from ..functional.graph import FunctionalGraph
from .channels_last import MOST_PRODUCTS, few_weights, is_pointwise, products
from .rewriting import ATEN, Rewriter, is_call, number_hint
from .settings import STRICT, Settings

BLOCK = 16
"""The library computes with so many channels at a time: fewer would be no less work."""


def convolution_parts(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Take convolutions of two parts apart."""
    rewriter = Rewriter(functional)
    for node in functional.graph.nodes:
        if is_call(node, ATEN.convolution.default) and not settings.relaxed and _fits(node):
            _split(rewriter, node)
    return rewriter.finish()


def _fits(node: torch.fx.Node) -> bool:
    args: Any = node.args
    whole, weight, transposed, groups = args[0], args[1].meta["val"], args[6], args[8]
    if not is_call(whole, ATEN.cat.default) or len(whole.users) != 1 or transposed or groups != 1 or is_pointwise(node):
        return False
    parts = whole.args[0]
    values = [part.meta["val"] for part in parts]
    if len(parts) != 2 or parts[0] is parts[1] or len(whole.args) < 2 or whole.args[1] not in (1, -3):
        return False
    if any(value.ndim != 4 or value.dtype is not torch.float32 for value in (*values, weight)):
        return False
    if not all(value.is_contiguous() for value in (*values, node.meta["val"])):
        return False  # with another layout it is what the program asks for
    each = products(weight) // number_hint(weight.shape[1])
    channels = [value.shape[1] for value in values]
    if any(type(count) is not int or count % BLOCK or count * each > MOST_PRODUCTS for count in channels):
        return False
    return sum(channels) * each > MOST_PRODUCTS and few_weights(node)


def _split(rewriter: Rewriter, node: torch.fx.Node) -> None:
    args: Any = node.args
    whole, weight, bias = args[:3]
    parts: list[torch.fx.Node] = []
    start = 0
    with rewriter.before(node):
        for part in whole.args[0]:
            end = start + part.meta["val"].shape[1]
            own = rewriter.call(ATEN.slice.Tensor, weight, 1, start, end)
            parts.append(rewriter.call(ATEN.convolution.default, part, own, None if parts else bias, *args[3:]))
            start = end
        total = rewriter.call(ATEN.add.Tensor, *parts, val=node.meta["val"])
    rewriter.replace(node, total)
