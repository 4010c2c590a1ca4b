"""Plain runs with other rounding: what they make of a number says how much of it is rounding errors.

A layer norm of a row whose numbers are nearly equal consists of little else. Compiled code adds in another order, so it
gets another result than eager does, and neither is better.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

RUNS = 8
"""How many runs with other rounding are looked at."""
FACTOR = 10.0
"""How many times as large a difference may be as those between such runs: sums add many rounding errors."""
EXACT = ("aten.clone", "aten.detach", "aten._to_copy", "aten.copy", "aten.lift", "aten.relu", "aten.where", "aten.cat",
         "aten.stack", "aten.index", "aten.slice", "aten.select", "aten.max", "aten.min", "aten.abs", "aten.neg")
# Whose results are differences of larger numbers.
CANCELLING = ("aten.native_layer_norm", "aten.native_group_norm", "aten.native_batch_norm", "aten._native_batch_norm",
              "aten.sum", "aten.mean", "aten.cumsum", "aten.var", "aten.std", "aten.mm", "aten.bmm", "aten.addmm",
              "aten._softmax_backward", "aten._log_softmax_backward")


class OtherRounding(TorchDispatchMode):
    """Every new floating point result of an operator is wrong in its last bit, or that of larger ones, here and
    there."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise torch wraps the method in something that imports torch._dynamo

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        schema = func._schema
        computes = any(isinstance(arg, torch.Tensor) or isinstance(arg, (list, tuple)) and any(
            isinstance(item, torch.Tensor) for item in arg) for arg in args)
        if computes and not str(func).startswith(EXACT) and not any(arg.alias_info for arg in (
                *schema.arguments, *schema.returns)):
            for part in result if isinstance(result, (list, tuple)) else [result]:
                if isinstance(part, torch.Tensor) and part.is_floating_point() and part.layout is torch.strided:
                    wrong = torch.randint(-1, 2, part.shape, generator=self.generator).to(part.dtype)
                    part.add_(_cancelled(func, args, result, part) * wrong, alpha=torch.finfo(part.dtype).eps)
        return result


def _cancelled(func: Any, args: Any, result: Any, part: torch.Tensor) -> torch.Tensor:
    """The size of the numbers that a part of an operator's result is the sum of."""
    if not str(func).startswith(CANCELLING) or not part.numel():
        return part.abs()
    size = part.abs().max()
    if func is torch.ops.aten.native_layer_norm_backward.default and part is result[0]:
        # Each gradient less their mean, times one over the row's deviation, which is huge where numbers are all equal.
        size = torch.maximum(size, args[0].abs().max() * args[4].abs()).to(part.dtype)
    return size


def is_rounding(plain: torch.Tensor, compiled: torch.Tensor, others: list[torch.Tensor]) -> bool:
    """Whether every number of two results is as far apart as in runs with other rounding."""
    apart = [(plain - other).abs() for other in others if other.shape == plain.shape]
    return bool(apart) and bool(((plain - compiled).abs() <= FACTOR * torch.stack(apart).amax(0)).all())
