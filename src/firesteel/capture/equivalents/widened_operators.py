"""``torch._higher_order_ops.out_dtype``: an operator computed in a wider dtype than that of its arguments."""

from __future__ import annotations

from typing import Any

import torch

from ... import torch_compat
from ...devices import kind_of
from .torch_functions import BY_NAME

# Those that torch takes.
_WIDENED = ("aten::linear", "aten::mm", "aten::conv2d", "aten::convolution", "aten::mul.Tensor", "aten::mul.Scalar",
            "aten::div.Tensor", "aten::div.Scalar")


def left_to_torch() -> None:
    """Ends the graph: a call that torch refuses, or one whose result torch does not differentiate."""


def lies_on_host(tensor: torch.Tensor) -> bool:
    """Whether a tensor is in the memory of the processor that runs Python."""
    return kind_of(tensor).is_host


def _widest(dtype: torch.dtype, args: Any) -> torch.dtype:
    """What tensors and numbers are promoted to, together with a dtype."""
    for arg in args:
        if isinstance(arg, (list, tuple)):
            dtype = _widest(dtype, arg)
        elif isinstance(arg, torch.Tensor):
            if not arg.dim() or arg.requires_grad and torch.is_grad_enabled():
                left_to_torch()
            dtype = torch.promote_types(dtype, arg.dtype)
        elif arg is not None and (not isinstance(arg, (int, float)) or dtype is torch.bool
                                  or isinstance(arg, float) and not dtype.is_floating_point):
            left_to_torch()
    return dtype


def out_dtype(operator: Any, op: Any, output_dtype: torch.dtype, *args: Any) -> Any:
    """The result of an operator on arguments of the promoted dtype, in the dtype that is asked for."""
    if not isinstance(op, torch_compat.OpOverload) or op.name() not in _WIDENED:
        left_to_torch()
    others = [arg for arg in args if isinstance(arg, torch.Tensor)
              and (arg.dtype is not torch.int8 or lies_on_host(arg))]
    if output_dtype is torch.int32 and op.name() == "aten::mm" and not others:
        return torch_compat.product_of_bytes(*args)
    promoted = _widest(output_dtype, args)
    if promoted is torch.bool:
        left_to_torch()
    casted = [arg.to(dtype=promoted) if isinstance(arg, torch.Tensor) else arg for arg in args]
    return op(*casted).to(dtype=output_dtype)


BY_NAME["torch._higher_order_ops.out_dtype", "OutDtypeOperator.__call__"] = out_dtype
