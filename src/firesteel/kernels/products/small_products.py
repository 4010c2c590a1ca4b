"""Small matrix products become loops of our own where that measures faster than the call of a library.

    mm: f32[4, 8] = aten.mm.default(x, w)

becomes, with a tuner that finds it faster,

    rows: f32[4, 16, 1] = aten.unsqueeze.default(x, 2)
    columns: f32[1, 16, 8] = aten.unsqueeze.default(w, 0)
    products: f32[4, 16, 8] = aten.mul.Tensor(rows, columns)
    sum: f32[4, 8] = aten.sum.dim_IntList(products, [1])

which is one kernel, with whatever is computed before and after it. Without a tuner nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from ...devices import kind_of
from ...functional.graph import FunctionalGraph
from ...passes.rewriting import ATEN, Rewriter, is_call, same_layout
from ...passes.settings import STRICT, Settings

if TYPE_CHECKING:
    from ..tuning import Tuner

MOST_WORK = 1 << 16
"""Multiplications up to which the call itself takes a good part of the time."""


def small_products(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Products of which both ways are measured."""
    rewriter = Rewriter(functional)
    for node in functional.graph.nodes if settings.tuner is not None else ():
        if not _is_small(node):
            continue
        values = [arg.meta["val"] for arg in node.args]
        layout = ", ".join([f"{tuple(v.shape)}/{tuple(v.stride())}" for v in values])
        about = f"{node.target} of {layout} {values[0].dtype}"
        assert settings.tuner is not None
        ways = {"library": _prepared(node, values, False, settings.tuner),
                "loops": _prepared(node, values, True, settings.tuner)}
        if settings.tuner.choose(f"{node.name}: {about}", f"small product {about}", ways) == "library":
            continue
        with rewriter.before(node):
            total = by_loops(node.target, node.args, rewriter.call)
        if same_layout(node.meta["val"], total.meta["val"]):
            rewriter.replace(node, total)
    return rewriter.finish()


def _is_small(node: torch.fx.Node) -> bool:
    if not is_call(node, ATEN.mm.default, ATEN.bmm.default, ATEN.addmm.default) or node.kwargs:
        return False
    tensors = [arg.meta["val"] for arg in node.args if isinstance(arg, torch.fx.Node)]
    if len(tensors) < len(node.args) or not all(kind_of(t).is_host for t in tensors):
        return False
    # In short floats products would be rounded before they are added.
    if any(t.dtype is not node.meta["val"].dtype for t in tensors) or \
            node.meta["val"].dtype not in (torch.float32, torch.float64):
        return False
    sizes = (*node.meta["val"].shape, tensors[-1].shape[-2])
    if not all(isinstance(size, int) for t in tensors for size in (*t.shape, *t.stride())):
        return False
    work = 1
    for size in sizes:
        work *= size
    return 0 < work <= MOST_WORK


def by_loops(target: Any, args: Any, call: Callable[..., Any]) -> Any:
    """A product as a sum of products; ``call`` calls operators."""
    left, right = args[-2:]
    dim = 2 if target is ATEN.bmm.default else 1
    products = call(ATEN.mul.Tensor, call(ATEN.unsqueeze.default, left, dim + 1),
                    call(ATEN.unsqueeze.default, right, dim - 1))
    total = call(ATEN.sum.dim_IntList, products, [dim])
    return call(ATEN.add.Tensor, total, args[0]) if target is ATEN.addmm.default else total


def _prepared(node: torch.fx.Node, values: list[Any], loops: bool, tuner: Tuner) -> Callable[[], Callable[[], object]]:
    """A program of this product alone, on made-up tensors."""

    def prepare() -> Callable[[], object]:
        from ...functional import trace

        inputs = [torch.ones(tuple(v.shape), dtype=v.dtype).as_strided(v.shape, v.stride())
                  if _is_dense(v) else torch.ones(tuple(v.shape), dtype=v.dtype) for v in values]
        graph = torch.fx.Graph()
        args = [graph.placeholder(f"x{k}") for k in range(len(inputs))]

        def call(target: Any, *args: Any) -> torch.fx.Node:
            return graph.call_function(target, args)

        graph.output((by_loops(node.target, args, call) if loops else call(node.target, *args),))
        assert tuner.compile is not None
        with torch.no_grad():
            run = tuner.compile(trace(torch.fx.GraphModule(torch.nn.Module(), graph), inputs))
        return lambda: run(*inputs)

    return prepare


def _is_dense(value: Any) -> bool:
    """Whether a layout fits into as much memory as it has elements."""
    return sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True)) < max(value.numel(), 1)
