"""Whether results in short floats lie as near to those in float64 as eager's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

SHORTER = (torch.float32, torch.bfloat16, torch.float16)


def nearer(observe: Callable[..., Any], given: Any, want: Any, got: Any, worse: float = 8.0) -> bool:
    """Whether results that differ from eager's are about as near to those in double precision: ``worse`` times as far.

    Eager on a GPU rounds at other places than eager on the CPU, so short floats differ in their last bits. Random
    programs have sums that cancel, of which the CPU's eager happens to be nearer by more than twice now and then.
    """
    def widened(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in SHORTER:
            return value.detach().double().requires_grad_(value.requires_grad)
        return torch.float64 if isinstance(value, torch.dtype) and value in SHORTER else value

    exact = observe(*pytree.tree_map(widened, given))
    if any(isinstance(side, Exception) for side in (exact, want, got)):
        return False
    sides = [[leaf for leaf in pytree.tree_leaves(side) if isinstance(leaf, torch.Tensor)]
             for side in (exact, want, got)]
    if len({len(side) for side in sides}) != 1:
        return False
    norms = [true.double().nan_to_num(0, 0, 0).norm().item() for true in sides[0]]
    for true, eager, ours, norm in zip(*sides, norms, strict=True):
        if true.numel() and eager.is_floating_point():
            # What should be zero, such as the gradient of a factor in front of a normalisation, is rounding errors.
            unit = torch.finfo(eager.dtype).eps * (norm + 0.05 * max(norms))
            errors = [(true.double() - side.double()).nan_to_num(0, 0, 0).norm().item() for side in (eager, ours)]
            if not errors[1] <= worse * errors[0] + (32 if eager.dtype is torch.float32 else 1) * unit:
                return False
        elif not torch.equal(eager, ours):
            return False
    return True
