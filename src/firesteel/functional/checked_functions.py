"""Functions of torch that look at values to raise errors, and leave that out when tensors have no values."""

from __future__ import annotations

import torch

from .. import torch_compat
from ..fake import functions


def one_hot(x: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """``torch.nn.functional.one_hot`` of a given number of classes, which raises for others when the graph runs."""
    if not isinstance(num_classes, int | torch.SymInt) or num_classes <= 0 or x.device.type != "cpu":
        return functions.one_hot(x, num_classes)
    result = functions.one_hot(x, num_classes)  # which also refuses other dtypes
    torch_compat.check_when_run((x >= 0).all(), "Class values must be non-negative.")
    torch_compat.check_when_run((x < num_classes).all(), "Class values must be smaller than num_classes.")
    return result
