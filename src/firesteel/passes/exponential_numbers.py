"""Exponential numbers on the CPU, and samples that are drawn with them, from uniform ones of torch's generator.

    item: i64[1] = aten.multinomial.default(probs, 1)

becomes

    uniform: f64[1024] = aten.rand.default([1024], dtype=float64)
    numbers: f32[1024] = -log1p(-uniform)                                as float32
    item: i64[1] = aten.argmax.default(probs / numbers, -1, True)
    assert amin(probs) >= 0 and amax(probs) < inf; assert amax(probs) > 0

Eager computes one logarithm after the other, which takes three quarters of its time for a sample; kernels compute many
at once. The generator gives the same numbers, in the same order, and is left in the same state. Left alone are
operators with a generator of their own, short floats, and tensors whose elements eager does not fill one after the
other.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.fx

from ..devices import kind_of
from ..functional.graph import FunctionalGraph
from ..torch_compat.cpu_random import exponential_is_logarithm
from .rewriting import ATEN, Rewriter, is_call
from .settings import STRICT, Settings

_DTYPES = (torch.float32, torch.float64)
NOT_FINITE = "probability tensor contains either `inf`, `nan` or element < 0"
NOTHING = "invalid multinomial distribution (sum of probabilities <= 0)"


def exponential_numbers(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Draw uniform numbers where exponential ones or single samples are drawn."""
    rewriter = Rewriter(functional)
    for node in list(functional.graph.nodes):
        if is_call(node, ATEN.multinomial.default, ATEN.exponential.default) and _is_plain(node) \
                and exponential_is_logarithm():
            with rewriter.before(node):
                new = _sample(rewriter, node) if is_call(node, ATEN.multinomial.default) else _numbers(rewriter, node)
            rewriter.replace(node, new)
            rewriter.graph.erase_node(node)
    return rewriter.finish()


def _is_plain(node: torch.fx.Node) -> bool:
    """Whether a node draws from the default generator, one number for each element in turn."""
    given: Any = node.args[0]
    value = given.meta["val"] if isinstance(given, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.dtype not in _DTYPES or not kind_of(value).is_host \
            or node.kwargs.get("generator") is not None or not value.is_contiguous():
        return False
    if is_call(node, ATEN.multinomial.default):
        return isinstance(node.args[1], int) and node.args[1] == 1
    rate = _rate(node)
    return type(rate) in (int, float) and 0 < rate < math.inf


def _rate(node: torch.fx.Node) -> Any:
    return node.args[1] if len(node.args) > 1 else node.kwargs.get("lambd", 1.0)


def _numbers(rewriter: Rewriter, node: torch.fx.Node) -> torch.fx.Node:
    """Exponential numbers in the shape of the first argument."""
    given: Any = node.args[0]
    value = given.meta["val"]
    if all(isinstance(size, int) for size in value.shape):
        uniform = rewriter.call(ATEN.rand.default, list(value.shape), dtype=torch.float64, device=value.device)
    else:
        uniform = rewriter.call(ATEN.rand_like.default, given, dtype=torch.float64)
    logarithm = rewriter.call(ATEN.log1p.default, rewriter.call(ATEN.neg.default, uniform))
    rate = 1.0 if is_call(node, ATEN.multinomial.default) else float(_rate(node))
    numbers = rewriter.call(ATEN.mul.Tensor, logarithm, -1.0 / rate)
    return rewriter.call(ATEN._to_copy.default, numbers, dtype=value.dtype) if value.dtype is torch.float32 else numbers


def _sample(rewriter: Rewriter, node: torch.fx.Node) -> torch.fx.Node:
    """One sample of each row, and the checks that eager makes of the weights."""
    weights, call = node.args[0], rewriter.call
    sample = call(ATEN.argmax.default, call(ATEN.div.Tensor, weights, _numbers(rewriter, node)), -1, True)
    least, most = call(ATEN.amin.default, weights, [-1]), call(ATEN.amax.default, weights, [-1])
    fine = call(ATEN.logical_and.default, call(ATEN.ge.Scalar, least, 0), call(ATEN.lt.Scalar, most, math.inf))
    call(ATEN._assert_async.msg, call(ATEN.all.default, fine), NOT_FINITE)
    call(ATEN._assert_async.msg, call(ATEN.all.default, call(ATEN.gt.Scalar, most, 0)), NOTHING)
    return sample
