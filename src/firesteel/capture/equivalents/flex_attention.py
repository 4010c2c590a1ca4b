"""`flex_attention` and other higher-order operators of torch's that stand for functions over tensors.

Scores are computed whole, for all queries and keys, and the program's functions are mapped over them. Blocks that a
mask leaves out are computed and masked.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import torch

from .torch_functions import BY_NAME

# Where torch's mode is that reads places in tensors, `bias[h]`, while `h` is mapped over. It is imported by now.
_SUBSCRIPTS = "torch._dynamo._trace_wrapped_higher_order_op"
# What a function of (batch, head, query, key) is mapped over, one dimension after the other, the last one first.
_DIMENSIONS = ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None))


def flex_attention(operator: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                   score_mod: Callable[..., Any], block_mask: tuple[Any, ...], scale: float,
                   kernel_options: dict[str, Any], score_mod_other_buffers: tuple[Any, ...] = (),
                   mask_mod_other_buffers: tuple[Any, ...] = ()) -> Any:
    """Attention with scores that a function changes and a mask that another one makes: the result, and for each query
    the logarithm of the sum of weights and the largest score, both to the base of two."""
    groups = query.size(1) // key.size(1)
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    batch = query.size(0)
    key, value = key.expand(batch, -1, -1, -1), value.expand(batch, -1, -1, -1)
    precision = torch.float64 if query.dtype is torch.float64 else torch.float32
    scores = (query @ key.transpose(-2, -1)).to(precision) * scale
    places = [torch.arange(size, device=query.device) for size in scores.shape]
    change: Callable[..., Any] = score_mod
    mask: Callable[..., Any] = block_mask[-1]
    for dimensions in _DIMENSIONS:
        change = torch.vmap(change, (0, *dimensions, *([None] * len(score_mod_other_buffers))))
        mask = torch.vmap(mask, (*dimensions, *([None] * len(mask_mod_other_buffers))))
    with sys.modules[_SUBSCRIPTS].TransformGetItemToIndex():
        scores = torch.where(mask(*places, *mask_mod_other_buffers),
                             change(scores, *places, *score_mod_other_buffers).to(precision), -math.inf)
    empty = (scores == -math.inf).all(-1)
    sums = torch.where(empty, -math.inf, scores.logsumexp(-1))
    weights = torch.where(empty.unsqueeze(-1), 0.0, scores.softmax(-1))
    result = weights.to(query.dtype) @ value.to(query.dtype)
    strides = query.stride()
    order = sorted(range(query.dim()), key=lambda dim: (-strides[dim], dim))
    if order != list(range(query.dim())):  # in memory as the queries are
        back = sorted(range(query.dim()), key=lambda dim: order[dim])
        result = result.permute(order).contiguous().permute(back)
    return result, sums / math.log(2), scores.amax(-1) / math.log(2)


def hints_wrapper(operator: Any, function: Callable[..., Any], args: Any, kwargs: Any, hints: Any) -> Any:
    """A call of a function; what is said about it is for other compilers."""
    return function(*args, **kwargs)


BY_NAME["torch._higher_order_ops.flex_attention", "FlexAttentionHOP.__call__"] = flex_attention
BY_NAME["torch._higher_order_ops.hints_wrap", "HintsWrapper.__call__"] = hints_wrapper
