"""What may be computed again in the backward pass instead of being kept, and what that costs.

Costs are fractions of the cost of keeping a result for as long as the forward pass takes: an elementwise operator at
0.04 is computed again unless 25 of them would have to be. Operators of libraries (matrix products, convolutions,
attention, sorting) and random numbers are never computed again.

Results of normalisations come from a reduction, but once its statistics are kept the rest is elementwise. `FORMULAS`
says how, by operator:

    out, mean, rstd = native_layer_norm(x, ...)     out = (x - mean) * rstd * weight + bias
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from operator import getitem
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..fake.dims import layout_of
from ..functional.operators import Kind, operator_of
from ..functional.views import same_numbers
from ..records import dataclass

_ATEN = torch.ops.aten

ELEMENTWISE = 0.04
COPY = 0.06
FORMULA = 0.16
REDUCTION = 1.5
"""More than keeping it, unless memory is short."""

# Of a tensor that is there in forward alone, backward is given the numbers.
_SIZES = frozenset({"aten.sym_size.int", "aten.sym_stride.int"})
# Operators that move elements.
_COPIES = frozenset({
    "aten.cat.default", "aten.clone.default", "aten._to_copy.default", "aten.constant_pad_nd.default",
    "aten.slice_scatter.default", "aten.select_scatter.default", "aten.diagonal_scatter.default",
    "aten.as_strided_scatter.default", "aten.flip.default", "aten.roll.default", "aten.repeat.default",
    "aten.stack.default", "aten.copy.default", "aten.where.self", "aten.masked_fill.Scalar", "aten.masked_fill.Tensor",
    "aten.tril.default", "aten.triu.default", "aten.fill.Scalar", "aten._unsafe_view.default",
    "aten.new_zeros.default", "aten.zeros_like.default", "aten.ones_like.default", "aten.full_like.default",
})
# Operators that read whole rows, worth computing again only when memory is short.
_REDUCTIONS = frozenset({
    "aten._softmax.default", "aten._log_softmax.default", "aten.sum.dim_IntList", "aten.sum.default",
    "aten.mean.dim", "aten.mean.default", "aten.amax.default", "aten.amin.default", "aten.var_mean.correction",
    "aten.native_layer_norm.default", "aten.native_group_norm.default", "aten.cumsum.default",
    "aten.max_pool2d_with_indices.default", "aten.avg_pool2d.default", "aten._adaptive_avg_pool2d.default",
    "aten.embedding.default", "aten.gather.default", "aten.index.Tensor", "aten.index_select.default",
    "aten.upsample_nearest2d.default", "aten.upsample_bilinear2d.default",
})


def price(node: torch.fx.Node) -> float | None:
    """What it costs to compute a node again, as a fraction of what keeping it would; None when it never is."""
    if node.op == "get_attr":
        return 0.0
    if node.op != "call_function":
        return None
    target = node.target
    if target is getitem:
        return 0.0
    if not isinstance(target, torch_compat.OpOverload):
        return None if hasattr(target, "bodies") else 0.0  # a control flow operator, or arithmetic on sizes
    operator = operator_of(target)
    if operator.random or operator.has_effect or operator.kind is Kind.WRITES:
        return None
    if "recompute" in node.meta or operator.kind is Kind.VIEW:
        return 0.0
    if "held" in node.meta:
        return REDUCTION  # a library reads it in both directions, from memory: making it again is no cheaper
    return _price_by_name(target, operator.name)


_prices: dict[int, tuple[Any, float | None]] = {}


def _price_by_name(target: Any, name: str) -> float | None:
    price = _prices.get(id(target))
    if price is None:
        schema = torch_compat.schema_of(target)
        tensors = any("Tensor" in str(argument.type) for argument in schema.arguments)
        value: float | None = None
        if name in _SIZES:
            value = 0.0
        elif name in _COPIES:
            value = COPY
        elif name in _REDUCTIONS:
            value = REDUCTION
        elif torch.Tag.pointwise in target.tags:
            value = ELEMENTWISE
        elif not tensors and name.startswith("aten.") and "empty" not in name:
            value = 0.01  # zeros, arange: nothing is read
        price = _prices[id(target)] = (target, value)
    return price[1]


def narrow(node: torch.fx.Node) -> torch.dtype | None:
    """A smaller dtype that holds all values a node can have: masks of dropout, places of maxima."""
    if isinstance(node.target, torch_compat.OpOverload):
        return torch.bool if operator_of(node.target).name in _ZEROS_AND_ONES else None
    parent = node.args[0] if node.target is getitem and node.args[1] == 1 else None
    if not isinstance(parent, torch.fx.Node) or not isinstance(parent.target, torch_compat.OpOverload):
        return None
    if operator_of(parent.target).name not in _PLACES:
        return None
    pooled: Any = parent.args[0]
    sizes = pooled.meta["val"].shape[_PLACES[operator_of(parent.target).name]:]
    if not all(type(size) is int for size in sizes):
        return None
    places = math.prod(sizes)
    return torch.int16 if places <= 1 << 15 else torch.int32 if places <= 1 << 31 else None


_ZEROS_AND_ONES = frozenset({"aten.bernoulli.p", "aten.bernoulli.default", "aten.bernoulli.Tensor",
                             "firesteel.bernoulli_strided.default"})
# Operators whose second result are places in the last dimensions of their first argument, and which of these.
_PLACES = {"aten.max_pool2d_with_indices.default": -2, "aten.max_pool3d_with_indices.default": -3,
           "aten.adaptive_max_pool2d.default": -2, "aten.adaptive_max_pool3d.default": -3}


@dataclass(frozen=True)
class Formula:
    """A second way to compute a node, from other nodes."""

    sources: tuple[torch.fx.Node, ...]
    emit: Callable[[Emitter, dict[torch.fx.Node, Any]], torch.fx.Node]
    """Adds nodes that compute it, from those that its sources have become."""


Emitter = Callable[..., torch.fx.Node]
"""Adds a call of an operator: ``emit(operator, *arguments)``."""


def formula(node: torch.fx.Node) -> Formula | None:
    """A way to compute a result of a normalisation from its statistics."""
    if node.target is not getitem or node.args[1] != 0:
        return None
    parent = node.args[0]
    assert isinstance(parent, torch.fx.Node)
    if not isinstance(parent.target, torch_compat.OpOverload):
        return None
    make = _FORMULAS.get(operator_of(parent.target).name)
    if make is None:
        return None
    source: Any = parent.args[0]
    if not same_numbers(layout_of(source.meta["val"])[1], layout_of(node.meta["val"])[1]):
        return None  # elementwise operators would give the strides of their input
    return make(node, parent)


def _results(parent: torch.fx.Node) -> dict[int, torch.fx.Node]:
    return {int(user.args[1]): user for user in parent.users if user.target is getitem}  # type: ignore[arg-type]


def _plain(*nodes: Any) -> bool:
    """Whether all are tensors of one precision in which nothing is rounded on the way."""
    kinds = {node.meta["val"].dtype for node in nodes if node is not None}
    return len(kinds) == 1 and kinds <= {torch.float32, torch.float64}


def _layer_norm(node: torch.fx.Node, parent: torch.fx.Node) -> Formula | None:
    x, _, weight, bias = parent.args[:4]
    results = _results(parent)
    mean, rstd = results.get(1), results.get(2)
    if mean is None or rstd is None or not _plain(x, weight, bias, mean, rstd):
        return None
    return Formula(tuple(item for item in (x, mean, rstd, weight, bias) if isinstance(item, torch.fx.Node)),
                   functools.partial(_normalised, x, mean, rstd, weight, bias, None))


def _batch_norm(node: torch.fx.Node, parent: torch.fx.Node) -> Formula | None:
    x, weight, bias = parent.args[:3]
    results = _results(parent)
    mean, rstd = results.get(1), results.get(2)
    training = parent.args[3 if operator_of(parent.target).name.endswith("no_stats") else 5]
    if training is not True or mean is None or rstd is None or not _plain(x, weight, bias, mean, rstd):
        return None
    rank = x.meta["val"].dim()  # type: ignore[union-attr]
    return Formula(tuple(item for item in (x, mean, rstd, weight, bias) if isinstance(item, torch.fx.Node)),
                   functools.partial(_normalised, x, mean, rstd, weight, bias, rank))


def _normalised(x: Any, mean: Any, rstd: Any, weight: Any, bias: Any, channels_of: int | None, emit: Emitter,
                new: dict[torch.fx.Node, Any]) -> torch.fx.Node:
    def shaped(node: Any) -> Any:
        if channels_of is None:
            return new[node]
        return emit(_ATEN.view.default, new[node], [1, -1, *[1] * (channels_of - 2)])

    result = emit(_ATEN.sub.Tensor, new[x], shaped(mean))
    result = emit(_ATEN.mul.Tensor, result, shaped(rstd))
    if weight is not None:
        result = emit(_ATEN.mul.Tensor, result, shaped(weight))
    if bias is not None:
        result = emit(_ATEN.add.Tensor, result, shaped(bias))
    return result


_FORMULAS: dict[str, Callable[[torch.fx.Node, torch.fx.Node], Formula | None]] = {
    "aten.native_layer_norm.default": _layer_norm,
    "aten._native_batch_norm_legit_functional.default": _batch_norm,
    "aten.native_batch_norm.default": _batch_norm,
    "aten._native_batch_norm_legit.no_stats": _batch_norm,
}
