"""Calls of ATen operators from a host program: the cheapest Python function with the same meaning.

Calling an `OpOverload` takes two microseconds more than calling the builtin inside of it, and the function that torch
binds for the same operator takes half a microsecond less than that. It chooses among overloads by its arguments, so it
stands in only for operators where there is nothing to choose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

from ... import torch_compat
from ...devices import kind_of
from ...torch_compat import native_calls

# Operators whose bound function takes the same arguments in the same order and can only mean this overload.
BOUND = frozenset({
    "aten.mm.default", "aten.bmm.default", "aten.addmm.default", "aten.baddbmm.default", "aten.mv.default",
    "aten.addmv.default", "aten.dot.default", "aten.convolution.default", "aten.sort.default", "aten.sort.stable",
    "aten.topk.default", "aten.argsort.default", "aten.cumsum.default",
    "aten.embedding.default", "aten.index_select.default", "aten.gather.default", "aten.native_layer_norm.default",
    "aten.native_group_norm.default", "aten.native_dropout.default", "aten._softmax.default",
    "aten._log_softmax.default", "aten._scaled_dot_product_flash_attention_for_cpu.default",
})


def function_of(target: Any) -> tuple[str, Callable[..., Any]]:
    """A readable name and what to call for an operator."""
    if not isinstance(target, torch_compat.OpOverload):
        return getattr(target, "__name__", "call").lstrip("_"), target
    name = torch_compat.operator_name(target)
    if name == "aten.nonzero.default":
        return "nonzero", nonzero
    if name == "aten.index.Tensor":
        return "index", index
    short = name.split(".")[1]
    if name in BOUND or (name.endswith(".out") and f"aten.{short}.default" in BOUND):
        bound = getattr(torch, short, None)
        if bound is not None:
            return short.lstrip("_"), bound
    return name.replace(".", "_").replace("_default", ""), native_calls.operator_function(target)


_FEW = 4096


def nonzero(x: torch.Tensor) -> torch.Tensor:
    """``torch.nonzero(x)``; the places in a long mask are NumPy's to find, up to twelve times as fast."""
    if x.dtype is not torch.bool or x.dim() != 1 or x.numel() < _FEW or not kind_of(x).is_host:
        return torch.nonzero(x)
    places = torch.from_numpy(numpy.flatnonzero(x.numpy()))
    count = places.numel()
    return places.as_strided((count, 1), (1, count))


def index(x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> torch.Tensor:
    """``x[indices]``; what a long mask chooses is taken by its places, which is up to twenty times as fast."""
    mask = indices[0]
    if len(indices) == 1 and mask is not None and mask.dtype is torch.bool and mask.numel() >= _FEW:
        dims = mask.dim()
        fits = mask.shape == x.shape[:dims] and x.is_contiguous() and mask.is_contiguous()
        if fits and kind_of(x).is_host and kind_of(mask).is_host:
            places = torch.from_numpy(numpy.flatnonzero(mask.numpy()))
            return torch.index_select(x if dims == 1 else x.flatten(0, dims - 1), 0, places)
    return _index(x, indices)  # type: ignore[no-any-return]


_index = native_calls.operator_function(torch.ops.aten.index.Tensor)


def returns_several(target: Any) -> bool:
    """Whether an operator returns a tuple or list, even of one."""
    if not isinstance(target, torch_compat.OpOverload):
        return bool(getattr(target, "returns_several", False))
    returns = torch_compat.schema_of(target).returns
    return len(returns) != 1 or str(returns[0].type).startswith("List")


def literal(value: Any) -> str | None:
    """A constant as Python source; None for one that has to be bound to a name."""
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value) if type(value) in (bool, int, str, type(None)) else None
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value)
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    return None
